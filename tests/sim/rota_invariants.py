"""What must be true of the schedules of a simulated deployment at any moment?

Reads only the disk. Every occurrence that a record says is judged has exactly one verdict in the ledger, unless it still
waits to run; counters, effects, timers and parked runs say the same.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.sim.invariants import CLASS, EVERYTHING, Violation
from wakeful.policy.plan import Due
from wakeful.schedules.queries import records_of
from wakeful.schedules.records import LANE, PREFIX, Record, decode_lane, schedule_of, timer_name
from wakeful.schedules.steps import occurrence_of, parallel_lanes
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer

LEFT = ("skipped", "too_late", "coalesced", "overlap", "paused", "gap")


@dataclass
class Kept:
    """The schedules of one object as the disk has them."""

    id: ObjectId
    records: dict[str, Record]
    effects: Counter[str]
    entries: list[Entry] = field(default_factory=list)
    timers: dict[str, Timer] = field(default_factory=dict)
    parked: list[Parked] = field(default_factory=list)


async def look_at_schedules(store: Store) -> dict[str, Kept]:
    """Every object with its schedules, by key, read without waking any."""
    found: dict[str, Kept] = {}
    for info in await store.find_objects(Query(cls=CLASS, limit=EVERYTHING)):
        rows = await store.scan(info.id, USER, Range("ran:", "ran;"))
        effects = Counter({name.removeprefix("ran:"): int(decode(data)) for name, data in rows})
        found[info.id.key] = Kept(info.id, await records_of(store, info.id), effects)
    for _, entry in reversed(await store.find_entries(Query(cls=CLASS, limit=EVERYTHING))):
        if entry.name.startswith(f"{PREFIX}:"):
            found[entry.id.key].entries.append(entry)
        elif entry.name.startswith(f"{LANE}:"):
            raise Violation(f"{entry.id}: the ledger knows {entry.name} by the name of its timer")
    for timer in await store.find_timers(Query(cls=CLASS, limit=EVERYTHING)):
        if timer.name.partition(":")[0] in (PREFIX, LANE):
            found[timer.id.key].timers[timer.name] = timer
    for row in await store.find_parked(Query(cls=CLASS, limit=EVERYTHING)):
        if row.timer.name.partition(":")[0] in (PREFIX, LANE):
            found[row.timer.id.key].parked.append(row)
    return found


def check_schedules(
    found: dict[str, Kept], added: Iterable[tuple[str, str]], doubtful: Iterable[tuple[str, str]]
) -> None:
    """What holds at every moment, a crash or not."""
    for key, name in set(added) - set(doubtful):
        if name not in found[key].records:
            raise Violation(f"{key}: schedule {name} was acknowledged, never cancelled, and is gone")
    for here in found.values():
        _check_timers(here)
        runs = Counter(entry.run_id for entry in here.entries if entry.verdict == "run")
        if runs != here.effects:
            raise Violation(
                f"{here.id}: runs in the ledger and effects differ: {(runs - here.effects) | (here.effects - runs)}"
            )
        if runs and max(runs.values()) > 1:
            raise Violation(f"{here.id}: an occurrence was committed twice: {runs.most_common(1)}")
        for name, record in here.records.items():
            if not _was_cancelled(here, name, doubtful):
                _check_versions(here.id, name, record)
                _check_verdicts(here, name, record)


def _was_cancelled(here: Kept, name: str, doubtful: Iterable[tuple[str, str]]) -> bool:
    """Then its ledger has the rows of an earlier schedule of that name as well."""
    return (here.id.key, name) in doubtful


def _check_versions(id: ObjectId, name: str, record: Record) -> None:
    for before, after in zip(record.versions, record.versions[1:], strict=False):
        if before.asked == after.asked and before.until == after.since:
            raise Violation(f"{id}: {name} has the same spec as versions {before.number} and {after.number}")
        if before.until is None or before.until > after.since:
            raise Violation(f"{id}: versions {before.number} and {after.number} of {name} are in force at once")


def _check_verdicts(here: Kept, name: str, record: Record) -> None:
    """Exactly one verdict for each occurrence up to `judged_to`, and none for any other."""
    what = f"{here.id} {name}"
    waiting = {due.nominal_at for due in record.pending} | set(parallel_lanes(record).values())
    due, gaps = _occurrences(record)
    unknown = waiting - set(due)
    if unknown:
        raise Violation(f"{what}: what waits to run is no occurrence: {sorted(unknown)}")
    own = {occurrence_of(here.id, name, Due(at)).run_id: at for at in due}
    verdicts: Counter[str] = Counter()
    final: dict[int, list[Entry]] = {}
    entries = [entry for entry in here.entries if entry.name == timer_name(name)]
    for entry in entries:
        if entry.covers > 1:
            inside = [at for at in (*due, *gaps) if entry.first_at <= at <= entry.nominal_at]
            if len(inside) < entry.covers:
                raise Violation(f"{what}: one row stands for {entry.covers} of {len(inside)} occurrences")
            verdicts[entry.verdict] += entry.covers
        elif entry.verdict == "gap":
            verdicts["gap"] += 1
        elif entry.verdict in LEFT or entry.run_id in own:
            final.setdefault(entry.nominal_at, []).append(entry)
    strangers = set(final) - set(due)
    if strangers:
        raise Violation(f"{what}: verdicts of what never was an occurrence: {sorted(strangers)[:5]}")
    for at, rows in final.items():
        word = _final(rows, what, at, is_waiting=at in waiting)
        if word is not None:
            verdicts[word] += 1
    judged = len(due) + len(gaps) - len(waiting)
    if verdicts.total() != judged:
        raise Violation(f"{what}: {judged} occurrences are judged, and there are {dict(verdicts)}")
    _check_counters(here, what, record, entries, verdicts, own)
    _check_parked(here, what, final, waiting, own)


def _occurrences(record: Record) -> tuple[list[int], list[int]]:
    """What the record's versions name up to where it has got, and the jumps over such times."""
    timeline = record.timeline
    since = record.versions[0].since
    due = []
    at = timeline.next_ms(since)
    while at is not None and at <= record.judged_to:
        due.append(at)
        at = timeline.next_ms(at)
    return due, timeline.gaps(since, record.judged_to)


