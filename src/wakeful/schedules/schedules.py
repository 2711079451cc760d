"""Layer 4. What can code in an object do with its schedules?"""

import inspect
from collections.abc import Awaitable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast, get_args

from msgspec.structs import replace

from wakeful.policy.plan import Due, PausedSpan, Version, kept_text
from wakeful.runtime.context import runtime_of
from wakeful.runtime.storage import scan
from wakeful.runtime.turn import Turn, breathe, running_turn
from wakeful.schedules.declarations import check_dependencies
from wakeful.schedules.handlers import check_arguments, check_missed, handler_name
from wakeful.schedules.options import (
    POLICY_FIELDS,
    AddOptions,
    Handler,
    ScheduleOptions,
    check_schedule_name,
    feature_of,
    parse_another_spec,
    parse_options,
    parse_spec_options,
)
from wakeful.schedules.records import (
    PREFIX,
    Book,
    Found,
    Lane,
    Names,
    Options,
    Record,
    Runs,
    Schedule,
    Standing,
    Times,
    decode_record,
    new_lane,
    schedule_of,
    sliced_times,
    timer_name,
)
from wakeful.schedules.signatures import type_add
from wakeful.schedules.steps import (
    PAUSES_MAX,
    aim,
    clear,
    entries_of,
    forget,
    give_up,
    judge_all,
    occurrence_of,
    start_lane,
)
from wakeful.schedules.tenants import Claim, claim
from wakeful.specs.combine import Spread
from wakeful.specs.fluent import Every
from wakeful.specs.instants import After, At
from wakeful.specs.spec import Spec
from wakeful.store.protocol import Query
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import BadOption, Conflict, LimitExceeded, UnknownSchedule
from wakeful.values.timers import Run
from wakeful.values.times import Duration, from_datetime, to_datetime
from wakeful.values.trace import current_trace

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

NEXT_MAX = 10_000


