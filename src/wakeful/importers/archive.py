"""Layer 5. How does one object travel in a file, with everything that it has and owes, and become one of a store?

JSON lines: a head that says what it is, a line for each row, an end that says how many there were and what they come to,
so that half a file is known for what it is. Values are as the store has them, so nothing is lost on the way.
"""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from wakeful.history.images import is_image_row
from wakeful.importers.findings import bad, short
from wakeful.jobs.payload import readable_payload
from wakeful.machines.records import ROW as MACHINE
from wakeful.policy.limits import check_storage_key, check_value_size
from wakeful.policy.order import INSERTED
from wakeful.runtime.admission import read_place
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.codec import decode_loosely
from wakeful.values.commits import (
    FORGOTTEN_SLOT,
    HISTORY,
    MIGRATIONS_SLOT,
    PAGES,
    SPACES,
    STATE_SLOT,
    SYSTEM,
    USER,
    Commit,
    Info,
    Remembered,
    Slot,
    is_page,
)
from wakeful.values.errors import BadInput, BadValue, Conflict, Fenced, Undecodable
from wakeful.values.ids import RESERVED, ObjectId, check_class, check_key, shard_of
from wakeful.values.timers import Entry, Parked, Timer
from wakeful.workflows.records import EVENTS, ROW, STEPS

# What of an object may travel in a file: the one rule of those who write it and of those who read it?
#
# Whoever reads trusts nobody: what `wakeful export` would not write is in no file that it wrote.

# What Wakeful keeps beside an object's own rows and is the object's alone. The rest names other objects or connections.
CARRIED = ("state", "migrations", "history", "schedules", "machine", "machine.gone", "workers.name")
CARRIED_FLOWS = ("workflow", "workflow.input", "workflow.outcome")
CARRIED_PREFIXES = ("schedule:", "run:", STEPS, EVENTS)
TIMERS = (
    "alarm",
    "schedule",
    "run",
    "job",
    "machine",
    "machine-do",
    "workflow",
)  # of its own; others are letters and errands


class Bar(msgspec.Struct, frozen=True):
    """Why something does not travel: the end of the error's code, what it is, and when it would."""

    code: str
    why: str
    until: str = ""


def check_own(id: ObjectId, what: str) -> None:
    """`BadValue` for an object of Wakeful's own: tokens, audit rows, keys, quotas come from nobody's file."""
    if id.cls.startswith(RESERVED):
        raise BadValue(
            f"{id} is of a class of Wakeful's own, which no {what}: tokens, quotas and functions on the app's clock are "
            "made in the deployment that they are for",
            code="import.reserved" if what.startswith("import") else "export.reserved",
        )


def bar_of_row(id: ObjectId, space: int, name: str, data: bytes) -> Bar | None:
    """What keeps the row from travelling."""
    if space == USER:
        return None
    if space == PAGES:
        return None if is_page(name, data) else Bar("row", f"{name!r} is no page of a database")
    if space == HISTORY:
        return None if is_image_row(name) else Bar("row", f"{name!r} is no undo image")
    if space != SYSTEM:
        return Bar("row", f"a row in space {space}, which there is not")
    if (space, name) == FORGOTTEN_SLOT:
        return Bar("forgotten", f"{id} is being forgotten")
    if name.startswith("jobs."):
        return Bar("jobs", f"other jobs wait for jobs of {id}", "when they have run")
    if name not in (*CARRIED, *CARRIED_FLOWS) and not name.startswith(CARRIED_PREFIXES):
        return Bar("row", f"{id} has something that this version can't carry: {name!r}")
    if (space, name) == MIGRATIONS_SLOT:
        done = _loosely(data)
        if type(done) is not int or done < 0:
            return Bar("row", f"how many migrations {id} has had can't be read")
    if (space, name) == MACHINE:
        kept = _loosely(data)
        if not isinstance(kept, dict):
            return Bar("row", f"what {id} keeps of its machine can't be read")
        if kept.get("parent") is not None or kept.get("actors"):
            return Bar("actors", f"{id} is a machine that others belong to; they would lose each other")
    return _bar_of_workflow(id, name, data)


