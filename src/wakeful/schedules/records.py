"""Layer 4. What is kept of a schedule beside its timer, and where?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.policy.plan import ENDLESS_MS, MISSED, WINDOW_MS, Due, PausedSpan, Policy, Timeline, Version, spec_of
from wakeful.policy.retry import Retry
from wakeful.runtime.turn import Turn
from wakeful.specs.spec import Spec
from wakeful.values.codec import decode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.errors import LimitExceeded, Undecodable
from wakeful.values.timers import Run
from wakeful.values.times import Clock, to_datetime
from wakeful.values.trace import without_trace

# How has a schedule been doing?

# Lateness is kept in buckets that double: 0, 1, 2–3, 4–7 … ms; the last takes everything from 12 days up.
_BUCKETS = 31


class Counters(Struct, kw_only=True, array_like=True):
    """Sums over all occurrences, kept for ever; the ledger has the latest ones singly."""

    runs: int = 0  # ran well
    failures: int = 0  # given up after their retries
    retries: int = 0  # failed attempts that were tried again
    skipped: int = 0
    too_late: int = 0
    coalesced: int = 0
    overlap: int = 0
    paused: int = 0
    gap: int = 0
    last_run_at: int | None = None
    last_duration_ms: int | None = None
    last_missed_at: int | None = None
    lateness_ms: int = 0  # sum
    buckets: list[int] = []

    @property
    def missed(self) -> int:
        """Occurrences that fell due, should have run and did not."""
        return self.skipped + self.too_late + self.coalesced

    @property
    def occurrences(self) -> int:
        """All that have a verdict."""
        return self.runs + self.failures + self.missed + self.overlap + self.paused + self.gap

    @property
    def average_lateness_ms(self) -> float | None:
        return self.lateness_ms / self.runs if self.runs else None

    @property
    def p99_lateness_ms(self) -> int | None:
        """At most this late were 99 of 100 runs, to within a factor of two."""
        return self.percentile_ms(99)

    def percentile_ms(self, percent: int) -> int | None:
        total = sum(self.buckets)
        seen = 0
        for bits, count in enumerate(self.buckets):
            seen += count
            if seen * 100 >= total * percent:
                return (1 << bits) - 1
        return None

    def ran(self, fired_at: int, finished_at: int, lateness_ms: int) -> None:
        lateness_ms = max(0, lateness_ms)
        self.runs += 1
        self.last_run_at = fired_at
        self.last_duration_ms = finished_at - fired_at
        self.lateness_ms += lateness_ms
        bucket = min(lateness_ms.bit_length(), _BUCKETS)
        buckets = self.buckets + [0] * (bucket + 1 - len(self.buckets))
        buckets[bucket] += 1
        self.buckets = buckets

    def add_left(self, verdict: str, count: int, last_at: int) -> None:
        """So many did not run, with that verdict."""
        setattr(self, verdict, getattr(self, verdict) + count)
        if verdict in MISSED:
            self.last_missed_at = max(self.last_missed_at or 0, last_at)

    def add(self, other: "Counters") -> None:
        """Sum up over several schedules."""
        for name in ("runs", "failures", "retries", "skipped", "too_late", "coalesced", "overlap", "paused", "gap"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lateness_ms += other.lateness_ms
        if (other.last_run_at or 0) > (self.last_run_at or 0):
            self.last_run_at, self.last_duration_ms = other.last_run_at, other.last_duration_ms
        if (other.last_missed_at or 0) > (self.last_missed_at or 0):
            self.last_missed_at = other.last_missed_at
        longer, shorter = sorted((self.buckets, other.buckets), key=len, reverse=True)
        self.buckets = [n + (shorter[i] if i < len(shorter) else 0) for i, n in enumerate(longer)]


PREFIX = "schedule"  # of the timer that runs the occurrences one after the other
LANE = "run"  # of timers that run occurrences beside it: triggered, backfilled, redriven, parallel ones
META: Slot = (SYSTEM, "schedules")

State = Literal["active", "done", "retired"]
Kind = Literal["trigger", "backfill", "redrive", "parallel"]


class Options(Struct, frozen=True, kw_only=True, array_like=True):
    """Everything about a schedule that its user chose, but for the spec."""

    handler: str
    args: bytes | None = None  # encoded (args, kwargs)
    policy: Policy = Policy()
    retry: Retry = Retry()
    start_at: int | None = None
    end_at: int | None = None
    max_runs: int | None = None
    tags: tuple[str, ...] = ()
    metadata: bytes | None = None
    priority: int = 0
    depends_on: tuple[str, ...] = ()
    on_missed: str | None = None


class Untold(Struct, frozen=True, array_like=True):
    """Missed occurrences: how many, the first and the last of them."""

    count: int
    first_at: int
    last_at: int


class Record(Struct, kw_only=True, array_like=True):
    """A schedule as it stands.

    Every occurrence up to and including `judged_to` has its verdict in the ledger, or waits in `pending` to run.
    """

    options: Options
    versions: list[Version]
    state: State = "active"
    is_declared: bool = False
    is_named: bool = True  # False: the name was made up, and it goes when it is done
    judged_to: int
    pending: list[Due] = []
    pauses: list[PausedSpan] = []
    extra: int | None = None  # an occurrence that its handler asked for with `Next`
    next_at: int | None = None  # what its timer is set for
    lost: int = 0  # missed ones that no run has been told of yet
    lost_first_at: int = 0
    lanes: list[str] = []  # timers that run occurrences beside its own
    waits_for: str | None = None  # the schedule that its first pending occurrence waits for
    dependents: list[str] = []
    succeeded_at: int = 0  # nominal time of the latest occurrence that ran well
    counters: Counters = msgspec.field(default_factory=Counters)
    used: int = 0  # of `max_runs`: occurrences of its own that ran or were given up
    untold: Untold | None = None  # missed ones that `on_missed` has not been told of yet
    seq: int = 0  # of the timer that is set for it: one of another setting has had its run
    latest_at: int = 0  # nominal time of the latest occurrence that ran or was given up
    trace: str | None = None  # of whoever added it
    is_partial: bool = False  # so much fell due that it was judged in part; the rest follows at once
    has_missed: bool = False  # and some of that part was missed

    @property
    def is_used_up(self) -> bool:
        return self.options.max_runs is not None and self.used >= self.options.max_runs

    @property
    def version(self) -> Version:
        return self.versions[-1]

    @property
    def policy(self) -> Policy:
        """What it does when it is late: what happens once has no window unless one was given, as no other time follows."""
        policy = self.options.policy
        if policy.window_ms != WINDOW_MS or not spec_of(self.version.spec).is_once:
            return policy
        return replace(policy, window_ms=ENDLESS_MS)

    @property
    def timeline(self) -> Timeline:
        options = self.options
        return Timeline(
            self.versions, pauses=self.pauses, start_at=options.start_at, end_at=options.end_at, extra=self.extra
        )

    def pause_at(self, now: int) -> PausedSpan | None:
        """The pause that holds it now."""
        return next((p for p in self.pauses if p.since <= now and (p.until is None or now < p.until)), None)


class Meta(Struct, kw_only=True, array_like=True):
    """What an object keeps about all its schedules."""

    count: int = 0
    declared: bytes = b""  # fingerprint of the class's declarations that were last reconciled
    prints: dict[str, bytes] = {}  # fingerprint of each declaration that was reconciled, by name
    gone: Counters = msgspec.field(default_factory=Counters)  # of schedules that are no more


class Lane(Struct, array_like=True):
    """The payload of a timer that runs occurrences beside the schedule's own."""

    kind: Kind
    due: Due
    index: int = 0  # of a backfill: how many are behind it
    total: int = 1
    salt: str = ""  # what tells its run id from that of the schedule's own occurrence at that time


