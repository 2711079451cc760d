"""What must be true of a simulated deployment at any moment, and once it has been quiet for long?

Reads only the disk (and the node's timer queue, to compare it with the disk), so a check made right
after a crash judges exactly what a new process would find.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.sim.workload import Tally, Witness
from wakeful.policy.retry import ALARM_RETRIES_MAX, CRASHES_MAX
from wakeful.runtime.node import Node
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.codec import decode, rebuild
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM, Entry, Parked, Timer

CLASS = "Account"
EVERYTHING = 1_000_000


class Violation(AssertionError):
    """A promise was broken; the message says which."""


@dataclass
class Journal:
    """What the clients know: which tokens were acknowledged, refused, or left in doubt, by object key."""

    issued: dict[str, set[str]] = field(default_factory=dict)
    acked: dict[str, set[str]] = field(default_factory=dict)
    refused: dict[str, set[str]] = field(default_factory=dict)
    gifts: dict[str, tuple[str, str]] = field(default_factory=dict)  # token of a transfer: from, to
    answers: dict[str, object] = field(default_factory=dict)  # of keyed requests

    def issue(self, key: str, token: str) -> None:
        self.issued.setdefault(key, set()).add(token)

    def ack(self, key: str, *tokens: str) -> None:
        self.acked.setdefault(key, set()).update(tokens)

    def refuse(self, key: str, *tokens: str) -> None:
        self.refused.setdefault(key, set()).update(tokens)


@dataclass
class Found:
    """One object as the disk has it."""

    key: str
    rows: dict[str, object]
    state: Tally
    alarm: Timer | None
    entries: list[Entry]  # of the alarm, oldest first
    parked: list[Parked]

    @property
    def tokens(self) -> dict[str, int]:
        return {key[3:]: int(str(value)) for key, value in self.rows.items() if key.startswith("op:")}


async def look(store: Store) -> dict[str, Found]:
    """Every object on disk, read without waking any; also that the kept counts of rows and bytes are right."""
    timers = {timer.id.key: timer for timer in await store.find_timers(Query(limit=EVERYTHING)) if timer.name == ALARM}
    entries = [entry for _, entry in reversed(await store.find_entries(Query(name=ALARM, limit=EVERYTHING)))]
    parked = await store.find_parked(Query(name=ALARM, limit=EVERYTHING))
    found = {}
    for info in await store.find_objects(Query(cls=CLASS, limit=EVERYTHING)):
        user = await store.scan(info.id, USER, Range())
        system = await store.scan(info.id, SYSTEM, Range())
        size = sum(len(key.encode()) + len(data) for key, data in [*user, *system])
        if (info.rows, info.bytes) != (len(user) + len(system), size):
            raise Violation(
                f"{info.id}: counted {info.rows} rows, {info.bytes} bytes; it has {len(user) + len(system)}, {size}"
            )
        states = [rebuild(Tally, decode(data)) for key, data in system if key == "state"]
        key = info.id.key
        found[key] = Found(
            key=key,
            rows={name: decode(data) for name, data in user},
            state=states[0] if states else Tally(),
            alarm=timers.get(key),
            entries=[entry for entry in entries if entry.id.key == key],
            parked=[row for row in parked if row.timer.id.key == key],
        )
    strays = set(timers) - set(found)
    if strays:
        raise Violation(f"timers of objects that do not exist: {sorted(strays)}")
    return found


def check_promises(found: dict[str, Found], journal: Journal, witness: Witness) -> None:
    """What holds at every moment, a crash or not, since each commit is all or nothing."""
    if witness.complaints:
        raise Violation("; ".join(witness.complaints[:5]))
    for key, acked in journal.acked.items():
        lost = acked - set(found[key].tokens if key in found else ())
        if lost:
            raise Violation(f"{key}: acknowledged writes are lost: {sorted(lost)}")
    for here in found.values():
        _check_books(here, journal)
        _check_alarm(here, witness)
        _check_ledger(here)
    for token, (giver, taker) in journal.gifts.items():
        if giver in found and token in found[giver].tokens and token not in found[taker].tokens:
            raise Violation(f"{token}: {giver} wrote that it gave, {taker} never got it")


def _check_books(here: Found, journal: Journal) -> None:
    key, tokens, rows = here.key, here.tokens, here.rows
    undead = set(tokens) & journal.refused.get(key, set())
    if undead:
        raise Violation(f"{key}: writes of turns that failed are there: {sorted(undead)}")
    strangers = set(tokens) - journal.issued.get(key, set())
    if strangers:
        raise Violation(f"{key}: nobody ever asked for {sorted(strangers)}")
    twice = [name for name in rows if name.startswith("twice:")]
    if twice:
        raise Violation(f"{key}: done more than once: {twice}")
    books = (len(tokens), sum(tokens.values()))
    if books != (rows.get("count", 0), rows.get("total", 0)):
        raise Violation(f"{key}: half a turn: {books} in rows, count {rows.get('count')}, total {rows.get('total')}")
    if books != (here.state.count, here.state.total):
        raise Violation(f"{key}: half a turn: {books} in rows, state {here.state}")


def _check_alarm(here: Found, witness: Witness) -> None:
    """The timer row and what the object wrote about it in the same turns agree."""
    key, wanted, alarm = here.key, here.rows.get("wanted"), here.alarm
    stopped = {row.timer.nominal_at for row in here.parked}
    if alarm is not None and alarm.nominal_at != wanted:
        raise Violation(f"{key}: alarm on disk is of {alarm.nominal_at}, the object wants {wanted}")
    if alarm is None and wanted is not None and wanted not in stopped:
        raise Violation(f"{key}: the alarm wanted at {wanted} is neither pending nor parked: lost")
    if alarm is not None and alarm.attempt > ALARM_RETRIES_MAX:
        raise Violation(f"{key}: attempt {alarm.attempt} of an alarm that has {ALARM_RETRIES_MAX} retries")
    for row in here.parked:
        if row.reason == "crashed" and witness.deaths < CRASHES_MAX:
            raise Violation(f"{key}: parked for {CRASHES_MAX} crashes, but the process died {witness.deaths} times")
        if row.reason == "failed" and row.attempts != ALARM_RETRIES_MAX + 1:
            raise Violation(f"{key}: parked after {row.attempts} attempts")


def _check_ledger(here: Found) -> None:
    """Every run has exactly one effect in the state, every effect exactly one run, and failures are counted one by one."""
    key, rows = here.key, here.rows
    effects = {name.removeprefix("effect:"): count for name, count in rows.items() if name.startswith("effect:")}
    doubled = [run for run, count in effects.items() if count != 1]
    if doubled:
        raise Violation(f"{key}: effects that happened more than once: {doubled}")
    runs = Counter(entry.run_id for entry in here.entries if entry.verdict == "run")
    if runs != Counter(dict.fromkeys(effects, 1)) or rows.get("fires", 0) != len(effects):
        raise Violation(
            f"{key}: {len(effects)} effects, {rows.get('fires', 0)} fires, {runs.total()} runs in the ledger"
        )
    attempts: dict[str, list[int]] = {}
    for entry in here.entries:
        if entry.fired_at < entry.nominal_at:
            raise Violation(f"{key}: ran {entry.nominal_at - entry.fired_at} ms early")
        if entry.error is None or not entry.error.startswith(("not counted", "the process died")):
            attempts.setdefault(entry.run_id, []).append(entry.attempt)
    for run, numbers in attempts.items():
        if numbers != list(range(len(numbers))):
            raise Violation(f"{key}: attempts of run {run} are counted {numbers}")


def check_queue(node: Node, timers: Iterable[Timer]) -> None:
    """What the node holds in memory is exactly what the disk has up to the queue's edge."""
    queue = node.queue

    def shorts(of: Iterable[Timer]) -> set[tuple[ObjectId, tuple[int, int, int], str, int]]:
        # Of a tenant that has too much due for memory, the rest is read when the time has come.
        near = (timer for timer in of if timer.sort_key <= queue.edge and not queue.lines.is_left(timer))
        return {_short(timer) for timer in near}

    held = shorts((*queue._current.values(), *queue.lines.timers()))
    # A timer that was handed out stays out when the edge moves back over it.
    out = shorts(queue.running.values())
    due = shorts(timer for timer in timers if shard_of(timer.id) in node.epochs)
    if held | out != due:
        raise Violation(
            f"timers in memory and on disk differ up to {queue.edge}: only memory {sorted((held | out) - due)}, "
            f"only disk {sorted(due - held - out)}"
        )


