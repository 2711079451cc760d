"""Layer 4. What is a notice, of which kinds are there, and which of them does a commit give rise to?"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.policy.plan import MISSED
from wakeful.runtime.turn import Turn
from wakeful.specs.words import length_words
from wakeful.values.errors import BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.timers import MACHINE_TIMERS, Entry, Parked
from wakeful.values.times import to_datetime

PARKED, FAILED, LATE, OUTAGE, TEST = "parked", "failed", "late", "outage", "test"
KINDS = (PARKED, FAILED, "missed", LATE, OUTAGE)
SCHEDULE = "schedule:"  # what the ledger's names of a schedule's occurrences begin with
FEW = 10  # notices that one of many carries

_CODE = re.compile(r"\[([a-z_]+(?:\.[a-z_]+)+)\]$")


class NoticeError(Struct, frozen=True):
    """What went wrong: the type of the error, its code if it has one, and what it said."""

    type: str
    code: str | None
    message: str

    @classmethod
    def of(cls, text: str) -> "NoticeError":
        """From the words in which the ledger and the parked rows have it."""
        line = text.partition("\n")[0]
        name, colon, rest = line.partition(": ")
        if not colon or not re.fullmatch(r"[\w.]+", name):
            name, rest = "", line
        found = _CODE.search(rest)
        return cls(name, found.group(1) if found else None, rest)


class Notice(Struct, frozen=True, kw_only=True):
    """One thing that a person should hear of. `id` is the same however often it is delivered.

    >>> from datetime import timedelta
    >>> from wakeful import App, DurableObject
    >>> from wakeful.notices import Notice
    >>> app = App()
    >>> @app.object
    ... class Invoice(DurableObject):
    ...     async def send(self) -> None:
    ...         await self.storage.set_alarm(timedelta(minutes=1))
    ...     async def alarm(self) -> None:
    ...         raise ConnectionError("no route")
    >>> @app.on("parked", cls=Invoice)
    ... async def tell(notice: Notice) -> None:
    ...     print(notice.kind, notice.object, notice.attempts, notice.error.type)
    >>> async with app.world() as world:
    ...     await world.get(Invoice, "acme/17").send()
    ...     await world.advance(minutes=10)
    parked Invoice/acme/17 7 ConnectionError
    """

    kind: str
    id: str
    at: datetime  # when it happened
    node: str  # the node that saw it
    object: ObjectId | None = None  # None: it is about no object, but the store
    timer: str | None = None  # alarm, job:…, schedule:…, as the ledger calls it
    attempts: int = 0
    error: NoticeError | None = None
    lateness: timedelta | None = None  # of a late run
    since: datetime | None = None  # of an outage, or the first of several occurrences
    is_over: bool = False  # the outage
    count: int = 1  # how many it stands for: occurrences that were missed, or notices that came too fast
    first: tuple["Notice", ...] = ()  # the first few of those notices

    @property
    def what(self) -> str | None:
        """What the timer is: alarm, job, schedule, or a machine's delay, action, …; None when it is about none."""
        prefix = None if self.timer is None else self.timer.partition(":")[0]
        return None if prefix is None else _WHAT.get(prefix, prefix)

    @property
    def name(self) -> str | None:
        """What people call it: the method or key of a job, the name of a schedule or of a machine's action."""
        if self.timer is None:
            return None
        prefix, _, rest = self.timer.partition(":")
        if prefix == "job":
            return rest.removeprefix("=") if rest.startswith("=") else rest.partition(":")[0]
        return rest.rpartition("@")[0] if prefix == "run" else rest or prefix

    def __str__(self) -> str:
        """One line for people."""
        return self.words(messages=True)

    def words(self, *, messages: bool) -> str:
        """One line for people; what errors said, which may be anybody's data, only with `messages`."""
        if self.object is None and self.kind not in (OUTAGE, TEST):
            rest = "".join(f"; {one.words(messages=messages)}" for one in self.first[:3])
            return f"{self.count:,} × {self.kind}{rest}"
        if self.kind == TEST:
            return "a test of this webhook"
        what = self.what if self.name == self.what else f"{self.what} {self.name}"
        about = "the store" if self.object is None else f"{self.object} {what}"
        error = "" if self.error is None else f": {self.error.type or self.error.code or 'error'}"
        if messages and self.error is not None:
            error += f": {self.error.message}" if self.error.type else f", {self.error.message}"
        return f"{about} {self._what_happened()}{error}"

    def _what_happened(self) -> str:
        match self.kind:
            case "parked" | "failed":
                tries = "attempt" if self.attempts == 1 else "attempts"
                return f"{self.kind} after {self.attempts} {tries}"
            case "missed":
                return f"missed {self.count:,}"
            case "late":
                return f"ran {_rough_length(self.lateness or timedelta())} late"
            case "outage":
                return "is back" if self.is_over else "is away"
        return self.kind