_encoder = msgspec.msgpack.Encoder()
_records = msgspec.msgpack.Decoder(Record)
_metas = msgspec.msgpack.Decoder(Meta)
_lanes = msgspec.msgpack.Decoder(Lane)
_lists = msgspec.msgpack.Decoder(list[int])


def slot_of(name: str) -> Slot:
    """Where the record of that schedule is."""
    return (SYSTEM, f"{PREFIX}:{name}")


def timer_name(name: str) -> str:
    return f"{PREFIX}:{name}"


def lane_name(name: str, lane: str) -> str:
    return f"{LANE}:{name}@{lane}"


# What a lane is for is the first letter of its name, the rest tells it from others of its kind.
_LANE_LETTERS: dict[Kind, str] = {"trigger": "t", "backfill": "b", "redrive": "p", "parallel": "n"}


def new_lane(kind: Kind, number: int) -> str:
    """The name of a lane: of one of the schedule's own occurrences by its nominal time, else by a number of its own.

    >>> new_lane("parallel", 1_767_225_600_000), new_lane("trigger", 255)
    ('n19b76dcbc00', 'tff')
    """
    return f"{_LANE_LETTERS[kind]}{number:x}"


def number_of_lane(lane: str, kind: Kind) -> int | None:
    """What it was made with, if it is of that kind."""
    return int(lane[1:], 16) if lane[0] == _LANE_LETTERS[kind] else None