def check_quiet(found: dict[str, Found], now: int) -> None:
    """After a long time without faults: nothing is overdue, and what is wanted and not pending is parked."""
    for here in found.values():
        if here.alarm is not None and here.alarm.due_at <= now:
            raise Violation(f"{here.key}: overdue by {now - here.alarm.due_at} ms after a long quiet time")


def check_order(entries: Iterable[Entry], keys: Iterable[str], begun: list[str] | None) -> None:
    """Alarms that were all overdue when the node came back began in the order of their due times (`begun`: as seen)."""
    wanted = set(keys)
    runs = [entry for entry in entries if entry.id.key in wanted and entry.verdict == "run"]
    if {entry.id.key for entry in runs} != wanted:
        raise Violation(f"overdue alarms that never ran: {sorted(wanted - {entry.id.key for entry in runs})}")
    runs.sort(key=lambda entry: (entry.nominal_at, entry.fired_at))  # of the same instant: any order
    fired = [entry.fired_at for entry in runs]
    if fired != sorted(fired):
        raise Violation(f"overdue alarms began out of order: {fired}")
    if begun is not None:
        nominal = {entry.id.key: entry.nominal_at for entry in runs}
        times = [nominal[key] for key in begun]
        if times != sorted(times):
            raise Violation(f"overdue alarms began out of order: {begun}, of {times}")


def _short(timer: Timer) -> tuple[ObjectId, tuple[int, int, int], str, int]:
    return timer.id, timer.sort_key, timer.name, timer.attempt