def _final(rows: list[Entry], what: str, at: int, *, is_waiting: bool) -> str | None:
    """The verdict that an occurrence has come to; None when it is still to come."""
    words = [row.verdict for row in rows]
    ends = [word for word in words if word != "failed"]
    if len(ends) > 1:
        raise Violation(f"{what}: {at} has more than one verdict: {words}")
    if is_waiting:
        if ends:
            raise Violation(f"{what}: {at} waits to run, and has the verdict {ends[0]}")
        return None
    return ends[0] if ends else "failed"


def _check_counters(
    here: Kept, what: str, record: Record, entries: list[Entry], verdicts: Counter[str], own: dict[str, int]
) -> None:
    counters = record.counters
    for word in LEFT:
        if getattr(counters, word) != verdicts[word]:
            raise Violation(f"{what}: {getattr(counters, word)} are counted {word}, the ledger has {verdicts[word]}")
    ran = sum(entry.verdict == "run" for entry in entries)
    if counters.runs != ran:
        raise Violation(f"{what}: {counters.runs} runs are counted, the ledger has {ran}")
    beside = {entry.run_id for entry in entries if entry.run_id not in own and entry.verdict in ("run", "failed")}
    ended = {entry.run_id for entry in entries if entry.verdict == "run"} | _open_lanes(here, what)
    failures = verdicts["failed"] + len(beside - ended)
    if counters.failures != failures:
        raise Violation(f"{what}: {counters.failures} failures are counted, the ledger has {failures}")


def _open_lanes(here: Kept, what: str) -> set[str]:
    """Runs of triggers that are not over."""
    found = set()
    for timer in here.timers.values():
        name, lane = schedule_of(timer.name)
        if lane and what == f"{here.id} {name}":
            payload = decode_lane(timer.payload)
            if payload.kind == "trigger":  # a redriven one has failed for good, and counts as that until it runs
                found.add(occurrence_of(here.id, name, payload.due, lane).run_id)
    return found


def _check_parked(here: Kept, what: str, final: dict[int, list[Entry]], waiting: set[int], own: dict[str, int]) -> None:
    """What failed for good waits for a person, or for its redrive."""
    parked = {row.run_id for row in here.parked}
    again = set()
    for timer in here.timers.values():
        name, lane = schedule_of(timer.name)
        if lane and what == f"{here.id} {name}" and decode_lane(timer.payload).kind == "redrive":
            again.add(occurrence_of(here.id, name, decode_lane(timer.payload).due).run_id)
    for at, rows in final.items():
        if at in waiting or {row.verdict for row in rows} != {"failed"}:
            continue
        if rows[-1].run_id not in parked | again:
            raise Violation(f"{what}: {at} failed for good and is not parked")


def _check_timers(here: Kept) -> None:
    """Each schedule has exactly the timers that its record says, and nothing else has any."""
    wanted: dict[str, int | None] = {}
    for name, record in here.records.items():
        if record.next_at is not None:
            wanted[timer_name(name)] = record.next_at
        for lane in record.lanes:
            wanted[f"{LANE}:{name}@{lane}"] = None
    for name, timer in here.timers.items():
        if name not in wanted:
            if name.startswith(f"{LANE}:") and decode_lane(timer.payload).kind == "redrive":
                continue
            raise Violation(f"{here.id}: the timer {name} belongs to no schedule")
        if wanted[name] not in (None, timer.nominal_at):
            raise Violation(f"{here.id}: {name} is set for {timer.nominal_at}, its record says {wanted[name]}")
    lost = set(wanted) - set(here.timers)
    if lost:
        raise Violation(f"{here.id}: timers are lost: {sorted(lost)}")


def check_schedules_quiet(found: dict[str, Kept], now: int) -> None:
    """After a long time without faults nothing is overdue."""
    for here in found.values():
        for timer in here.timers.values():
            if timer.due_at <= now - 120_000:  # a slow run takes 20 s, and some others may be behind it
                raise Violation(
                    f"{here.id}: {timer.name} is overdue by {now - timer.due_at} ms after a long quiet time"
                )