class Schedules:
    """The schedules of one object: `self.schedules` in a `DurableObject`, or `Schedules(ctx)` in a class of your own.

    >>> from wakeful import App, Context, Schedules
    >>> app = App()
    >>> @app.object
    ... class Report:
    ...     def __init__(self, ctx: Context) -> None:
    ...         self.schedules = Schedules(ctx)
    ...     async def begin(self) -> None:
    ...         await self.schedules.add("0 9 * * 1-5", self.send, name="daily")
    ...     async def send(self) -> None:
    ...         print("sent")
    >>> async with app.world(start="2026-03-28T12:00Z") as world:  # a Saturday
    ...     await world.get(Report, "eu").begin()
    ...     await world.advance(days=2)
    sent
    """

    __slots__ = ("_activation",)

    def __init__(self, ctx: "Context") -> None:
        self._activation = runtime_of(ctx)

    @property
    def every(self) -> Every[Awaitable[Schedule]]:
        """`schedules.every.monday.at("9am")(self.report)`: the fluent form, which adds to this object."""
        return Every(self.add)

    @type_add
    async def add(
        self, spec: Any, handler: Handler, *args: Any, name: str | None = None, **options: Unpack[AddOptions]
    ) -> Schedule:
        """Have a method of the object run at the times of the spec, with these arguments; `kwargs={…}` for named ones.

        The spec is a datetime, a timedelta or number of seconds from now, cron text, a phrase, or a spec. A name that
        exists with the same spec keeps its next occurrence and takes the options; with another spec it gets a new version.
        Without a name it goes when it is done.
        """
        turn, given = self._writing_turn(), cast("dict[str, Any]", options)
        await breathe(turn)
        asked = parse_spec_options(spec, given)
        method = handler_name(self._activation, handler)
        kwargs = given.pop("kwargs", None) or {}
        is_named = name is not None and given.pop("is_named", True)  # False: a client made the name up
        check_arguments(inspect.getattr_static(self._activation.known.cls, method), args, kwargs)
        if self._activation.node.check_call is not None:
            self._activation.node.check_call(self._activation.known, method, args, kwargs, has_run=True)
        parsed = self._parse(asked, method, args, kwargs, given)
        limit = self._activation.node.limits.arguments_bytes
        for what, data in (("arguments", parsed.args), ("metadata", parsed.metadata)):
            if data is not None and len(data) > limit:
                raise LimitExceeded(
                    f"{what} of a schedule of {self._activation.id}: {len(data)} bytes, {len(data) - limit} more than the "
                    f"limit of {limit}; keep large data in storage",
                    code="limit.arguments",
                )
        if name is None:
            name = f"{method}-{self._activation.node.next_seq(self._activation.shard):x}"
        record = await upsert(turn, check_schedule_name(name), asked, parsed, is_declared=False, is_named=is_named)
        return self._as_schedule(name, record)

    async def get(self, name: str) -> Schedule:
        """One schedule as it stands; `UnknownSchedule` when there is none of that name."""
        return self._as_schedule(name, await self._record(self._turn(), name))

    async def list(
        self, *, tag: str | None = None, state: str | None = None, after: str | None = None, limit: int | None = None
    ) -> Found:
        """All schedules in the order of their names, or those with a tag or in a state; a page of them past a name."""
        if state not in (None, *get_args(Standing)):
            raise BadOption(f"state {state!r}: it can be {', '.join(get_args(Standing))}", code="schedule.state")
        is_all = tag is None and state is None
        records = await self._records(after=after, limit=limit if is_all else None)
        found = [self._as_schedule(name, record) for name, record in records.items()]
        return [one for one in found if tag in (None, *one.tags) and state in (None, one.state)][:limit]

    async def pause(
        self, name: str | None = None, *, tag: str | None = None, note: str = "", until: datetime | None = None
    ) -> int:
        """No occurrence runs, with the verdict `paused`, until `resume` or the end time; how many schedules that holds."""
        turn = self._writing_turn()
        end = None if until is None else from_datetime(until)
        now = self._now()
        if end is not None and end <= now:
            raise BadOption(f"until={until} is not after now", code="schedule.until")
        if not isinstance(note, str) or len(note) > 1_000:
            raise BadOption("note must be text of at most 1000 characters", code="schedule.note")
        records = await self._choose(turn, name, tag)
        for one, record in records.items():
            record.pauses = [*_end_pause(record, now), PausedSpan(now, end, note)]
            Book(turn).put(one, record)
        return len(records)

    async def resume(self, name: str | None = None, *, tag: str | None = None) -> int:
        """Occurrences run again from now on; how many schedules were paused."""
        turn = self._writing_turn()
        now = self._now()
        count = 0
        for one, record in (await self._choose(turn, name, tag)).items():
            if record.pause_at(now) is not None:
                record.pauses = _end_pause(record, now)
                Book(turn).put(one, record)
                count += 1
        return count

    async def trigger(self, name: str | None = None, *, tag: str | None = None) -> Names:
        """Run it now, beside its own times and whether paused or not; the ids of the runs to come."""
        turn = self._writing_turn()
        now = self._now()
        ids = []
        for one, record in (await self._choose(turn, name, tag, living=True)).items():
            lane = new_lane("trigger", self._activation.node.next_seq(self._activation.shard))
            due = Due(now)
            start_lane(turn, one, record, lane, Lane("trigger", due), now)
            Book(turn).put(one, record)
            ids.append(occurrence_of(self._activation.id, one, due, lane).run_id)
        return ids

    async def cancel(self, name: str | None = None, *, tag: str | None = None) -> bool:
        """It never runs again; False when there is none of that name. Its runs stay in the ledger."""
        turn = self._writing_turn()
        book = Book(turn)
        if name is not None and tag is None and await book.get(check_schedule_name(name)) is None:
            return False
        records = await self._choose(turn, name, tag)
        for each, record in records.items():
            waiting = [other for other in record.dependents if other not in records]
            if waiting:
                raise Conflict(
                    f"{self._activation.id}: schedule {waiting[0]!r} depends on {each!r}; cancel that one first",
                    code="schedule.depends_on",
                )
        now = self._now()
        for each, record in records.items():
            left = give_up(turn, each, record, now)
            node = self._activation.node.name
            turn.entries = [*turn.entries, *entries_of(self._activation.id, each, left, now=now, node=node)]
            clear(turn, each, record)
            for other in record.options.depends_on:
                await _forget_dependent(book, other, each)
            await forget(book, turn, each, record)
        return bool(records)

    async def reschedule(self, name: str, spec: Any, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Give it another spec, as a new version; everything else stays, but for options named here.

        A delay counts from now, also when it is the same as before, and whether it is still to come or done.
        """
        turn, given = self._writing_turn(), cast("dict[str, Any]", options)
        record = await self._living(turn, name)
        asked = parse_another_spec(spec, given, record.versions)
        kept = record.options
        if given:
            kept = _with(kept, self._parse(asked, kept.handler, (), {}, given), given)
        is_delay = isinstance(asked.spec if isinstance(asked, Spread) else asked, After)
        known = {"is_declared": record.is_declared, "is_named": record.is_named}
        record = await upsert(turn, name, asked, kept, is_afresh=is_delay, **known)
        return self._as_schedule(name, record)

    async def backfill(self, name: str, start: datetime, end: datetime, *, dry_run: bool = False) -> Times:
        """Run the occurrences from `start` to before `end` again or for the first time, under the versions in force then.

        The first version stands for the time before the schedule was made. `dry_run` only lists them.
        """
        turn = self._turn() if dry_run else self._writing_turn()
        record = await (self._record(turn, name) if dry_run else self._living(turn, name))
        first, last = from_datetime(start), from_datetime(end)
        if last <= first:
            raise BadOption("backfill: end is not after start", code="schedule.backfill")
        last = min(last, self._now() + 1)  # what is still to come will run by itself
        times = await sliced_times(name, record, first, last, self._activation.node.clock)
        if not dry_run and times:
            record = await self._living(turn, name)  # as it is now: the object may have gone on meanwhile
            now = self._now()
            book = Book(turn)
            lanes = min(record.options.policy.parallel, len(times))
            for index in range(lanes):
                part = times[index::lanes]
                lane = new_lane("backfill", self._activation.node.next_seq(self._activation.shard))
                if len(part) > 1:
                    book.put_times(name, lane, part)
                due = Due(part[0], is_backfill=True)
                start_lane(turn, name, record, lane, Lane("backfill", due, 0, len(part)), now)
            book.put(name, record)
        return [to_datetime(at) for at in times]

    async def history(self, name: str, limit: int = 100) -> Runs:
        """The latest verdicts, oldest first as in the ledger; also of a schedule that is gone."""
        self._turn()
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise BadOption(f"limit must be a whole number from 1, not {limit!r}", code="schedule.limit")
        await self._activation.settle()
        node, id = self._activation.node, self._activation.id
        query = Query(cls=id.cls, key=id.key, name=timer_name(check_schedule_name(name)), limit=limit)
        found = await node.reading(node.store.find_entries(query))
        return [Run.of(entry) for _, entry in reversed(found)]

    async def next(self, name: str, n: int = 10) -> Times:
        """The next n times that it runs, as far as can be said now."""
        record = await self._record(self._turn(), name)
        return next_times(record, self._now(), n)

    async def claim(self, name: str, window: Duration) -> Claim:
        """True for the first object that asks for the name, until the window is over: once across all objects."""
        return await claim(self._writing_turn(), name, window)

    # below the public methods

    def _parse(self, asked: Spec, method: str, args: Any, kwargs: dict[str, Any], given: dict[str, Any]) -> Options:
        parsed = parse_options(asked, method, args, kwargs, given)
        if parsed.on_missed is None:
            return parsed
        name = handler_name(self._activation, parsed.on_missed, what="on_missed")
        check_missed(self._activation.known.cls, name)
        return replace(parsed, on_missed=name)

    def _turn(self) -> Turn:
        return running_turn(self._activation, "schedules")

    def _writing_turn(self) -> Turn:
        turn = self._turn()
        turn.check_writable()
        return turn

    def _now(self) -> int:
        return self._activation.node.clock.now()

    def _as_schedule(self, name: str, record: Record) -> Schedule:
        return Schedule.of(name, record, self._now())

    async def _record(self, turn: Turn, name: str) -> Record:
        record = await Book(turn).get(check_schedule_name(name))
        if record is None:
            names = list(await self._records())
            near = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise UnknownSchedule(f"{self._activation.id} has no schedule {name!r}; it has {near or 'none'}")
        return record

    async def _living(self, turn: Turn, name: str) -> Record:
        """The schedule, unless it is one that the class declared once: nothing of it may run."""
        record = await self._record(turn, name)
        if record.state == "retired":
            raise Conflict(
                f"{self._activation.id}: schedule {name!r} is retired, because {self._activation.id.cls} no longer "
                "declares it; declare it again, or add one of another name",
                code="schedule.retired",
            )
        return record

    async def _choose(
        self, turn: Turn, name: str | None, tag: str | None, *, living: bool = False
    ) -> dict[str, Record]:
        """The one of that name, or all with that tag."""
        if (name is None) == (tag is None):
            raise BadOption("say which: a name, or tag='…'", code="schedule.which")
        if name is not None:
            return {name: await (self._living(turn, name) if living else self._record(turn, name))}
        found = {one: record for one, record in (await self._records()).items() if tag in record.options.tags}
        return {one: record for one, record in found.items() if not living or record.state != "retired"}

    async def _records(self, *, after: str | None = None, limit: int | None = None) -> dict[str, Record]:
        """All of them, as the turn sees them, or the next ones past a name."""
        first = f"{PREFIX}:" if after is None else f"{PREFIX}:{after}\0"
        found = await scan(self._activation, self._turn(), SYSTEM, first, f"{PREFIX};", limit=limit)
        return {key.partition(":")[2]: decode_record(data, key) for key, data in found.items()}


async def upsert(
    turn: Turn, name: str, asked: Spec, options: Options, *, is_declared: bool, is_named: bool, is_afresh: bool = False
) -> Record:
    """Make the schedule of that name be this; what is the same already stays as it is, its next occurrence above all.

    `is_afresh`: the spec begins now, though it may be the same.
    """
    book = Book(turn)
    record = await _link(book, turn.activation.id, name, options.depends_on)
    if record is None:
        await _admit(turn, book, is_declared=is_declared)
        now = turn.activation.node.clock.now()
        record = Record(options=options, versions=[], is_declared=is_declared, is_named=is_named, judged_to=now)
    is_same = bool(record.versions) and record.version.asked == asked.text and record.version.until is None
    is_same = is_same and not is_afresh
    if record.options == options and is_same and record.is_declared == is_declared:
        return record
    await _change(turn, name, record, None if is_same else asked, options, is_declared=is_declared)
    book.put(name, record)
    return record


async def _link(book: Book, id: Any, name: str, depends_on: tuple[str, ...]) -> Record | None:
    """The record as it is, once those that it depends on know of it."""
    record = await book.get(name)
    before = record.options.depends_on if record is not None else ()
    if depends_on == before:
        return record
    await _depend(book, id, name, depends_on, before)
    return record and await book.get(name)


async def _admit(turn: Turn, book: Book, *, is_declared: bool) -> None:
    """One more schedule of the object, if its limits and those of its tenant let it."""
    activation = turn.activation
    count = (await book.meta()).count + 1
    if count > activation.node.limits.schedules_per_object:
        raise LimitExceeded(
            f"{activation.id} has {count - 1} schedules, its limit; spread them over several objects with sharded(…)",
            code="limit.schedules",
        )
    feature = feature_of(activation.node)
    # What a class declares is not the tenant's doing, and must not make its objects unusable: counted, not refused.
    await (feature.release if is_declared else feature.admit)(turn, count)
    meta = await book.meta()
    meta.count += 1
    book.put_meta(meta)


async def _change(
    turn: Turn, name: str, record: Record, asked: Spec | None, options: Options, *, is_declared: bool
) -> None:
    """Give it these options, and this spec (None: the one that it has); aim at what comes next then."""
    activation = turn.activation
    now = activation.node.clock.now()
    is_moved = asked is not None or _bounds(record.options) != _bounds(options)
    was_pending = bool(record.pending)
    is_running = turn.consumed is not None and schedule_of(turn.consumed.name)[0] == name
    if is_moved and record.versions and record.state == "active" and record.extra is None and not is_running:
        left = judge_all(record, now)  # what fell due by now did so under the old ones
        turn.entries = [*turn.entries, *entries_of(activation.id, name, left, now=now, node=activation.node.name)]
    record.options, record.is_declared = options, is_declared
    if is_moved and record.state == "done":  # it may have more to do now, but owes nothing for the time between
        record.state, record.judged_to = "active", max(record.judged_to, now)
    if asked is not None:
        if record.extra is not None:  # everything up to it was let go for it, and it is let go for the new spec
            record.judged_to = min(record.judged_to, now)
        _add_version(record, asked, turn, name, now)
        record.state, record.extra = "active", None
        record.trace = None if is_declared else current_trace(activation.node.tracer)
    is_freed = record.waits_for is not None and record.waits_for not in options.depends_on
    if is_freed:
        record.waits_for = None
    if is_freed or (is_moved and not was_pending):
        aimed_at = record.next_at
        aim(turn, name, record, now)
        if aimed_at is not None and aimed_at <= now and aimed_at == record.next_at:
            await _keep_crashes(turn, timer_name(name))


async def _keep_crashes(turn: Turn, timer: str) -> None:
    """The new timer is for an occurrence that is due already: the processes that died of it are counted on.

    Else a program that adds its schedule anew at each start would never be rid of a run that kills it.
    """
    node, id = turn.activation.node, turn.activation.id
    rows = await node.reading(node.store.find_timers(Query(cls=id.cls, key=id.key, name=timer, limit=1)))
    aimed = turn.timers[timer]
    if rows and aimed is not None:
        turn.set_timer(replace(aimed, crashes=node.crashes_of(rows[0])))


def _add_version(record: Record, asked: Spec, turn: Turn, name: str, now: int) -> None:
    id = turn.activation.id
    zone = feature_of(turn.activation.node).default_zone
    spec = asked.bind(added_at=now, seed=f"{id.cls}/{id.key}/{name}", zone=zone)
    since = now
    if isinstance(spec, At) and spec.at_ms <= now:  # one that is past already is still owed, once
        if record.versions:
            record.pending = [*record.pending, Due(spec.at_ms)]
        else:
            since = spec.at_ms - 1
            record.judged_to = min(record.judged_to, since)
    number = record.version.number + 1 if record.versions else 1
    if record.versions and record.version.until is None:
        ended = [replace(record.version, until=now)]
        if record.version.asked == asked.text:  # the same delay once more, as often as one likes: only the last is kept
            owed_at = record.timeline.next_ms(record.judged_to)
            ended = ended if owed_at is not None and owed_at <= now else []
        record.versions = [*record.versions[:-1], *ended]
    elif record.versions:
        record.judged_to = max(record.judged_to, now)  # it was retired: nothing is owed for that time
    record.versions = [*record.versions, Version(number, asked.text, kept_text(spec), since)]


def _bounds(options: Options) -> tuple[object, ...]:
    """The options that move the next occurrence."""
    return options.start_at, options.end_at, options.max_runs, options.policy.parallel


def _end_pause(record: Record, now: int) -> list[PausedSpan]:
    """Its pauses with the one that holds now ended: the latest, and those that hold what still waits for a verdict."""
    ended = [replace(p, until=now) if p.until is None or p.until > now else p for p in record.pauses]
    timeline = record.timeline
    kept = []
    for index, pause in enumerate(ended):
        at = timeline.next_ms(max(pause.since, record.judged_to))
        if index >= len(ended) - PAUSES_MAX or (at is not None and pause.holds(at)):
            kept.append(pause)
    return kept


def _with(kept: Options, parsed: Options, named: Iterable[str]) -> Options:
    """The options kept, but for those that were named."""
    policy = {
        POLICY_FIELDS[name]: getattr(parsed.policy, POLICY_FIELDS[name]) for name in named if name in POLICY_FIELDS
    }
    others = {name: getattr(parsed, name) for name in named if name not in POLICY_FIELDS}
    return replace(kept, policy=replace(kept.policy, **policy), **others)


async def _depend(book: Book, id: Any, name: str, depends_on: tuple[str, ...], before: tuple[str, ...]) -> None:
    """Let the schedules that this one depends on know of it."""
    others: dict[str, tuple[str, ...]] = {}
    ahead = list(depends_on)
    while ahead:
        other = ahead.pop()
        record = await book.get(other) if other not in others else None
        if record is not None:
            others[other] = record.options.depends_on
            ahead += record.options.depends_on
    check_dependencies(name, depends_on, others)
    for other in depends_on:
        record = await book.get(other)
        if record is not None and name not in record.dependents:
            record.dependents = [*record.dependents, name]
            book.put(other, record)
    for other in set(before) - set(depends_on):
        await _forget_dependent(book, other, name)


async def _forget_dependent(book: Book, name: str, dependent: str) -> None:
    record = await book.get(name)
    if record is not None:
        record.dependents = [other for other in record.dependents if other != dependent]
        book.put(name, record)


def next_times(record: Record, now: int, n: int) -> Times:
    """The next n times that it runs, pauses left out."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= NEXT_MAX:
        raise BadOption(f"n must be a whole number from 1 to {NEXT_MAX}, not {n!r}", code="schedule.n")
    if record.state != "active":
        return []
    if record.options.max_runs is not None:
        n = min(n, record.options.max_runs - record.used - len(record.pending))
    times: list[datetime] = []
    timeline = record.timeline
    at = timeline.next_ms(max(now, record.judged_to))
    while at is not None and len(times) < n:
        pause = timeline.pause_of(at)
        if pause is None:
            times.append(to_datetime(at))
        elif pause.until is None:
            break
        else:
            at = pause.until - 1
        at = timeline.next_ms(at)
    return times


OPERATIONS = ("add", "get", "list", "pause", "resume", "trigger", "cancel", "reschedule", "backfill", "history", "next")


def operations() -> dict[str, Any]:
    """What can be done to any object's schedules from outside, by dotted name."""

    def of(method: str) -> Any:
        def operate(ctx: "Context", *args: Any, **kwargs: Any) -> Awaitable[Any]:
            found: Awaitable[Any] = getattr(Schedules(ctx), method)(*args, **kwargs)
            return found

        return operate

    assert all(inspect.iscoroutinefunction(getattr(Schedules, name)) for name in OPERATIONS)
    return {f"schedules.{name}": of(name) for name in OPERATIONS}
