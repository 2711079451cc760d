"""Layer 5. What has the body of a Worker's workflow as `step`?

The steps are those of Wakeful's own workflows. Here are the names that they have on Cloudflare, the decorator with its
dependencies, configurations as they are written there, and the errors that a body expects.
"""

import asyncio
import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from wakeful.compat.workers.entrypoints import NonRetryableError
from wakeful.compat.workers.failures import DataCloneError, JsException, JsTypeError
from wakeful.compat.workers.values import Record, dress, result_of, sendable
from wakeful.policy.retry import Backoff, RetryPolicy
from wakeful.values.codec import encode
from wakeful.values.errors import BadInput, DeadlineExceeded, NoRetry, StepFailed
from wakeful.values.times import from_datetime
from wakeful.workflow import Step

VALUE_BYTES_MAX = 1 << 20  # of params, an event and a result, as there
LENGTH_MS_MAX = 31_557_600_000  # a year, as there
UNITS = {
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
    "month": 2_592_000_000,
    "year": 31_557_600_000,
}
RETRIES, DELAY_MS, TIMEOUT = 5, 1_000, "10 minutes"  # of a step that says nothing of it
WAIT = "24 hours"
BACKOFFS = ("constant", "linear", "exponential")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(?: +([a-z]+?)s?)?", re.ASCII)
_TYPE = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]*", re.ASCII)
TYPE_CHARS_MAX = 100
CTX = "ctx"  # the parameter of a step's function that gets the context
_CONTEXT = object()  # stands for it until the step runs


class WorkflowError(JsException):
    """What a binding of a workflow says no with."""

    name = "WorkflowError"


class WorkflowFatalError(JsException):
    """A step that can't be."""

    name = "WorkflowFatalError"


class WorkflowTimeoutError(JsException, TimeoutError):
    """An attempt of a step, or an event, took too long."""

    name = "WorkflowTimeoutError"


class WorkflowInternalError(NoRetry):
    """What a step returned can't be kept."""


class StepRules(NamedTuple):
    """How the steps of one workflow behave, by its wrangler file."""

    is_implicit: bool  # dependencies are parameters that are called like steps
    steps_max: int


class StepRetry(RetryPolicy, frozen=True):
    """When a step is tried again: after waits as they are there, without jitter."""

    kind: str = "exponential"

    def __post_init__(self) -> None:
        """It is made here alone, of what has been checked."""

    @property
    def kept(self) -> "StepRetry":
        return self

    def delay_ms(self, failures: int, error: BaseException, roll: float) -> int | None:
        if failures >= self.max_attempts:
            return None
        first = self.backoff.first_ms
        if self.kind == "linear":
            first *= failures
        elif self.kind == "exponential":
            first <<= min(failures - 1, 60)
        return min(first, LENGTH_MS_MAX)


class StepConfig(NamedTuple):
    """One that was given to `step.do`, read."""

    retry: StepRetry
    timeout_ms: int
    told: dict[str, Any]  # as the step's context has it


def read_length(value: Any) -> float:
    """Milliseconds: a number of them, or text like `"10 seconds"`. NaN for what is neither."""
    if isinstance(value, timedelta):
        return value / timedelta(milliseconds=1)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _LENGTH.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= 100 else None
    if found is None or (found[2] is not None and found[2] not in UNITS):
        return math.nan
    return float(found[1]) * (1 if found[2] is None else UNITS[found[2]])


def check_length(value: Any, what: str) -> int:
    """That many milliseconds, or an error that names what it is of."""
    length = read_length(value)
    if math.isnan(length) or length > LENGTH_MS_MAX:
        raise WorkflowFatalError(
            f'{what}: {value!r:.60} is no length of time up to a year; give milliseconds, or text like "10 seconds"'
        )
    return max(0, int(length))


def read_config(name: str, config: Any) -> StepConfig:
    """What `step.do` was given, with what holds where it says nothing."""
    given = {} if config is None else config
    try:
        return _read_config(given)
    except (TypeError, ValueError, AttributeError, KeyError):
        raise WorkflowFatalError(
            f'Step config for "{name}" is in a invalid format: {given!r:.200}. It is {{"retries": {{"limit": 5, "delay": '
            '"10 seconds", "backoff": "exponential"}, "timeout": "10 minutes"}, each of the two or none'
        ) from None