def _bar_of_workflow(id: ObjectId, name: str, data: bytes) -> Bar | None:
    """One that waits for another object, or that another waits for, would lose it."""
    kept = _loosely(data) if name == ROW[1] or name.startswith(STEPS) else None
    if isinstance(kept, dict):
        asks = any(isinstance(wait, list) and wait[1:2] in (["call"], ["result"]) for wait in kept.get("waits") or ())
        if asks or kept.get("parent") is not None or kept.get("listeners"):
            return Bar("actors", f"{id} is a workflow that waits for another object, or that one waits for")
        if kept.get("place") is not None:
            return _bar_of_place(id, kept["place"])
    if isinstance(kept, list) and kept[1:2] == ["start"]:
        return Bar("actors", f"{id} is a workflow that has started others; they would lose each other")
    return None


def _bar_of_place(id: ObjectId, data: object) -> Bar | None:
    """Its place is known to a queue that stays where it is."""
    try:
        place = read_place(data)  # type: ignore[arg-type]
    except (msgspec.DecodeError, TypeError):
        return Bar("row", f"what {id} keeps of its queue can't be read")
    if place.ticket is not None:
        return Bar("queue", f"{id} is a workflow with a place in a queue", "when it has given that back")
    return None


def bar_of_timer(timer: Timer) -> Bar | None:
    """What keeps the timer from travelling: that it is about another object as well."""
    prefix = timer.name.partition(":")[0]
    if prefix not in TIMERS:
        return Bar(
            "timer", f"{timer.id} is in the middle of something with another object ({timer.name})", "when that is over"
        )
    if prefix == "job":
        kept = readable_payload(timer)
        if kept.waits or kept.batch is not None:
            why = f"{timer.id} has a job that waits for others or belongs to a batch"
            return Bar("jobs", why, "when they have run")
        if kept.ticket is not None:
            return Bar("queue", f"{timer.id} has a job with a place in a queue", "when it has given that back")
    return None


def _loosely(data: bytes) -> object:
    try:
        return decode_loosely(data)
    except (Undecodable, RecursionError):
        return None


FORM = "wakeful"
VERSION = 1
PAGE = 500
TRIES = 5
SAID_MAX = 200  # of what an error of the file quotes
INT_MAX = (1 << 63) - 1
LEFT = ("sockets", "socket#", "machine.sender:")  # connections stay where they are, and no file says who sent an event
# The fields of each kind of line, which are those of `export`; an older file may have fewer.
_HEAD = frozenset({FORM, "version", "class", "key", "created_at", "active_at"})
_TIMER = frozenset(Timer.__struct_fields__) - {"id", "started"}
_KINDS = {
    "timer": _TIMER,
    "parked": frozenset(Parked.__struct_fields__),
    "ledger": frozenset(Entry.__struct_fields__) - {"id"},
    "answer": frozenset(Remembered.__struct_fields__),
}

Line = dict[str, Any]


class Carried(msgspec.Struct):
    """An object as the file has it."""

    id: ObjectId
    created_at: int
    active_at: int
    puts: dict[Slot, bytes]
    timers: list[Timer]
    entries: list[Entry]  # oldest first
    parked: list[Parked]
    answers: list[Remembered]

    def counts(self) -> dict[str, int]:
        """How much of each there is."""
        return {
            "storage": sum(space == USER for space, _ in self.puts),
            "state": sum(slot == STATE_SLOT for slot in self.puts),
            "database": sum(space == PAGES for space, _ in self.puts),
            "schedules": sum(name.startswith("schedule:") for _, name in self.puts),
            "timers": len(self.timers),
            "ledger": len(self.entries),
            "parked": len(self.parked),
            "answers": len(self.answers),
        }


# out


async def export(store: Store, id: ObjectId, *, now: int) -> tuple[list[bytes], list[str]]:
    """The lines of the file, all of one moment, and what is left behind; `Conflict` for what can't travel."""
    check_own(id, "export writes")
    before = None
    for _ in range(TRIES):
        lines, left = [], list[str]()
        async for line in _lines(store, id, now, left):
            lines.append(_encode(line))
        # The same rows twice: nothing was committed between the first read of a row and the last.
        if lines == before:
            return [*lines, _encode(_end(lines))], left
        before = lines
    raise Conflict(f"{id} changes all the time; export it when it is at rest, or stop its process", code="export.busy")


