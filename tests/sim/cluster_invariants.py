"""What must be true of a simulated cluster at any moment, and once it has been healed and left alone?"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.sim.cluster_workload import CLASS, TICK_MS, TICKER, Witness
from tests.sim.invariants import Violation
from wakeful.runtime.node import Node
from wakeful.schedules.functions import CLASS as FUNCTION
from wakeful.store import Disk
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.ids import SHARDS, ObjectId
from wakeful.values.timers import ALARM


@dataclass
class JobFact:
    """What the callers know of one job."""

    token: str
    key: str  # of its target
    kind: str
    due_at: int
    id: str | None = None  # None: nobody was told
    is_acked: bool = False
    is_cancelled: bool | None = None  # what `cancel` answered: True at least once, else False; None: never answered
    cancels_unanswered: int = 0  # they may have happened or not
    child: tuple[str, str] | None = None  # token and target of the one that it schedules
    depends_on: list[str] = field(default_factory=list)  # tokens


@dataclass
class Journal:
    """What the callers were told."""

    issued: set[tuple[str, str]] = field(default_factory=set)  # key of the object, token
    acked: set[tuple[str, str]] = field(default_factory=set)
    refused: set[tuple[str, str]] = field(default_factory=set)
    jobs: dict[str, JobFact] = field(default_factory=dict)
    answers: dict[str, object] = field(default_factory=dict)  # of keyed requests


class Books:
    """The objects as the disk has them."""

    def __init__(self, disk: Disk) -> None:
        self.rows: dict[str, dict[str, object]] = {}
        for id, rows in disk.rows.items():
            if id.cls == CLASS:
                self.rows[id.key] = {key: decode(data) for (space, key), data in rows.items() if space == USER}
        self.timers = {(timer.id.key, timer.name): timer for timer in disk.timers.values() if timer.id.cls == CLASS}
        self.entries = [entry for _, entry in sorted(disk.entries.items())]
        self.parked = list(disk.parked.values())

    def find(self, key: str, row: str) -> object:
        return self.rows.get(key, {}).get(row)

    def with_prefix(self, prefix: str) -> Iterable[tuple[str, str, object]]:
        for key, rows in self.rows.items():
            for name, value in rows.items():
                if name.startswith(prefix):
                    yield key, name.removeprefix(prefix), value


def check_any_time(books: Books, journal: Journal, witness: Witness) -> None:
    """What holds at every moment, whoever has died."""
    if witness.complaints:
        raise Violation("; ".join(witness.complaints[:3]))
    there = {(key, token) for key, token, _ in books.with_prefix("op:")}
    lost = journal.acked - there
    if lost:
        raise Violation(f"acknowledged calls are lost: {sorted(lost)[:5]}")
    undead = there & journal.refused
    if undead:
        raise Violation(f"writes of turns that failed are there: {sorted(undead)[:5]}")
    for prefix in ("op:", "effect:", "did:"):
        twice = [(key, name, n) for key, name, n in books.with_prefix(prefix) if n != 1]
        if twice:
            raise Violation(f"happened more than once: {prefix} {twice[:5]}")
    for key, rows in books.rows.items():
        count = sum(1 for name in rows if name.startswith("op:"))
        if not count == rows.get("count", 0) == rows.get("again", 0):
            raise Violation(f"{key}: half a turn: {count} operations, {rows.get('count')}, {rows.get('again')}")
    _check_ledger(books)
    for fact in journal.jobs.values():
        if fact.is_cancelled and books.find(fact.key, f"did:{fact.token}"):
            raise Violation(f"job {fact.token} ({fact.kind}) of {fact.key} was cancelled, and ran")


def _check_ledger(books: Books) -> None:
    """Every run in the ledger has its effect in the state, and the other way round."""
    effects = Counter({(key, run_id): 1 for key, run_id, _ in books.with_prefix("effect:")})
    runs: Counter[tuple[str, str]] = Counter()
    for entry in books.entries:
        if entry.verdict == "run" and entry.id.cls == CLASS and not entry.name.startswith("schedules."):
            runs[entry.id.key, entry.run_id] += 1
    if effects != runs:
        raise Violation(
            f"runs in the ledger without effect: {sorted((runs - effects).elements())[:3]}, "
            f"effects without a run: {sorted((effects - runs).elements())[:3]}"
        )
    occurrences = Counter(
        (entry.id, entry.name, entry.nominal_at)
        for entry in books.entries
        if entry.verdict == "run" and (entry.name.startswith("schedule:") or entry.name == ALARM)
    )
    twice = [one for one, count in occurrences.items() if count > 1 and one[1] != ALARM]
    if twice:
        raise Violation(f"occurrences that ran more than once: {twice[:3]}")


def left_behind(disk: Disk, node: Node) -> list[str]:
    """Complaints of a node that stopped and said so: others would have to take its shards from a name that is gone."""
    left = [row.shard for row in disk.shards.values() if row.owner == node.name]
    return [f"{node.name} has stopped cleanly, and {len(left)} shards are still its own: {left[:5]}"] if left else []


def check_owners(disk: Disk, nodes: list[Node]) -> None:
    """Every shard is owned by exactly one node that lives, which knows it, and the shares are even."""
    for shard in range(SHARDS):
        holders = [node.name for node in nodes if shard in node.epochs]
        row = disk.shards[shard]
        if holders != [row.owner]:
            raise Violation(f"shard {shard} is {row.owner}'s on disk, and held by {holders}")
        (holder,) = [node for node in nodes if node.name == row.owner]
        if holder.epochs[shard] != row.epoch:
            raise Violation(f"shard {shard}: {holder.name} believes in epoch {holder.epochs[shard]}, disk {row.epoch}")
    counts = [len(node.epochs) for node in nodes if not node.membership.is_draining]
    if max(counts) - min(counts) > 1:
        raise Violation(f"the shards are shared unevenly: {counts}")


def check_quiet(books: Books, journal: Journal, witness: Witness, now: int) -> None:
    """After healing and a while of quiet: everything owed has happened."""
    for timer in books.timers.values():
        if timer.due_at <= now - 1_500:
            raise Violation(f"{timer.id} {timer.name} is overdue by {now - timer.due_at} ms in the quiet")
    parked = {(row.timer.id.key, row.timer.name) for row in books.parked}
    for key, wanted in ((key, rows.get("wanted")) for key, rows in books.rows.items()):
        if wanted is not None and (key, ALARM) not in books.timers and (key, ALARM) not in parked:
            raise Violation(f"{key}: its alarm of {wanted} is neither pending nor parked: lost")
    for fact in journal.jobs.values():
        _check_job(fact, books, journal)
    for key, token, _ in books.with_prefix("op:"):
        if key == TICKER and int(token.removeprefix("tick")) not in witness.ticks:
            raise Violation(f"{token} was never run")


def check_ticks(disk: Disk, since: int, until: int) -> None:
    """Each occurrence of the app's function ran, or came while one before it was still being tried."""
    entries = [entry for entry in disk.entries.values() if entry.id.cls == FUNCTION]
    verdicts = {entry.nominal_at: entry.verdict for entry in entries if entry.verdict != "failed"}
    runs = [entry for entry in entries if entry.verdict == "run"]
    tried = [timer.nominal_at for timer in disk.timers.values() if timer.id.cls == FUNCTION and timer.attempt]
    for nominal in range(since - since % TICK_MS + TICK_MS, until, TICK_MS):
        verdict = verdicts.get(nominal)
        is_behind = verdict == "overlap" and any(run.nominal_at < nominal <= run.finished_at for run in runs)
        is_to_come = verdict is None and any(other <= nominal for other in tried)
        if verdict != "run" and not is_behind and not is_to_come:
            raise Violation(f"the app's function: {verdict or 'nothing'} came of its occurrence at {nominal}")


def _check_job(fact: JobFact, books: Books, journal: Journal) -> None:
    did = books.find(fact.key, f"did:{fact.token}")
    if fact.child is not None:
        child = books.find(fact.child[1], f"did:{fact.child[0]}")
        if bool(child) != bool(did):
            raise Violation(f"job {fact.token}: it ran {did}, the one that it scheduled ran {child}")
    if did or fact.is_cancelled or fact.cancels_unanswered or not fact.is_acked:
        return
    others = [journal.jobs[token] for token in fact.depends_on]
    if any(not books.find(other.key, f"did:{other.token}") for other in others):
        return  # it went with one of those that it waited for
    raise Violation(f"job {fact.token} ({fact.kind}) of {fact.key} was acknowledged and never ran: {fact}")


def object_id(key: str) -> ObjectId:
    return ObjectId(CLASS, key)