def _read_config(given: Mapping[str, Any]) -> StepConfig:
    if not given.keys() <= {"retries", "timeout", "sensitive"} or given.get("sensitive", "output") != "output":
        raise ValueError
    retries: dict[str, Any] = {"limit": RETRIES, "delay": DELAY_MS, "backoff": "exponential"}
    if "retries" in given:
        said = dict(given["retries"])
        if not {"limit", "delay"} <= said.keys() <= {"limit", "delay", "backoff"}:
            raise ValueError
        retries |= said
    limit, delay, timeout = retries["limit"], read_length(retries["delay"]), given.get("timeout", TIMEOUT)
    timeout_ms = read_length(timeout)
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool) and limit >= 0
    if not is_number or not delay >= 0 or not timeout_ms > 0 or retries["backoff"] not in BACKOFFS:
        raise ValueError
    first_ms = int(min(delay, LENGTH_MS_MAX))
    retry = StepRetry(
        max_attempts=int(min(limit, 1e9)) + 1,
        backoff=Backoff(first_ms, 1.0, LENGTH_MS_MAX),
        kind=str(retries["backoff"]),
    )
    told = {**given, "retries": retries, "timeout": timeout}
    return StepConfig(retry, max(1, int(min(timeout_ms, LENGTH_MS_MAX))), told)


