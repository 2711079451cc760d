"""Layer 1, pure. When is a failed attempt tried again, and when is it given up?"""

import builtins
import sys
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from wakeful.values.codec import is_same_home
from wakeful.values.errors import BadOption
from wakeful.values.times import Duration, duration_ms

ALARM_RETRIES_MAX = 6
ALARM_BACKOFF_MS = 2_000
JITTER = 0.25
# A process that died this often while one timer ran was most likely killed by it.
CRASHES_MAX = 3
# Failures that are ours are tried again without being counted, this much later at first and at most.
PLATFORM_BACKOFF_MS = 50
PLATFORM_BACKOFF_MAX_MS = 5_000
GROWTH_MAX = 1e300  # of a wait, past which there are no numbers


def alarm_delay_ms(failures: int, roll: float) -> int | None:
    """How long after the n-th failure (from 1) the next attempt comes: 2, 4, … 64 s plus up to 25 %; None: no more."""
    if failures > ALARM_RETRIES_MAX:
        return None
    return int(ALARM_BACKOFF_MS * 2 ** (failures - 1) * (1 + JITTER * roll))


def platform_delay_ms(tries: int, roll: float) -> int:
    """How long to wait before asking again for something of ours that is away, after that many tries."""
    return int(min(PLATFORM_BACKOFF_MAX_MS, PLATFORM_BACKOFF_MS * 2 ** min(tries, 16)) * (1 - JITTER * roll))


class Backoff(Struct, frozen=True, array_like=True):
    """How the waits between attempts grow."""

    first_ms: int
    factor: float
    most_ms: int


def exponential(first: Duration = "2s", *, factor: float = 2.0, max: Duration = "10m") -> Backoff:
    """Each wait is `factor` times the one before, never longer than `max`.

    >>> from wakeful import RetryPolicy, exponential
    >>> policy = RetryPolicy(max_attempts=10, backoff=exponential("1s", factor=3, max="1m"))
    >>> [policy.delay_ms(failures, OSError(), 0.0) for failures in (1, 2, 3, 4, 5)]
    [1000, 3000, 9000, 27000, 60000]
    """
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 100:
        raise BadOption(f"factor must be a number from 1 to 100, not {factor!r}", code="retry.factor")
    first_ms = duration_ms(first, what="first wait")
    return Backoff(first_ms, float(factor), duration_ms(max, what="longest wait"))


def fixed(wait: Duration) -> Backoff:
    """The same wait before every attempt.

    >>> from wakeful import RetryPolicy, fixed
    >>> policy = RetryPolicy(max_attempts=3, backoff=fixed("30s"))
    >>> [policy.delay_ms(failures, OSError(), 0.0) for failures in (1, 2, 3)]
    [30000, 30000, None]
    """
    wait_ms = duration_ms(wait, what="wait")
    return Backoff(wait_ms, 1.0, wait_ms)


class Retry(Struct, frozen=True, array_like=True):
    """A retry policy as it is kept."""

    max_attempts: int = 5
    backoff: Backoff = Backoff(2_000, 2.0, 600_000)
    on: tuple[Any, ...] = ()  # exception types, by name once they are kept

    def delay_ms(self, failures: int, error: BaseException, roll: float) -> int | None:
        """How long after the n-th failure (from 1) the next attempt comes, jittered by at most a quarter; None: no more."""
        if failures >= self.max_attempts:
            return None
        if self.on and not _is_among(error, self.on):
            return None
        try:
            growth = self.backoff.factor ** (failures - 1)
        except OverflowError:
            growth = GROWTH_MAX
        wait = min(float(self.backoff.most_ms), self.backoff.first_ms * growth)
        return int(wait * (1 + JITTER * roll))


class RetryPolicy(Retry, frozen=True):
    """How often a failing run is tried, after what waits, and for which errors (all of them when none is named).

    >>> from wakeful import App, DurableObject, RetryPolicy, exponential
    >>> app = App()
    >>> @app.object
    ... class Mail(DurableObject):
    ...     async def send(self) -> None:
    ...         raise ConnectionError("no route")
    >>> policy = RetryPolicy(max_attempts=3, backoff=exponential("10s", max="5m"), on=(ConnectionError,))
    >>> async with app.world() as world:
    ...     job = await app.jobs.schedule(app.get(Mail, "a").send, retry=policy)
    ...     await world.advance(minutes=1)
    ...     job = await app.jobs.get(job.id)
    ...     print(job.state, job.attempt, job.error)
    failed 3 ConnectionError: no route
    """

    def __post_init__(self) -> None:
        count = self.max_attempts
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1_000:
            raise BadOption(f"max_attempts must be a whole number from 1 to 1000, not {count!r}", code="retry.attempts")
        if not isinstance(self.backoff, Backoff):
            raise BadOption(f"backoff must be exponential(…) or fixed(…), not {self.backoff!r}", code="retry.backoff")
        force_setattr(self, "on", _names(self.on))

    @property
    def kept(self) -> Retry:
        """Checked once, here, and not each time that it is read."""
        return Retry(self.max_attempts, self.backoff, self.on)


def _is_among(error: BaseException, names: tuple[str, ...]) -> bool:
    """The error is of one of these types; a group also if all that is in it are."""
    if any(_is_named(kind, name) for kind in type(error).__mro__ for name in names):
        return True
    return isinstance(error, BaseExceptionGroup) and all(_is_among(one, names) for one in error.exceptions)


def _is_named(kind: type, name: str) -> bool:
    if name == _name(kind):
        return True
    end = f".{kind.__qualname__}"
    return name.endswith(end) and is_same_home(name.removesuffix(end), kind.__module__)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _full(name: str) -> str:
    """The full name of an error type; those that Python has are known without."""
    if "." in name.strip("."):
        module, _, short = name.rpartition(".")
        known = getattr(sys.modules.get(module), short, None)  # json.JSONDecodeError is at home in json.decoder
        return _name(known) if isinstance(known, type) and issubclass(known, BaseException) else name
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise BadOption(
            f"on={name!r}: no error of Python's own is called that; give the class, or its full name, as in 'shop.Declined'",
            code="retry.on",
        )
    return _name(kind)


def _names(on: object) -> tuple[str, ...]:
    """Error types by name: a policy is data, and outlives the process that made it."""
    kinds = on if isinstance(on, Iterable) and not isinstance(on, str) else (on,)
    names = []
    for kind in kinds:
        if isinstance(kind, str):
            names.append(_full(kind))
        elif isinstance(kind, type) and issubclass(kind, BaseException):
            names.append(_name(kind))
        else:
            raise BadOption(f"on={kind!r}: give exception types", code="retry.on")
    return tuple(names)