def schedule_of(timer: str) -> tuple[str, str]:
    """The schedule that a timer belongs to, and the lane ("" for its own timer)."""
    prefix, _, rest = timer.partition(":")
    if prefix == PREFIX:
        return rest, ""
    name, _, lane = rest.rpartition("@")
    return name, lane


def decode_record(data: bytes, what: str) -> Record:
    try:
        return _records.decode(data)
    except msgspec.DecodeError as error:
        raise Undecodable(f"{what}: the stored schedule is damaged: {error}", code="schedule.damaged") from None


def decode_meta(data: bytes | None) -> Meta:
    return Meta() if data is None else _metas.decode(data)


def decode_lane(data: bytes | None) -> Lane:
    if data is None:
        raise Undecodable("a schedule's run has no payload", code="schedule.damaged")
    return _lanes.decode(without_trace(data))


def encode_struct(value: Struct) -> bytes:
    return _encoder.encode(value)


def count_out(record: Record) -> Iterator[None]:
    """Count out the rules of its specs that have a COUNT, in pieces: all at once takes longer than others should wait."""
    for version in record.versions:
        if "COUNT=" in version.spec:
            yield from spec_of(version.spec).count_out()


class Book:
    """The schedules of one object, read and written through one turn."""

    __slots__ = ("_last", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._last: tuple[bytes, Record] | None = None  # what was put last, and what it was made of

    async def get(self, name: str) -> Record | None:
        """The record, for the asker to change: that changes nothing until `put`."""
        data = await self._read(slot_of(name))
        if data is None:
            return None
        last, self._last = self._last, None
        if last is not None and last[0] is data:
            return last[1]  # nobody wrote it since, and nobody else has it
        record = decode_record(data, f"{self._turn.activation.id} {name}")
        for _ in count_out(record):
            await self._turn.activation.node.clock.sleep(0)
        return record

    def put(self, name: str, record: Record) -> None:
        """Write the record; it is the book's from here on."""
        data = self._turn.writes[slot_of(name)] = _encoder.encode(record)
        self._last = (data, record)

    def put_encoded(self, name: str, data: bytes) -> None:
        """Write what a record was once."""
        self._turn.writes[slot_of(name)] = data

    def drop(self, name: str) -> None:
        self._turn.writes[slot_of(name)] = None

    async def meta(self) -> Meta:
        return decode_meta(await self._read(META))

    def put_meta(self, meta: Meta) -> None:
        self._turn.writes[META] = _encoder.encode(meta)

    async def times(self, name: str, lane: str) -> list[int]:
        """The occurrences of a backfill."""
        data = await self._read((SYSTEM, lane_name(name, lane)))
        return [] if data is None else _lists.decode(data)

    def put_times(self, name: str, lane: str, times: list[int]) -> None:
        self._turn.writes[SYSTEM, lane_name(name, lane)] = _encoder.encode(times)

    def drop_times(self, name: str, lane: str) -> None:
        self._turn.writes[SYSTEM, lane_name(name, lane)] = None

    async def _read(self, slot: Slot) -> bytes | None:
        if slot in self._turn.writes:
            return self._turn.writes[slot]
        return await self._turn.activation.rows.read(slot)


# Which occurrences does a backfill run?

BACKFILL_MAX = 10_000  # runs of one backfill; more is a migration, and should be one
BACKFILL_COUNTED_MAX = 10 * BACKFILL_MAX  # counted to say how many it would be: some tenths of a second
BREATH = 200  # occurrences that are worked out at once: about two milliseconds


def backfill_times(name: str, record: Record, first: int, last: int) -> list[int]:
    """The occurrences in `first <= t < last`, under the versions then in force."""
    found = list(occurrences(record, first, last))
    check_backfill(name, found)
    return found


def occurrences(record: Record, first: int, last: int) -> Iterator[int]:
    """Those occurrences one after the other, at most one more than are counted."""
    versions = [replace(record.versions[0], since=min(first - 1, record.versions[0].since)), *record.versions[1:]]
    timeline = Timeline(versions, start_at=record.options.start_at, end_at=record.options.end_at)
    at = timeline.next_ms(first - 1)
    for _ in range(BACKFILL_COUNTED_MAX + 1):
        if at is None or at >= last:
            return
        yield at
        at = timeline.next_ms(at)


async def sliced_times(name: str, record: Record, first: int, last: int, clock: Clock) -> list[int]:
    """Those occurrences as a list, with room for others between: thousands take longer than their timers should wait."""
    times: list[int] = []
    for at in occurrences(record, first, last):
        times.append(at)
        if len(times) % BREATH == 0:
            await clock.sleep(0)
    check_backfill(name, times)
    return times


def check_backfill(name: str, found: list[int]) -> None:
    """`LimitExceeded` when that is more than one backfill may run."""
    if len(found) > BACKFILL_MAX:
        more = "more than " if len(found) > BACKFILL_COUNTED_MAX else ""
        raise LimitExceeded(
            f"backfill of {name!r}: that would be {more}{min(len(found), BACKFILL_COUNTED_MAX)} runs, "
            f"the limit is {BACKFILL_MAX}; take a shorter range",
            code="limit.backfill",
        )


# A schedule as people see it.

Standing = Literal["active", "paused", "waiting", "done", "retired"]


@dataclass(frozen=True, slots=True)
class SpecVersion:
    """One spec that a schedule had, and from when to when it was in force."""

    number: int
    text: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a schedule was at the moment of asking; it does not change when the schedule does.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Report(DurableObject):
    ...     async def send(self) -> None: ...
    >>> async with app.world(start="2026-03-28T12:00Z") as world:
    ...     schedule = await app.schedules(Report, "eu").add("every monday at 9am", Report.send, name="weekly")
    ...     print(schedule.name, schedule.state, schedule.next_at)
    weekly active 2026-03-30 09:00:00+00:00
    """

    name: str
    handler: str
    text: str  # the spec, as `str(spec)` has it
    state: Standing
    next_at: datetime | None
    tags: tuple[str, ...]
    metadata: Any
    versions: tuple[SpecVersion, ...]
    is_declared: bool
    depends_on: tuple[str, ...]
    waits_for: str | None  # the schedule whose run its due occurrence waits for
    note: str  # of the pause
    paused_until: datetime | None
    catch_up: str
    counters: Counters

    @property
    def spec(self) -> Spec:
        return spec_of(self.text)

    @property
    def version(self) -> int:
        return self.versions[-1].number

    @classmethod
    def of(cls, name: str, record: Record, now: int) -> "Schedule":
        """The record, for people."""
        pause = record.pause_at(now)
        options = record.options
        return cls(
            name=name,
            handler=options.handler,
            text=record.version.spec,
            state=standing_of(record, now),
            next_at=None if record.next_at is None else to_datetime(record.next_at),
            tags=options.tags,
            metadata=None if options.metadata is None else decode(options.metadata),
            versions=tuple(
                SpecVersion(v.number, v.spec, to_datetime(v.since), None if v.until is None else to_datetime(v.until))
                for v in record.versions
            ),
            is_declared=record.is_declared,
            depends_on=options.depends_on,
            waits_for=record.waits_for,
            note=pause.note if pause is not None else "",
            paused_until=to_datetime(pause.until) if pause is not None and pause.until is not None else None,
            catch_up=options.policy.catch_up,
            counters=record.counters,
        )


def standing_of(record: Record, now: int) -> Standing:
    """How it stands, for people."""
    if record.state == "active" and record.pause_at(now) is not None:
        return "paused"
    return record.state if record.waits_for is None else "waiting"


# Answers, named here because a class with a method `list` can't say `list[…]` in its signatures.
Found = list[Schedule]
Runs = list[Run]
Times = list[datetime]
Names = list[str]