class WorkflowStep:
    """`step.do`, `sleep`, `sleep_until` and `wait_for_event`."""

    def __init__(self, step: Step, rules: StepRules) -> None:
        self._step = step
        self._rules = rules
        self._counts: Counter[str] = Counter()
        self._asked = 0
        self._known: dict[str, Callable[[], Any]] = {}  # what was declared, by the name of its step
        self._results: dict[str, Any] = {}
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    def do(self, name: str | None = None, *given: Any, **options: Any) -> Any:
        """A decorator for the step's function, which is done when what that gives is called and awaited.

        With a function it is done at once: `await step.do("name", function)`, `await step.do("name", config, function)`.
        """
        if given and callable(given[-1]) and len(given) <= 2 and not options:
            config = given[0] if len(given) == 2 else None
            return self._do(_check_name(name), config, given[-1], [])
        options = self._bind(given, options)
        depends, concurrent, config = options.get("depends"), options.get("concurrent", False), options.get("config")

        def declare(function: Callable[..., Any]) -> Callable[[], Any]:
            label = _check_name(function.__name__ if name is None else name)

            async def call() -> Any:
                needed = self._needs(function, depends)
                if concurrent:
                    values: list[Any] = list(await asyncio.gather(*[self._result_of(one) for one in needed]))
                else:
                    values = [await self._result_of(one) for one in needed]
                return await self._do(label, config, function, values)

            call._step_name = label  # type: ignore[attr-defined]
            self._known[label] = call
            return call

        return declare

    def _bind(self, given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """The options of `do`, which of them by place depends on the compatibility date."""
        names = ("concurrent", "config") if self._rules.is_implicit else ("depends", "concurrent", "config")
        places = () if self._rules.is_implicit else names
        placed = dict(zip(places, given, strict=False))
        odd = [*given[len(places) :], *(name for name in options if name not in names or name in placed)]
        if odd:
            raise JsTypeError(
                f"step.do(): {odd[0]!r:.60} is none of its options ({', '.join(names)}) at this compatibility date"
            )
        return {**placed, **options}

    def _needs(self, function: Callable[..., Any], depends: Any) -> list[Any]:
        """The steps whose results its parameters get, in their order, and `ctx`."""
        parameters = [one.name for one in inspect.signature(function).parameters.values()]
        if self._rules.is_implicit:
            unknown = next((one for one in parameters if one != CTX and one not in self._known), None)
            if unknown is not None:
                raise TypeError(f"Received unexpected parameter {unknown}")
            return [_CONTEXT if one == CTX else self._known[one] for one in parameters]
        rest, count = list(depends or ()), len([one for one in parameters if one != CTX])
        if len(rest) != count:
            raise TypeError(f"Step declares {count} non-ctx parameter(s) but 'depends' has {len(rest)} item(s)")
        return [_CONTEXT if one == CTX else rest.pop(0) for one in parameters]

    async def _result_of(self, needed: Any) -> Any:
        if needed is _CONTEXT:
            return needed
        name = getattr(needed, "_step_name", None)
        if name is None:
            raise TypeError(f"depends takes steps that were declared with step.do, not {needed!r:.60}")
        if name in self._results:
            return self._results[name]
        if name in self._under_way:
            return await self._under_way[name]
        return await needed()

    async def _do(self, name: str, config: Any, function: Callable[..., Any], values: list[Any]) -> Any:
        read = read_config(name, config)
        self._asked += 1
        if self._asked > self._rules.steps_max:
            raise WorkflowFatalError(
                f"The limit of {self._rules.steps_max} steps has been reached. `limits.steps` of the workflow in the wrangler "
                "file changes it"
            )
        self._counts[name] += 1
        call = StepCall(self._step, name, self._counts[name], read, function, values)
        task = self._under_way[name] = asyncio.create_task(call.run())
        try:
            result = self._results[name] = await task
        finally:
            if self._under_way.get(name) is task:
                del self._under_way[name]
        return result

    async def sleep(self, name: str, duration: Any) -> None:
        """For so many milliseconds, or `"3 days"`."""
        length = check_length(duration, f"step.sleep({name!r:.60})")
        await self._step.sleep(_check_name(name), timedelta(milliseconds=length))

    async def sleep_until(self, name: str, timestamp: Any) -> None:
        """Until a datetime, or so many milliseconds after 1970 began; what is past is an error."""
        if isinstance(timestamp, datetime):
            when = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
            at = from_datetime(when)
        elif isinstance(timestamp, int | float) and not isinstance(timestamp, bool) and math.isfinite(timestamp):
            at = int(timestamp)
        else:
            raise JsTypeError(
                f"step.sleep_until({name!r:.60}): {timestamp!r:.60} is neither a datetime nor milliseconds"
            )
        now = from_datetime(self._step.now())
        if at < now:
            raise JsException("You can't sleep until a time in the past, time-traveler")
        length = check_length(at - now, f"step.sleep_until({name!r:.60})")
        await self._step.sleep_until(_check_name(name), self._step.now() + timedelta(milliseconds=length))

    async def wait_for_event(self, name: str, event_type: Any, /, timeout: Any = WAIT) -> Any:
        """The next event of that type: `payload`, `type`, `timestamp`. `WorkflowTimeoutError` when none comes in time."""
        if isinstance(event_type, Mapping):
            timeout, event_type = event_type.get("timeout") or WAIT, event_type.get("type")
        kind = check_type(event_type)
        length = check_length(timeout, f"step.wait_for_event({name!r:.60})")
        try:
            found = await self._step.wait_for(kind, timedelta(milliseconds=length), name=_check_name(name))
        except DeadlineExceeded as error:
            raise _late(length) from error
        return event_of(kind, found)


class StepCall:
    """One call of a step."""

    def __init__(
        self, step: Step, name: str, count: int, config: StepConfig, function: Callable[..., Any], values: list[Any]
    ) -> None:
        self._step = step
        self._name = name
        self._count = count
        self._config = config
        self._function = function
        self._values = values

    async def run(self) -> Any:
        """Its result, as the body gets it."""
        retry, timeout_ms = self._config.retry, self._config.timeout_ms
        try:
            kept = await self._step(self._name, self._call, retry=retry, timeout=timedelta(milliseconds=timeout_ms))
        except StepFailed as error:
            raise error_of(error, timeout_ms) from error
        except BadInput as error:
            raise WorkflowFatalError(error.message) from error
        return dress(kept)

    async def _call(self) -> Any:
        values = [self._context() if one is _CONTEXT else one for one in self._values]
        if not values and _takes_context(self._function):
            values = [self._context()]
        answer = await result_of(self._function(*values))
        try:
            data = sendable(answer, f'Value returned from step "{self._name}" is not serialisable')
        except DataCloneError as error:
            raise WorkflowInternalError(error.message) from None
        if len(encode(data)) > VALUE_BYTES_MAX:
            raise WorkflowInternalError(
                f"Step {self._name}-{self._count} output is too large. Maximum allowed size is 1MiB."
            )
        return data

    def _context(self) -> Record:
        step = Record(name=self._name, count=self._count)
        return Record(step=step, attempt=self._step.attempt, config=dress(self._config.told))


def _takes_context(function: Callable[..., Any]) -> bool:
    """It was given to `step.do` as it is, and wants the context."""
    try:
        return CTX in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise JsTypeError(f"step: the name of a step is text, not {name!r:.60}")
    if len(name) > 256 or not name.isprintable() or not name:
        raise WorkflowFatalError(
            f'Step name "{name[:300]}" is empty, exceeds max length (256 chars) or invalid characters found'
        )
    return name


def check_type(kind: Any) -> str:
    """The type of an event, as it may be there."""
    if not isinstance(kind, str) or len(kind) > TYPE_CHARS_MAX or not _TYPE.fullmatch(kind):
        raise WorkflowError(
            f"an event's type is text of up to {TYPE_CHARS_MAX} letters, digits, '-' and '_', not {kind!r:.60}"
        )
    return kind


def event_of(kind: str, kept: Any) -> Record:
    """An event as the body gets it."""
    at = datetime.fromtimestamp(kept["at"] / 1000, UTC)
    return Record(payload=dress(kept["payload"]), timestamp=at, type=kind)


def _late(length_ms: int) -> WorkflowTimeoutError:
    return WorkflowTimeoutError(f"Execution timed out after {length_ms}ms")


def error_of(failed: StepFailed, timeout_ms: int) -> Exception:
    """The failure of a step as a body gets it there: of Python's errors the two that JavaScript has too are themselves."""
    if failed.remote_code == "workflow.timeout" and failed.is_a(DeadlineExceeded):
        return _late(timeout_ms)
    for kind in (TypeError, ValueError, NonRetryableError):
        if failed.is_a(kind):
            return kind(f"{failed.kind}: {failed.said}")
    return _kind_of(failed.kind)(failed.said)


@lru_cache(maxsize=1_000)
def _kind_of(name: str) -> type[JsException]:
    """A type of that name, which is what is kept of an error that ends a workflow."""
    return type(name or "Error", (JsException,), {"name": name or "Error"})
