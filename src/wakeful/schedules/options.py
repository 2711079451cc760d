"""Layer 4. What may be said about a schedule when it is made, and is it sense?"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from wakeful.policy.plan import WINDOW_MS, Overlap, Policy, Version, check_policy, spec_of
from wakeful.policy.retry import Retry, RetryPolicy
from wakeful.runtime.object_runtime import NodeRuntime
from wakeful.runtime.turn import Turn
from wakeful.schedules.records import Options, Schedule
from wakeful.specs.build import BUILD_OPTIONS, build, rebuild, to_spec
from wakeful.specs.spec import CatchUp, Spec
from wakeful.specs.zones import Fold, Gap, zone_of
from wakeful.values.codec import encode
from wakeful.values.errors import BadName, BadOption, NotRunning
from wakeful.values.ids import why_no_name
from wakeful.values.times import Duration, duration_ms, from_datetime

if TYPE_CHECKING:
    from wakeful.schedules.tenants import Quotas

NAME_BYTES_MAX = 200  # with its prefix and a lane it must fit a timer's name in every store
TAGS_MAX = 32
PRIORITY_MAX = 1_000
RUNS_MAX = 1_000_000_000_000  # more than any will ever have, and a number that every row can hold

Handler = Callable[..., Awaitable[Any]] | str  # of the object, or its name


class ScheduleOptions(TypedDict, total=False):
    """What may be said beside the spec."""

    zone: str | None
    gap: Gap | None
    fold: Fold | None
    jitter: Duration | None
    catch_up: CatchUp
    catch_up_window: Duration
    max_catch_up: int
    grace: Duration
    overlap: Overlap
    parallel: int
    retry: RetryPolicy | None
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    tags: Sequence[str]
    metadata: Any
    priority: int
    depends_on: Sequence[str | Schedule]
    on_missed: Handler | None


class AddOptions(ScheduleOptions, total=False):
    """The same, and the named arguments of the method."""

    kwargs: Mapping[str, Any] | None


_OPTIONS = tuple(ScheduleOptions.__annotations__)

_DEFAULTS = Policy()
# Options that are parts of the policy, and what they are called there.
POLICY_FIELDS = {
    "catch_up": "catch_up", "catch_up_window": "window_ms", "max_catch_up": "runs_max", "grace": "grace_ms",
    "overlap": "overlap", "parallel": "parallel",
}  # fmt: skip


def parse_spec_options(value: object, options: dict[str, Any]) -> Spec:
    """The spec that is asked for, with the options that belong to it; they are taken out of `options`."""
    _join(value, options)
    return build(value, **_take_spec_options(options))


def parse_another_spec(value: object, options: dict[str, Any], versions: Sequence[Version]) -> Spec:
    """The spec that follows these versions: of zone, gap, fold and jitter stays what neither it nor an option says."""
    _join(value, options)
    before = [spec_of(version.asked) for version in reversed(versions)]
    return rebuild(value, before, _take_spec_options(options))


def plain_spec(value: object, options: dict[str, Any]) -> Spec:
    """The spec by itself; the options of a fluent form join the others."""
    _join(value, options)
    return to_spec(value)


def _join(value: object, options: dict[str, Any]) -> None:
    """Add the options of a fluent form, `every.day.at("9am", tags=["x"])`, where there are none of that name."""
    own = getattr(value, "options", None)
    if isinstance(own, dict):
        for name, given in own.items():
            options.setdefault(name, given)


def _take_spec_options(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options.pop(name) for name in BUILD_OPTIONS if name in options}


def parse_options(
    spec: Spec, handler: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: dict[str, Any]
) -> Options:
    """Every option, checked; an unknown one is an error that lists those there are."""
    options = dict(given)
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise BadOption(
            f"unknown option {unknown[0]!r} of a schedule; there are {', '.join(_OPTIONS)}", code="schedule.option"
        )
    policy = check_policy(
        Policy(
            catch_up=options.get("catch_up", spec.catch_up),
            window_ms=_window(spec, options),
            runs_max=options.get("max_catch_up", _DEFAULTS.runs_max),
            grace_ms=_length(options, "grace", _DEFAULTS.grace_ms),
            overlap=options.get("overlap", _DEFAULTS.overlap),
            parallel=options.get("parallel", _DEFAULTS.parallel),
        )
    )
    start_at, end_at = _instant(options, "start_at"), _instant(options, "end_at")
    if start_at is not None and end_at is not None and end_at <= start_at:
        raise BadOption("end_at is not after start_at, so it would never run", code="schedule.end_at")
    metadata = options.get("metadata")
    on_missed = options.get("on_missed")
    return Options(
        handler=handler,
        args=encode((args, kwargs)) if args or kwargs else None,
        policy=policy,
        retry=_retry(options.get("retry")),
        start_at=start_at,
        end_at=end_at,
        max_runs=_whole(options, "max_runs", 1, RUNS_MAX),
        tags=_names(options.get("tags", ()), "tags"),
        metadata=None if metadata is None else encode(metadata),
        priority=_whole(options, "priority", -PRIORITY_MAX, PRIORITY_MAX) or 0,
        depends_on=_names(options.get("depends_on", ()), "depends_on"),
        on_missed=on_missed,
    )


def check_schedule_name(name: object) -> str:
    """A name that can be one, or `BadName` that says why not."""
    if not isinstance(name, str) or not name:
        raise BadName(f"schedule name {name!r} must be text and not empty", code="name.schedule")
    if not name.isprintable() or len(name.encode(errors="replace")) > NAME_BYTES_MAX:
        raise BadName(
            f"schedule name {name[:40]!r}: at most {NAME_BYTES_MAX} bytes of printable text", code="name.schedule"
        )
    return name


def _check_tag(tag: object) -> str:
    """A tag that can be one, or an error that says why not."""
    if not isinstance(tag, str):
        raise BadName(f"tag {tag!r:.60} must be text", code="schedule.tags")
    why = why_no_name(tag, len(tag.encode(errors="replace")), NAME_BYTES_MAX, "bytes")
    if why is not None:
        raise BadOption(f"tag {why}", code="schedule.tags")
    return tag


def _length(options: dict[str, Any], name: str, default: int) -> int:
    return default if name not in options else duration_ms(options[name], what=name)


def _window(spec: Spec, options: dict[str, Any]) -> int:
    """How far back it is owed. A day that is given to what happens once is kept as a millisecond more, which tells it
    from none given: records have always had a day for that."""
    window_ms = _length(options, "catch_up_window", WINDOW_MS)
    is_given = spec.is_once and "catch_up_window" in options
    return window_ms + 1 if is_given and window_ms == WINDOW_MS else window_ms


def _instant(options: dict[str, Any], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise BadOption(f"{name} must be an aware datetime, not {value!r}", code=f"schedule.{name}")
    return from_datetime(value)


def _whole(options: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadOption(f"{name} must be a whole number from {least} to {most}, not {value!r}", code=f"schedule.{name}")
    return value


def _retry(value: object) -> Retry:
    if value is None:
        return Retry()
    if isinstance(value, RetryPolicy):
        return value.kept
    raise BadOption(f"retry must be a RetryPolicy(…), not {value!r}", code="schedule.retry")


def _names(value: object, what: str) -> tuple[str, ...]:
    """A list of names, each once, in order."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadOption(f"{what} must be a list of names, not {value!r}", code=f"schedule.{what}")
    check = _check_tag if what == "tags" else check_schedule_name
    names = tuple(dict.fromkeys(check(getattr(one, "name", one)) for one in value))
    if len(names) > TAGS_MAX:
        raise BadOption(f"{what}: {len(names)} names, {TAGS_MAX} at most", code=f"schedule.{what}")
    return names


# What do the schedules of one node share?

FEATURE = "schedules"


class NodeSchedules:
    """What the schedules of a program share: its zone and its quotas."""

    def __init__(self, *, default_zone: str, quotas: "Quotas | None") -> None:
        zone_of(default_zone)
        self.default_zone = default_zone
        self.quotas = quotas

    async def admit(self, turn: Turn, count: int) -> None:
        """`QuotaExceeded` when the object's tenant may not have one more schedule."""
        if self.quotas is not None:
            await self.quotas.admit_schedule(turn, count)

    async def release(self, turn: Turn, count: int) -> None:
        """The object has no more than so many schedules now."""
        if self.quotas is not None:
            await self.quotas.release_schedule(turn, count)


def feature_of(node: NodeRuntime) -> NodeSchedules:
    """The schedules of the program that this node runs."""
    found = node.features.get(FEATURE)
    if not isinstance(found, NodeSchedules):
        raise NotRunning("this node runs without schedules; start it with app.run(…)", code="schedule.feature")
    return found