async def _lines(store: Store, id: ObjectId, now: int, left: list[str]) -> AsyncIterator[Line]:
    [loaded] = await store.load([id])
    info = loaded.info
    assert info is not None, "whoever exports has seen that the object is there"
    yield _head(info)
    for space in SPACES:
        first = ""
        while rows := await store.scan(id, space, Range(first, limit=PAGE)):
            for name, data in rows:
                if _is_carried(id, space, name, data, left):
                    yield {"row": [space, name, _text(data)]}
            first = f"{rows[-1][0]}\0"
    async for timer in _timers(store, id):
        _check(bar_of_timer(timer))
        yield {"timer": _timer(timer)}
    for parked in await _parked(store, id):
        _check(bar_of_timer(parked.timer))
        yield {"parked": {**_fields(parked), "timer": _timer(parked.timer), "number": None}}
    for entry in await _entries(store, id):
        yield {"ledger": {name: value for name, value in _fields(entry).items() if name != "id"}}
    async for answer in _answers(store, id, now):
        yield {"answer": {**_fields(answer), "fingerprint": _text(answer.fingerprint), "answer": _text(answer.answer)}}


def _head(info: Info) -> Line:
    return {
        FORM: "object",
        "version": VERSION,
        "class": info.id.cls,
        "key": info.id.key,
        "created_at": info.created_at,
        "active_at": info.active_at,
    }


def _end(lines: list[bytes]) -> Line:
    return {"end": len(lines), "digest": _digest(lines)}


def _digest(lines: list[bytes]) -> str:
    total = blake2b(digest_size=16)
    for line in lines:
        total.update(line)
    return total.hexdigest()


def _encode(line: Line) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _is_carried(id: ObjectId, space: int, name: str, data: bytes, left: list[str]) -> bool:
    """Whether the row travels; `Conflict` when the object could not live without it and it can't."""
    if space == SYSTEM and name.startswith(LEFT):
        left.append("its open sockets stay where they are" if name == LEFT[0] else "")
        return False
    _check(bar_of_row(id, space, name, data))
    return True


def _check(bar: Bar | None) -> None:
    if bar is not None:
        until = f"; export it {bar.until}" if bar.until else ""
        raise Conflict(f"{bar.why}{until}", code=f"export.{bar.code}")


async def _timers(store: Store, id: ObjectId) -> AsyncIterator[Timer]:
    query = Query(cls=id.cls, key=id.key, limit=PAGE)
    while page := await store.find_timers(query):
        for timer in page:
            yield timer
        query = msgspec.structs.replace(query, after=page[-1].sort_key)


async def _parked(store: Store, id: ObjectId) -> list[Parked]:
    found: list[Parked] = []
    query = Query(cls=id.cls, key=id.key, limit=PAGE)
    while page := await store.find_parked(query):
        found += page
        query = msgspec.structs.replace(query, after=(page[-1].number,))
    return found


async def _entries(store: Store, id: ObjectId) -> list[Entry]:
    """Oldest first, which is the order in which they are written again."""
    found: list[Entry] = []
    query = Query(cls=id.cls, key=id.key, limit=PAGE)
    while page := await store.find_entries(query):
        found += [entry for _, entry in page]
        query = msgspec.structs.replace(query, after=(page[-1][0],))
    return found[::-1]


async def _answers(store: Store, id: ObjectId, now: int) -> AsyncIterator[Remembered]:
    query = Query(cls=id.cls, key=id.key, limit=PAGE)
    while page := await store.find_answers(query, now=now):
        for _, answer in page:
            yield answer
        query = msgspec.structs.replace(query, after=(id.cls, id.key, page[-1][1].key))


def _fields(value: msgspec.Struct) -> Line:
    return msgspec.structs.asdict(value)


