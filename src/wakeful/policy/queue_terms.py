"""Layer 1, pure. What may a queue let go, of whom, and when may the next one go?"""

import re
from dataclasses import KW_ONLY, dataclass

from msgspec import Struct

from wakeful.values.errors import BadName, BadOption, BadTime
from wakeful.values.ids import why_no_name
from wakeful.values.times import Duration, duration_ms

NAME_BYTES_MAX = 200  # it is the key of the object that keeps the queue
KEY_BYTES_MAX = 200  # of whom something is: it goes with each that waits
COUNT_MAX = 1_000_000  # at once, or in a period
PERIOD_MAX_MS = 31 * 86_400_000
# How many starts are remembered one by one; of more the closest are counted as one, at the later of their times. So
# what is kept has an end, whatever the rate, and the rate is never passed: only a little less than it may go.
MARKS_MAX = 32

_RATE = re.compile(r"([0-9]{1,9})\s*/\s*([0-9a-z]{1,20})")

Starts = tuple[tuple[int, int], ...]  # (when, how many), oldest first


class Rate(Struct, array_like=True, frozen=True, gc=False):
    """So many in any stretch of that length."""

    count: int
    period_ms: int

    def __str__(self) -> str:
        return f"{self.count}/{_length(self.period_ms)}"


class QueueTerms(Struct, array_like=True, frozen=True, gc=False):
    """What a queue is told to hold to. Fields are only ever added, at the end, with a default."""

    concurrency: int | None = None
    rate: Rate | None = None
    key_concurrency: int | None = None
    key_rate: Rate | None = None
    throttle: Rate | None = None
    debounce_ms: int = 0
    debounce_most_ms: int = 0


NO_TERMS = QueueTerms()


@dataclass(frozen=True, slots=True)
class Queue:
    """Where jobs wait for their turn: no more of them run at once, or in a stretch of time, than the queue allows.

    `concurrency` and `rate` hold for the whole queue, `key_concurrency` and `key_rate` for each `key`; keys take turns.
    `throttle` drops what exceeds it, of each key; with `debounce` the newest of a key replaces the one that waits.

    >>> from wakeful import App, DurableObject, Queue
    >>> app = App()
    >>> @app.object
    ... class Mail(DurableObject):
    ...     async def send(self) -> None:
    ...         print(self.ctx.key, "at", self.ctx.now().strftime("%H:%M:%S"))
    >>> async with app.world() as world:
    ...     for key in ("ann", "bob", "eve"):
    ...         job = await app.jobs.schedule(app.get(Mail, key).send, queue=Queue("mail", rate="2/m"))
    ...     await world.advance(minutes=5)
    ann at 00:00:00
    bob at 00:00:00
    eve at 00:01:00
    """

    name: str
    _: KW_ONLY
    concurrency: int | None = None
    rate: str | None = None
    key: str | None = None
    key_concurrency: int | None = None
    key_rate: str | None = None
    throttle: str | None = None
    debounce: Duration | None = None
    debounce_most: Duration | None = None

    def __post_init__(self) -> None:
        _check_text("queue", self.name, NAME_BYTES_MAX)
        if self.key is not None:
            _check_text(f"queue {self.name}: key", self.key, KEY_BYTES_MAX)
        if self.debounce is not None and self.throttle is not None:
            raise BadOption(
                f"queue {self.name}: debounce or throttle, not both: one keeps the newest, the other drops it",
                code="queue.option",
            )
        if self.debounce_most is not None and self.debounce is None:
            raise BadOption(f"queue {self.name}: debounce_most is how long debounce=… may go on", code="queue.option")
        self.terms  # noqa: B018 - what is wrong with them is said here

    @property
    def terms(self) -> QueueTerms:
        """The same as the queue keeps it; `NO_TERMS`: it says none, and leaves those that there are."""
        what = f"queue {self.name}"
        debounce_ms = 0 if self.debounce is None else duration_ms(self.debounce, what=f"{what}: debounce")
        most_ms = 0 if self.debounce_most is None else duration_ms(self.debounce_most, what=f"{what}: debounce_most")
        for option, ms, least in (("debounce", debounce_ms, 1), ("debounce_most", most_ms, debounce_ms)):
            if getattr(self, option) is not None and not least <= ms <= PERIOD_MAX_MS:
                raise BadOption(
                    f"{what}: {option}={getattr(self, option)!r} must be from {_length(least)} to 31 days",
                    code="queue.option",
                )
        return QueueTerms(
            _count(f"{what}: concurrency", self.concurrency),
            parse_rate(f"{what}: rate", self.rate),
            _count(f"{what}: key_concurrency", self.key_concurrency),
            parse_rate(f"{what}: key_rate", self.key_rate),
            parse_rate(f"{what}: throttle", self.throttle),
            debounce_ms,
            most_ms,
        )


def parse_rate(what: str, text: object) -> Rate | None:
    """`100/m`, `5/10s`: so many in that time."""
    if text is None:
        return None
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    try:
        if found is None:
            raise BadTime(f"{text!r} is no rate")
        length = found[2] if found[2][0].isdigit() else f"1{found[2]}"
        count, period_ms = int(found[1]), duration_ms(length, what=what)
    except BadTime:
        raise BadOption(f"{what}={text!r}: write it like '100/m', '5/10s', '1000/d'", code="queue.rate") from None
    if not (1 <= count <= COUNT_MAX and 1 <= period_ms <= PERIOD_MAX_MS):
        raise BadOption(
            f"{what}={text!r}: from 1 to {COUNT_MAX:,} in a millisecond to 31 days; wakeful queues pause stops a queue",
            code="queue.rate",
        )
    return Rate(count, period_ms)


def opens_at(rate: Rate | None, starts: Starts, now: int) -> int:
    """When the next may start: 0, now; else the instant at which the oldest of these starts no longer counts."""
    if rate is None:
        return 0
    left = recent_starts(rate, starts, now)
    if sum([count for _, count in left]) < rate.count:
        return 0
    return left[0][0] + rate.period_ms


def recent_starts(rate: Rate, starts: Starts, now: int) -> Starts:
    """Those that still count. A clock that was set back must not make anybody wait for longer than a period."""
    return tuple([(min(at, now), count) for at, count in starts if at > now - rate.period_ms])


def add_start(rate: Rate | None, starts: Starts, now: int) -> Starts:
    """One more has started now."""
    if rate is None:
        return ()
    left = list(recent_starts(rate, starts, now))
    if left and left[-1][0] == now:
        left[-1] = (now, left[-1][1] + 1)
    else:
        left.append((now, 1))
    if len(left) > MARKS_MAX:
        closest = min(range(len(left) - 1), key=lambda n: left[n + 1][0] - left[n][0])
        left[closest : closest + 2] = [(left[closest + 1][0], left[closest][1] + left[closest + 1][1])]
    return tuple(left)


def _count(what: str, given: object) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= COUNT_MAX:
        raise BadOption(f"{what} must be a whole number from 1 to {COUNT_MAX:,}, not {given!r}", code="queue.option")
    return given


def _check_text(what: str, text: object, most: int) -> None:
    if not isinstance(text, str):
        raise BadName(f"{what} {text!r} must be text", code="name.queue")
    why = why_no_name(text, len(text.encode(errors="replace")), most, "bytes")
    if why is not None or not text.isprintable():
        raise BadName(f"{what} {why}", code="name.queue")


def _length(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{'' if ms == size else ms // size}{unit}"
    return f"{ms}ms"
