"""Layer 4. From what a caller says to the timer of a job: is it sense?"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from wakeful.jobs.ids import PREFIX, TELL, check_job_key, job_id, new_token, parse_id, timer_name
from wakeful.jobs.job import JobSpec
from wakeful.jobs.payload import HELD_AT, JobPayload, decode_kept, encode_kept
from wakeful.jobs.retries import kept_retry
from wakeful.policy.order import Order
from wakeful.runtime.admission import QueuePlace, leave_timer
from wakeful.runtime.calls import Method
from wakeful.runtime.registry import LIFECYCLE, ObjectClass
from wakeful.runtime.turn import Turn
from wakeful.values.codec import encode
from wakeful.values.errors import BadHandler, BadInput, BadOption, BadTime, LimitExceeded
from wakeful.values.ids import ObjectId, why_no_name
from wakeful.values.timers import Timer
from wakeful.values.times import LATEST_MS, duration_ms, from_datetime
from wakeful.values.trace import current_trace, linked_trace

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

TAGS_MAX = 32
TAG_CHARS_MAX = 200
PRIORITY_MAX = 1_000
DEPENDS_MAX = 1_000


class JobRequest(NamedTuple):
    """A job that somebody wants, checked, and not there yet."""

    timer: Timer
    kept: JobPayload

    @property
    def id(self) -> str:
        return job_id(self.timer.id, self.timer.name)


def is_spec(given: object) -> bool:
    """A `JobSpec`, in which there may be anything yet."""
    return isinstance(given, JobSpec)


def ask(
    node: "NodeRuntime", order: Order, spec: Any, turn: Turn | None, *, batch: tuple[str, int] | None = None
) -> JobRequest:
    """The timer of a job; whatever is wrong with it is said here, before its fields are taken for what they should be."""
    spec.check_given()
    target, method, known = _target(node, spec.method, turn)
    what = f"job {target.cls}/{target.key}.{method}"
    _check_arguments(known.cls, method, spec.args, spec.kwargs)
    if node.check_call is not None:
        node.check_call(known, method, spec.args, spec.kwargs)
    now = node.clock.now()
    at, after, due_at = _when(spec.at, spec.after, now, what)
    key = None if spec.key is None else check_job_key(spec.key)
    token = new_token(node.dice)
    kept = JobPayload(
        method=method,
        args=_encode([list(spec.args), _sort(spec.kwargs)], what) if spec.args or spec.kwargs else None,
        token=token,
        key=key,
        created_at=now,
        at=at,
        after=after,
        due_at=due_at,
        metadata=None if spec.metadata is None else _metadata(spec.metadata, what),
        tags=_tags(spec.tags, what) if spec.tags else (),
        retry=None if spec.retry is None else kept_retry(spec.retry, known.cls, what, node.registry),
        waits=_ids(spec.depends_on, what, job_id(target, timer_name(method, token, key))) if spec.depends_on else (),
        batch=batch,
        trace=current_trace(node.tracer) if turn is None else _trace(turn, target, method),
        place=None if spec.queue is None else QueuePlace.of(spec.queue, now, what),
    )
    return with_timer(kept, target, order.next(now), _priority(spec.priority, what), node.limits.arguments_bytes)


def _trace(turn: Turn, target: ObjectId, method: str) -> str | None:
    """That of the turn; one that asks for itself again begins a new one each time, or it would have no end."""
    trace, again = current_trace(turn.activation.node.tracer), turn.consumed
    if trace is None or again is None or turn.activation.id != target or not again.name.startswith(f"{PREFIX}:"):
        return trace
    return linked_trace(trace) if decode_kept(again).method == method else trace


def with_timer(kept: JobPayload, target: ObjectId, seq: int, priority: int, bytes_max: int | None = None) -> JobRequest:
    """What is kept, with the timer that carries it."""
    payload = encode_kept(kept)
    if bytes_max is not None and len(payload) > bytes_max:
        raise LimitExceeded(
            f"job {target}.{kept.method}: arguments and metadata have {len(payload)} bytes, "
            f"{len(payload) - bytes_max} more than the limit of {bytes_max}; keep large data in storage",
            code="limit.arguments",
        )
    name = timer_name(kept.method, kept.token, kept.key)
    due_at = HELD_AT if kept.waits else kept.due_at
    return JobRequest(Timer(target, name, due_at, kept.due_at, seq, priority=priority, payload=payload), kept)


def newest(asked: JobRequest) -> JobRequest:
    """The same job, to be put in place of any other version by the owner."""
    kept = replace(asked.kept, is_newest=True)
    return JobRequest(replace(asked.timer, payload=encode_kept(kept)), kept)


def errands(node: "NodeRuntime", order: Order, asked: JobRequest) -> list[Timer]:
    """What has to be sent along: to each job that it waits for, to tell it when that has ended."""
    return [
        errand(node, order, TELL, parse_id(id)[0], [parse_id(id)[1], asked.id]) for id in asked.kept.waits if "/" in id
    ]


def errand(node: "NodeRuntime", order: Order, prefix: str, target: ObjectId, payload: Any, name: str = "") -> Timer:
    """A timer that does one thing at another object, due now, under a name that nobody else can have."""
    now = node.clock.now()
    full = f"{name or prefix + ':'}{new_token(node.dice)}"
    return Timer(target, full, now, now, order.next(now), payload=encode(payload))


def leave_queue(node: "NodeRuntime", order: Order, turn: Turn, kept: JobPayload) -> None:
    """Give its place back with this turn, if it has one."""
    if kept.place is not None and kept.place.ticket is not None:
        seq = order.next(node.clock.now())
        turn.send([leave_timer(node, kept.place.queue, kept.place.ticket, seq)])


def _target(node: "NodeRuntime", method: object, turn: Turn | None) -> tuple[ObjectId, str, ObjectClass]:
    if isinstance(method, Method):
        target, name = method.target, method.name
        known = node.registry.by_name(target.cls)
        if name not in known.methods:
            known.check_method(name)
        return target, name, known
    if not inspect.ismethod(method):
        raise BadHandler(
            f"{method!r} can't be a job; give a method of a stub (app.get(Class, key).method) "
            "or, inside an object, of self",
            code="job.method",
        )
    name = method.__name__
    if turn is None or not isinstance(method.__self__, turn.activation.known.cls):
        raise BadHandler(
            f"{method.__qualname__} is not a method of a stub; use app.get({type(method.__self__).__name__}, key).{name}",
            code="job.method",
        )
    known = turn.activation.known
    check_own(known.cls, name)
    return turn.activation.id, name, known


@lru_cache(maxsize=4_096)
def check_own(cls: type, name: str) -> None:
    """`BadHandler` unless the class has such an `async def` method that may be a job; it may be @internal."""
    found = inspect.getattr_static(cls, name, None)
    if found is None:
        raise BadHandler(f"{cls.__name__} has no method {name!r}, which a job calls", code="job.method")
    if name in LIFECYCLE or not inspect.iscoroutinefunction(found):
        why = "is called by Wakeful alone" if name in LIFECYCLE else "is not `async def`"
        raise BadHandler(f"{cls.__name__}.{name} can't be a job: it {why}", code="job.method")


@lru_cache(maxsize=4_096)
def _signature(cls: type, method: str) -> tuple[inspect.Signature, int, int]:
    """With how many arguments it can be called by place: from, to."""
    signature = inspect.signature(inspect.getattr_static(cls, method))
    parameters = list(signature.parameters.values())[1:]
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    most = 1 << 30 if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(places)
    least = sum(one.default is one.empty for one in places)
    if any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        least = most + 1  # never by place alone
    return signature.replace(parameters=parameters), least, most


def _check_arguments(cls: type, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    signature, least, most = _signature(cls, method)
    if not kwargs and least <= len(args) <= most:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise BadHandler(f"{cls.__name__}.{method}{signature}: {error}", code="job.arguments") from None


def _when(at: object, after: Any, now: int, what: str) -> tuple[int | None, int | None, int]:
    """The instant asked for, or the delay, and what it comes to; the past means now."""
    if at is not None and after is not None:
        raise BadOption(f"{what}: at or after, not both", code="job.when")
    if at is not None:
        if not isinstance(at, datetime):
            raise BadTime(f"{what}: at={at!r} must be an aware datetime; a delay goes into after=…", code="time.type")
        try:
            ms = from_datetime(at) + bool(at.microsecond % 1000)  # never before it
        except BadTime as error:
            raise BadTime(f"{what}: {error.message}", code=error.code) from None
        due_at = max(now, ms)
    elif after is not None:
        ms = duration_ms(after, what=f"{what}: after")
        due_at = now + ms
    else:
        return None, None, now
    if due_at > LATEST_MS:
        said = f"at {at}" if at is not None else f"after {after!r:.60}"
        raise BadTime(f"{what}: {said} ends past the latest time, 9999-01-01; give a shorter delay", code="time.late")
    return (ms, None, due_at) if at is not None else (None, ms, due_at)


def _encode(value: Any, what: str) -> bytes:
    try:
        return encode(value)
    except BadInput as error:
        raise type(error)(f"{what}: {error.message}", code=error.code) from None


def _sort(named: Mapping[str, Any]) -> dict[str, Any]:
    """In one order, so that the same call twice is the same bytes."""
    return dict(sorted(named.items(), key=itemgetter(0))) if len(named) > 1 else dict(named)


def _metadata(metadata: object, what: str) -> bytes:
    if not isinstance(metadata, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str | int | float | bool) for key, value in metadata.items()
    ):
        raise BadOption(
            f"{what}: metadata must be a dict of text to text, numbers or booleans, not {metadata!r}",
            code="job.metadata",
        )
    return _encode(_sort(metadata), what)


def _tags(tags: object, what: str) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise BadOption(f"{what}: tags must be a list of names, not {tags!r}", code="job.tags")
    unique = tuple(dict.fromkeys(tags))
    if len(unique) > TAGS_MAX:
        words = f"{len(unique)} tags, {TAGS_MAX} at most; what else there is goes into metadata"
        raise BadOption(f"{what}: {words}", code="job.tags")
    for tag in unique:
        why = (
            f"{tag!r:.60} is no text"
            if not isinstance(tag, str)
            else why_no_name(tag, len(tag), TAG_CHARS_MAX, "characters")
        )
        if why is not None:
            raise BadOption(f"{what}: tag {why}", code="job.tags")
    return unique


def _priority(priority: object, what: str) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise BadOption(
            f"{what}: priority must be a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}, not {priority!r}",
            code="job.priority",
        )
    return priority


def _ids(depends_on: object, what: str, own: str) -> tuple[str, ...]:
    """Ids of other jobs, each once, in one spelling."""
    if isinstance(depends_on, str) or not isinstance(depends_on, Iterable):
        raise BadOption(
            f"{what}: depends_on must be a list of jobs or their ids, not {depends_on!r}", code="job.depends"
        )
    ids = tuple(dict.fromkeys(job_id(*parse_id(one)) for one in depends_on))
    if own in ids:
        raise BadOption(f"{what}: depends on itself, {own}, and so would never run", code="job.depends")
    if len(ids) > DEPENDS_MAX:
        raise LimitExceeded(
            f"{what}: depends on {len(ids)} jobs, {DEPENDS_MAX} at most; use a batch", code="job.depends"
        )
    return ids
