"""Layer 4, pure. Why did an occurrence run or not, and how does a schedule stand, in a plain sentence?

Sentences about lateness and overlap name the policy as it is now; the ledger does not keep the one of then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from wakeful.policy.plan import ENDLESS_MS, Timeline, Version, spec_of
from wakeful.schedules.nights import jumped_over, local_time, missing_words, zone_name
from wakeful.schedules.records import Record
from wakeful.specs.words import length_words
from wakeful.values.timers import Run
from wakeful.values.times import from_datetime

# A run that began this soon after its time is on time, for people.
_ON_TIME_MS = 1_000
_FLOORS = ((86_400_000, 3_600_000), (3_600_000, 60_000), (60_000, 1_000), (1_000, 1_000))


@dataclass(frozen=True)
class About:
    """What there is to know about a schedule when a verdict is explained."""

    record: Record | None  # None: the schedule is no more
    runs: Sequence[Run] = ()  # other verdicts, in any order
    parked: Mapping[str, int] = field(default_factory=dict)  # run id → number, of those that wait for a person

    @property
    def zone(self) -> str:
        return "UTC" if self.record is None else zone_name(spec_of(self.record.version.spec))


def because(run: Run, about: About) -> str:
    """Why the occurrence got its verdict."""
    if run.verdict == "run":
        return _ran(run, about)
    if run.verdict == "failed":
        return _failed(run, about)
    return {
        "skipped": _skipped_words,
        "too_late": _too_late,
        "coalesced": _coalesced_words,
        "overlap": _overlap,
        "paused": _paused_words,
        "gap": _gap,
    }[run.verdict or "skipped"](run, about)


def standing(record: Record | None, now: int) -> str:
    """How the schedule stands: active, paused since when and why, waiting for what, done, retired or gone."""
    if record is None:
        return "gone: it was cancelled, or done and had no name of its own"
    zone = zone_name(spec_of(record.version.spec))
    if record.state == "retired":
        since = record.version.until
        return f"retired{'' if since is None else f' since {moment(since, zone)}'}: its class no longer declares it"
    if record.state == "done":
        return f"done: {_done_because(record, zone)}"
    pause = record.pause_at(now)
    if pause is not None:
        end = "until it is resumed" if pause.until is None else f"until {moment(pause.until, zone)}"
        return f"paused since {moment(pause.since, zone)}, {end}" + (f": {pause.note!r}" if pause.note else "")
    if record.waits_for is not None and record.pending:
        at = moment(record.pending[0].nominal_at, zone)
        return f"waiting: the run of {at} waits until {record.waits_for!r} has run well"
    return "active"


def fate(record: Record, at: int, now: int) -> str:
    """What is to say about an instant that the ledger has no verdict for."""
    zone = zone_name(spec_of(record.version.spec))
    if record.state == "retired" and record.version.until is not None and at > record.version.until:
        return f"it does not run: {standing(record, now)}"
    if not is_occurrence(record, at):
        return _no_occurrence(record, at, zone)
    if any(due.nominal_at == at for due in record.pending):
        if record.waits_for is not None:
            return f"due, and waits until {record.waits_for!r} has run well"
        return "due: it runs, or waits for its next attempt; wakeful due shows when"
    if record.state == "done":
        return f"it does not run: {standing(record, now)}"
    if at > now:
        pause = record.timeline.pause_of(at)
        if pause is not None:
            return f"still to come, and won't run: {standing(record, now)}"
        return f"still to come, in {length(at - now)}"
    if at > record.judged_to:
        return "due, and not decided about yet; if no process runs the store, start one"
    return "an occurrence whose verdict is no longer in the ledger: it keeps the latest ones only"


def is_occurrence(record: Record, at: int) -> bool:
    """Whether the schedule names this instant, under the version in force then."""
    return record.timeline.next_ms(at - 1) == at


def version_at(record: Record, at: int) -> Version | None:
    """The version that was in force."""
    return next((v for v in record.versions if v.since < at and (v.until is None or at <= v.until)), None)


def moment(at: int, zone: str) -> str:
    """An instant in the zone, with seconds where there are some."""
    local = local_time(at, zone)
    return f"{local:%Y-%m-%d %H:%M}" if at % 60_000 == 0 else f"{local:%Y-%m-%d %H:%M:%S}"


def length(ms: int) -> str:
    """A length in words, down to what matters: 3 hours and 5 minutes."""
    for size, floor in _FLOORS:
        if ms >= size:
            return length_words(ms - ms % floor)
    return length_words(max(0, ms))


def _ran(run: Run, about: About) -> str:
    lateness = _lateness(run)
    record = about.record
    at = from_datetime(run.nominal_at)
    if run.is_backfill:
        said = "backfilled"
    elif record is not None and not run.missed and not _is_own(record, at):
        said = "triggered by hand, or asked for with Next"
    elif lateness < _ON_TIME_MS:
        said = "on time"
    else:
        said = f"{length(lateness)} late"
    if run.missed > 1 or (run.missed and run.first_at is not None and run.first_at != run.nominal_at):
        first = "" if run.first_at is None else f", the first of {_of(run.first_at, about, run.nominal_at)}"
        said += f"; it answers for {run.missed} missed{first}"
    return said + (f"; attempt {run.attempt + 1}" if run.attempt else "")


def _failed(run: Run, about: About) -> str:
    most = None if about.record is None else about.record.options.retry.max_attempts
    said = f"attempt {run.attempt + 1}" + ("" if most is None else f" of {max(most, run.attempt + 1)}")
    said += f": {run.error}" if run.error else ""
    attempts = [other for other in about.runs if other.id == run.id]
    if any(other.attempt > run.attempt or other.fired_at > run.fired_at for other in attempts):
        return f"{said}; tried again"
    number = about.parked.get(run.id)
    return said if number is None else f"{said}; given up and parked, wakeful redrive {number} runs it again"


def _skipped_words(run: Run, about: About) -> str:
    late = _each(run, f"{length(_lateness(run))} late")
    if about.record is None:
        return late
    record, policy = about.record, about.record.options.policy
    if record.state == "retired" and from_datetime(run.fired_at) >= (record.version.until or 0):
        return f"{late}; the class no longer declares the schedule"
    why = {
        "skip": "runs nothing that was missed",
        "latest": "runs only the most recent",
        "coalesce": "runs one for all",
    }.get(policy.catch_up, f"runs the latest {policy.runs_max} missed ones (max_catch_up)")
    return f"{late}; catch_up={policy.catch_up} {why}"


def _too_late(run: Run, about: About) -> str:
    late = _each(run, f"{length(_lateness(run))} late")
    if about.record is None:
        return late
    options, window_ms = about.record.options, about.record.policy.window_ms
    if window_ms == ENDLESS_MS:
        return late  # it had a window then
    waited = f", perhaps for waiting for {', '.join(map(repr, options.depends_on))}" if options.depends_on else ""
    return f"{late}, more than catch_up_window={length(window_ms)}{waited}"


def _coalesced_words(run: Run, about: About) -> str:
    for other in about.runs:
        first = other.first_at
        if other.verdict in ("run", "failed") and other.missed and first and first <= run.nominal_at < other.nominal_at:
            return _each(run, f"the run of {_of(other.nominal_at, about, run.nominal_at)} answered for it")
    return _each(run, "one later run answered for all that were missed")


def _overlap(run: Run, about: About) -> str:
    policy = None if about.record is None else about.record.options.policy
    if policy is not None and policy.parallel > 1:
        return _each(run, f"all {policy.parallel} that may run at once were still at it (parallel={policy.parallel})")
    at_it = [
        other
        for other in about.runs
        if other.verdict in ("run", "failed")
        and other.nominal_at < run.nominal_at <= (other.finished_at or run.fired_at)
    ]
    before = [o for o in about.runs if o.verdict in ("run", "failed") and o.nominal_at < run.nominal_at]
    found = max(at_it or before, key=lambda other: other.nominal_at, default=None)
    which = "the run before" if found is None else f"the run of {_of(found.nominal_at, about, run.nominal_at)}"
    queued = ", and one was queued already (overlap=queue_one)" if policy and policy.overlap == "queue_one" else ""
    return _each(run, f"{which} was still at it{queued}")


def _paused_words(run: Run, about: About) -> str:
    pause = None if about.record is None else about.record.timeline.pause_of(from_datetime(run.nominal_at))
    if pause is None:
        return _each(run, "it was paused then")
    return _each(run, f"paused since {moment(pause.since, about.zone)}" + (f": {pause.note!r}" if pause.note else ""))


def _gap(run: Run, about: About) -> str:
    at = from_datetime(run.nominal_at)
    version = None if about.record is None else version_at(about.record, at)
    if version is None:
        return _each(run, "the clocks jumped over it")
    spec = spec_of(version.spec)
    walls = jumped_over(spec, at)
    if not walls:
        return _each(run, f"the clocks in {zone_name(spec)} jumped over it")
    shown = local_time(at, zone_name(spec))
    return f'{missing_words(walls, zone_name(spec))}; gap="shift" would run it at {shown:%H:%M}'


def _done_because(record: Record, zone: str) -> str:
    options, counters = record.options, record.counters
    if options.max_runs is not None and counters.runs + counters.failures >= options.max_runs:
        return f"it has run max_runs={options.max_runs} times"
    if options.end_at is not None:
        return f"it ends at {moment(options.end_at, zone)} (end_at)"
    return "nothing is to come"


def _no_occurrence(record: Record, at: int, zone: str) -> str:
    options = record.options
    version = version_at(record, at)
    if options.start_at is not None and at < options.start_at:
        return f"not an occurrence: it starts at {moment(options.start_at, zone)} (start_at)"
    if options.end_at is not None and at >= options.end_at:
        return f"not an occurrence: it ends at {moment(options.end_at, zone)} (end_at)"
    if version is None and at <= record.versions[0].since:
        return f"not an occurrence: the schedule was made at {moment(record.versions[0].since, zone)}"
    if version is None:
        return "not an occurrence: no version was in force then"
    spec = spec_of(version.spec)
    if at in spec.gaps_ms(at, at + 1):
        return f"not an occurrence: {missing_words(jumped_over(spec, at), zone)}, and gap=skip leaves it out"
    around = [found for found in (record.timeline.previous_ms(at), record.timeline.next_ms(at)) if found is not None]
    near = f"; the nearest are {' and '.join(moment(one, zone) for one in around)}" if around else ""
    force = "was" if version.until is not None or version != record.version else "is"
    return f"not an occurrence: version {version.number} {force} in force, {spec.describe()}{near}"


def _is_own(record: Record, at: int) -> bool:
    """Whether the spec names this instant; the first version stands for the time before it."""
    if is_occurrence(record, at):
        return True
    first = record.versions[0]
    earlier = Version(first.number, first.asked, first.spec, min(first.since, at - 1), first.until)
    return at <= first.since and Timeline([earlier]).next_ms(at - 1) == at


def _lateness(run: Run) -> int:
    return from_datetime(run.fired_at) - from_datetime(run.nominal_at)


def _each(run: Run, text: str) -> str:
    return f"each of {run.covers:,}: {text}" if run.covers > 1 else text


def _of(when: datetime, about: About, beside: datetime) -> str:
    """A nominal time, without its day when that is the day of the one beside it."""
    text = moment(from_datetime(when), about.zone)
    other = moment(from_datetime(beside), about.zone)
    return text.partition(" ")[2] if text[:10] == other[:10] else text