def _rough_length(length: timedelta) -> str:
    """As people say it: of minutes the seconds, of hours the minutes, and no milliseconds but of what is shorter than a second."""
    ms = length // timedelta(milliseconds=1)
    unit = next((unit for least, unit in ((3_600_000, 60_000), (1_000, 1_000)) if ms >= least), 1)
    return length_words(ms // unit * unit)


_WHAT = {"run": "schedule", **MACHINE_TIMERS}  # by the timer's prefix, where that says it otherwise


def encode_notice(notice: Notice) -> bytes:
    return msgspec.msgpack.encode(notice)


def decode_notice(data: bytes | None) -> Notice:
    return _decoder.decode(data or b"")


_decoder = msgspec.msgpack.Decoder(Notice)


def check_kinds(kinds: object) -> frozenset[str]:
    """Kinds that there are, or `BadOption` that lists them."""
    given = (kinds,) if isinstance(kinds, str) else kinds
    if not isinstance(given, Sequence | set | frozenset) or not given:
        raise BadOption(f"a notice of what? give {', '.join(KINDS)}, not {kinds!r}", code="notice.kind")
    for kind in given:
        if kind not in KINDS:
            raise BadOption(f"there are no notices of kind {kind!r}; give {', '.join(KINDS)}", code="notice.kind")
    return frozenset(given)


def notice_id(*parts: object) -> str:
    """The same for the same thing, whoever tells of it and however often."""
    return blake2b("\0".join(map(str, parts)).encode(), digest_size=12).hexdigest()


def notices_of(turn: Turn, late_ms: int | None) -> Iterator[Notice]:
    """What the commit of this turn gives rise to; runs that began so much too late are told of, None: no run is."""
    for parked in turn.parks:
        yield _of_parked(turn, parked)
    missed: dict[str, list[Entry]] = {}
    for entry in turn.entries:
        if entry.verdict in MISSED and entry.name.startswith(SCHEDULE):
            missed.setdefault(entry.name, []).append(entry)
        elif late_ms is not None and entry.verdict in ("run", "failed") and turn.consumed is not None:
            # A run that stands for missed ones is as late as its occurrence; what was made due again, by a retry too, is not.
            stands_for_missed = entry.missed and not entry.attempt and not _is_redriven(turn.consumed.name)
            lateness = entry.fired_at - (entry.nominal_at if stands_for_missed else turn.consumed.due_at)
            if lateness >= late_ms and not entry.is_backfill:
                yield _of_late(turn, entry, lateness)
    for name, entries in missed.items():
        yield _of_missed(turn, name, entries)


def _is_redriven(timer: str) -> bool:
    """Whether it is the lane of an occurrence that somebody redrove, as schedules name it: `run:NAME@p…`."""
    return timer.startswith("run:") and timer.rpartition("@")[2].startswith("p")


def _of_parked(turn: Turn, parked: Parked) -> Notice:
    timer = parked.timer
    # Actions of a machine, and its letters, have numbers for names; in the ledger they have their own.
    named = (entry.name for entry in turn.entries if entry.run_id == parked.run_id)
    name = next(named, timer.name) if timer.name.startswith(("machine-do:", "machine-mail:")) else timer.name
    kind = FAILED if timer.name.startswith("job:") else PARKED
    return Notice(
        kind=kind,
        id=notice_id(kind, *timer.id, timer.name, timer.seq, parked.run_id),
        at=to_datetime(parked.parked_at),
        node=turn.activation.node.name,
        object=timer.id,
        timer=name,
        attempts=parked.attempts,
        error=NoticeError.of(parked.error),
    )


def _of_late(turn: Turn, entry: Entry, lateness: int) -> Notice:
    assert turn.consumed is not None
    return Notice(
        kind=LATE,
        id=notice_id(LATE, *entry.id, entry.run_id, turn.consumed.seq, entry.attempt),
        at=to_datetime(entry.fired_at),
        node=entry.node,
        object=entry.id,
        timer=entry.name,
        attempts=entry.attempt + 1,
        lateness=timedelta(milliseconds=lateness),
    )


def _of_missed(turn: Turn, name: str, entries: list[Entry]) -> Notice:
    id, first, last = turn.activation.id, entries[0], entries[-1]
    return Notice(
        kind="missed",
        id=notice_id("missed", *id, name, first.first_at or first.nominal_at, last.nominal_at),
        at=to_datetime(last.finished_at),
        node=last.node,
        object=id,
        timer=name,
        since=to_datetime(first.first_at or first.nominal_at),
        count=sum(entry.covers for entry in entries),
    )


# Many at once become one.


def gather(kind: str, count: int, first: Sequence[Notice], at: int, node: str) -> Notice:
    """One notice that stands for so many, with the first few of them."""
    if len(first) == 1 and first[0].count == count:
        return first[0]
    id = notice_id("many", kind, count, at, *(one.id for one in first))
    since = min((one.at for one in first), default=None)
    return Notice(kind=kind, id=id, at=to_datetime(at), node=node, since=since, count=count, first=tuple(first))


def may_tell_of(data: bytes, id: ObjectId) -> bool:
    """The encoded notice has what that name is encoded as: of most that takes no decoding to deny."""
    return msgspec.msgpack.encode(id) in data


def tells_of(notice: Notice, id: ObjectId) -> bool:
    """It has the name of that object in it."""
    return notice.object == id or any(one.object == id for one in notice.first)


def without(notice: Notice, id: ObjectId) -> Notice | None:
    """The notice without anything of that object; None when nothing is left of it."""
    if notice.object == id:
        return None
    return replace(notice, first=tuple(one for one in notice.first if one.object != id))