def _timer(timer: Timer) -> Line:
    """`started` stays behind: who ran it is not there any more when it comes up elsewhere."""
    found = {name: value for name, value in _fields(timer).items() if name not in ("id", "started")}
    return found | {"payload": None if timer.payload is None else _text(timer.payload)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


# in


def is_one(head: bytes) -> bool:
    """Whether a file that begins so is one of these."""
    return head.startswith(f'{{"{FORM}":'.encode())


def read(data: bytes, name: str) -> Carried:
    """The object in the file, in which there is nothing but what `export` writes; errors name the line."""
    lines = data.splitlines(keepends=True)
    try:
        head, *rows, end = [json.loads(line) for line in lines]
        if not all(isinstance(one, dict) for one in (head, *rows, end)):
            raise ValueError
    except ValueError:
        raise bad(name, "it is not whole, or not one of these files: each line is one JSON object") from None
    except RecursionError:
        raise bad(name, "it is nested too deeply to be one of these files") from None
    if head.get(FORM) != "object" or head.get("version") != VERSION:
        raise bad(name, f"it is of version {short(head.get('version'))}, and this Wakeful reads version {VERSION}")
    if end.get("end") != len(lines) - 1 or end.get("digest") != _digest(lines[:-1]):
        raise bad(name, "it is not whole: its end does not fit the rest")
    number = 1
    try:
        id = ObjectId(check_class(head["class"]), check_key(head["class"], head["key"]))
        check_own(id, "import brings")
        _check_fields("head", head, _HEAD)
        carried = Carried(id, _at(head["created_at"]), _at(head["active_at"]), {}, [], [], [], [])
        for number, line in enumerate(rows, 2):  # noqa: B007, the error says how far it came
            _take(carried, line)
        _check_once("timer", [timer.name for timer in carried.timers])
        _check_once("answer", [answer.key for answer in carried.answers])
    except _NotOurs as error:
        raise bad(f"{name}, line {number}", error.why, code=error.code) from None
    except BadInput as error:
        is_own = error.code == "import.reserved"
        raise bad(
            f"{name}, line {number}",
            error.message if is_own else f"it says what can't be: {error}",
            code=error.code if is_own else "import.file",
        ) from None
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise bad(f"{name}, line {number}", f"it says what can't be: {str(error)[:SAID_MAX]}") from None
    return carried


class _NotOurs(Exception):
    """Something that `export` does not write, with the code of the error to be."""

    def __init__(self, code: str, why: str) -> None:
        self.code, self.why = code, f"{why}; that is nothing that wakeful export writes, and nothing was imported"


def _take(found: Carried, line: Line) -> None:
    """One line after the head."""
    id = found.id
    if len(line) != 1:
        raise ValueError(f"{len(line)} things in one line")
    [(kind, value)] = line.items()
    if kind in _KINDS:
        _check_fields(kind, value, _KINDS[kind])
    if kind == "row":
        space, name, text = value
        slot, data = (int(space), check_storage_key(name)), _bytes(text)
        _refuse(bar_of_row(id, *slot, data))
        if slot in found.puts:
            raise _NotOurs("import.twice", f"the row {name!r} is there twice")
        if slot[0] == USER:
            check_value_size(name, len(data))
            _check_depth(name, data)
        found.puts[slot] = data
    elif kind == "timer":
        found.timers.append(_timer_of(id, value))
    elif kind == "parked":
        found.parked.append(_of(Parked, {**value, "timer": _timer_of(id, value["timer"]), "number": 0}))
    elif kind == "ledger":
        found.entries.append(_of(Entry, {**value, "id": id}))
    elif kind == "answer":
        plain = {**value, "fingerprint": _bytes(value["fingerprint"]), "answer": _bytes(value["answer"])}
        found.answers.append(_of(Remembered, plain))
    else:
        raise ValueError(f"a line of the kind {kind[:40]!r}")


def _check_depth(name: str, data: bytes) -> None:
    """What can't be read without end was written by nobody, and whoever reads it would fail."""
    try:
        decode_loosely(data)
    except Undecodable as error:
        if error.code == "value.deep":
            raise _NotOurs("import.value", f"the value of {name!r} is nested too deeply to be read") from None


def _check_fields(kind: str, value: Line, known: frozenset[str]) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{kind} is {short(value)}")
    for field in value:
        if field not in known:
            raise _NotOurs("import.field", f"{kind} has {short(field)}")


def _refuse(bar: Bar | None) -> None:
    if bar is not None:
        raise _NotOurs(f"import.{bar.code}", bar.why)


def _check_once(what: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise _NotOurs("import.twice", f"two lines are of the {what} {max(names, key=names.count)!r}")


def _of(kind: type[Any], fields: Line) -> Any:
    """Checked: a file is from outside, and no store takes all that JSON can say."""
    for name, value in fields.items():
        if type(value) is int:
            _at(value)
        elif isinstance(value, str) and ("\0" in value or (not value.isascii() and _is_broken(value))):
            raise ValueError(f"{name} is no text that a store can hold")
    return msgspec.convert(fields, kind)


def _is_broken(text: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in text)


def _at(value: object) -> int:
    if type(value) is not int or not -INT_MAX <= value <= INT_MAX:
        raise ValueError(f"{short(value)} is no whole number of 64 bits")
    return value


def _timer_of(id: ObjectId, fields: Line) -> Timer:
    _check_fields("timer", fields, _TIMER)
    payload = fields.get("payload")
    timer: Timer = _of(Timer, {**fields, "id": id, "payload": None if payload is None else _bytes(payload)})
    _refuse(bar_of_timer(timer))
    return timer


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("a value that is not text")
    return base64.b64decode(text, validate=True)


def seqs(carried: Carried) -> Iterator[int]:
    """The numbers that its timers were given by the owners of its shard; jobs from outside have numbers of their own."""
    given = [timer.seq for timer in carried.timers] + [parked.timer.seq for parked in carried.parked]
    yield from (seq for seq in given if seq < INSERTED)


# How does an object out of a file become one of a store that no process runs: all of it, or nothing?

EPOCH_BITS = 39  # a timer's number is its owner's epoch, a count, and the shard
RAISES_MAX = 10_000


async def check_absent(store: Store, carried: Carried) -> None:
    """`Conflict` unless there is no such object yet."""
    if await store.find_objects(Query(cls=carried.id.cls, key=carried.id.key, limit=1)):
        raise Conflict(
            f"{carried.id} is in {store.url} already, and only what is not there is imported; nothing was done",
            code="import.exists",
        )


async def unpack(store: Store, carried: Carried, *, name: str, now: int) -> None:
    """Own its shard for a moment, put it there in one commit, and let go; `name` is what the store knows us by."""
    await check_absent(store, carried)
    shard = shard_of(carried.id)
    epoch = await _claim(store, name, carried, now)
    try:
        [first, second] = await store.commit(name, _commits(carried, shard, epoch))
    finally:
        await store.release(name, {shard: epoch})
    for outcome in (first, second):
        if isinstance(outcome, Fenced):
            raise _store_taken()
        if outcome is not None:
            raise outcome
    await store.tell([])


async def _claim(store: Store, name: str, carried: Carried, now: int) -> int:
    """The shard at an epoch past those of the file: a number that a timer of the object had never comes again."""
    shard, past = shard_of(carried.id), max((seq >> EPOCH_BITS for seq in seqs(carried)), default=0)
    for _ in range(RAISES_MAX):
        seen = {row.shard: row.epoch for row in await store.owners() if row.shard == shard}
        epochs = await store.claim(name, [shard], now=now, seen=seen)
        if shard not in epochs:
            raise _store_taken()
        if epochs[shard] > past:
            return epochs[shard]
    await store.release(name, epochs)
    raise Conflict(f"the file's epoch {past} is too far ahead of {store.url}; nothing was done", code="import.epoch")


def _commits(carried: Carried, shard: int, epoch: int) -> list[Commit]:
    """Two of one transaction, so that the object is as old as it was."""
    id = carried.id
    return [
        Commit(id=id, shard=shard, epoch=epoch, now=carried.created_at),
        Commit(
            id=id,
            shard=shard,
            epoch=epoch,
            now=carried.active_at,
            puts=carried.puts,
            sets=carried.timers,
            entries=carried.entries,
            parks=carried.parked,
            records=carried.answers,
        ),
    ]


def _store_taken() -> Conflict:
    return Conflict("a process took the store over meanwhile; stop it, then import again", code="store.taken")
