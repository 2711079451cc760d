"""Every interleaving of "ask, write, lose the answer, fire, clear, repeat, take over, crash", up to a stated bound.

Random worlds find what is likely; this looks at everything that is possible among few. Explicit states, breadth first.
What the store does is done by the real memory store, on a disk made from the state; who sends (the inserter's lanes, the
errand between stores, a client that asks again under a key) and the two nodes that run timers are steps of the model.

What is assumed: a receipt expires only when nothing that was sent under it is on its way any more (see RECEIPT_MS in
runtime/inserter.py and KEEP_MS in runtime/homes.py, which are hours).
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from wakeful.store import Disk, MemoryStore, ShardRow
from wakeful.store.protocol import Guard, Receipt
from wakeful.values.commits import USER, Commit, Remembered
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

Kind = Literal["plain", "keyed", "errand"]
TARGET = ObjectId("Clerk", "a")
SHARD = shard_of(TARGET)
NODES = ("A", "B")
FOREVER = 10**9


class Bounds(NamedTuple):
    """How much of each there may be."""

    sends: int = 3  # of one ask by one sender: the first try and two more
    restarts: int = 1  # of the sender
    takeovers: int = 1
    crashes: int = 1  # of a node that runs timers


class Ask(NamedTuple):
    """What whoever asks knows of it."""

    phase: Literal["idle", "asking", "acked", "unknown", "settled"] = "idle"
    sends: int = 0
    token: int = 0  # of which asking under one key it is


class State(NamedTuple):
    """Everything, so that two ways to it are one."""

    asks: tuple[Ask, ...]
    life: int = 0  # of the sender: how often it has been started again
    flight: tuple[tuple[int, int, int], ...] = ()  # inserts that have not reached the store: ask, life, token
    answers: tuple[tuple[int, int], ...] = ()  # on their way back: ask, life
    timers: tuple[tuple[int, int], ...] = ()  # ask, token
    receipts: tuple[tuple[str, int, tuple[int, ...]], ...] = ()  # with what was left out
    records: tuple[tuple[int, int], ...] = ()  # of keys that had their run: ask, token
    runs: tuple[int, ...] = ()
    epoch: int = 1
    owner: int = 0
    running: tuple[tuple[int, int, int], ...] = ()  # node, its epoch, ask
    takeovers: int = 0
    crashes: int = 0


class Broken(AssertionError):
    """A promise that does not hold, and the shortest way there."""


class Model:
    """One choice of what is asked for."""

    def __init__(self, *kinds: Kind, bounds: Bounds = Bounds()) -> None:  # noqa: B008  (it never changes)
        self.kinds = kinds
        self.bounds = bounds
        self.start = State(asks=(Ask(),) * len(kinds), runs=(0,) * len(kinds))

    def explore(self) -> int:
        """Look at every state; how many there are. `Broken` says what does not hold."""
        came: dict[State, tuple[State | None, str]] = {self.start: (None, "")}
        line = [self.start]
        for state in line:
            for step, after in self.steps(state):
                if after in came:
                    continue
                came[after] = (state, step)
                wrong = self.wrong(after)
                if wrong:
                    raise Broken(f"{wrong}: {' → '.join(_way(after, came))}")
                line.append(after)
        return len(came)

    def wrong(self, state: State) -> str | None:
        for n, ask in enumerate(state.asks):
            if state.runs[n] > 1:
                return f"{self.kinds[n]} {n} ran {state.runs[n]} times"
            is_owed = any(one == n for one, _ in state.timers)
            if ask.phase in ("acked", "settled") and not is_owed and not state.runs[n]:
                return f"{self.kinds[n]} {n} was acknowledged and is lost"
        return None

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for n, ask in enumerate(state.asks):
            yield from self._asking(state, n, ask)
        for place, (n, life, token) in enumerate(state.flight):
            yield f"insert {n} arrives", self._arrive(state, place, n, life, token)
        for place, (n, life) in enumerate(state.answers):
            left = _without(state.answers, place)
            yield f"answer {n} lost", state._replace(answers=left)
            heard = state._replace(answers=left)
            if state.asks[n].phase == "asking" and life in (state.life, None):
                heard = _ask(heard, n, phase="acked")
            yield f"answer {n} heard", heard
        if state.life < self.bounds.restarts:
            yield "sender restarts", self._restart(state)
        yield from self._nodes(state)

    # who sends

    def _asking(self, state: State, n: int, ask: Ask) -> Iterator[tuple[str, State]]:
        # One after the other, as in a lane; errands go by themselves.
        is_next = self.kinds[n] == "errand" or all(
            one.phase not in ("idle", "asking") for m, one in enumerate(state.asks[:n]) if self.kinds[m] != "errand"
        )
        if ask.phase in ("idle", "asking") and ask.sends < self.bounds.sends and is_next:
            sent = _ask(state, n, phase="asking", sends=ask.sends + 1)
            yield f"send {n}", sent._replace(flight=_with(state.flight, (n, state.life, ask.token)))
        if ask.phase == "asking" and self.kinds[n] != "errand":
            yield f"give up {n}", _ask(state, n, phase="unknown")
        # The errand is over, and the other store is told to forget: which it does when nothing is on its way.
        is_on_its_way = any(one == n for one, _, _ in state.flight)
        if ask.phase == "acked" and self.kinds[n] == "errand" and not is_on_its_way:
            receipts = tuple(one for one in state.receipts if one[0] != self._lane(n, 0))
            yield f"forget {n}", _ask(state._replace(receipts=receipts), n, phase="settled")

    def _restart(self, state: State) -> State:
        """It knows nothing of what it sent, but for errands, which are on its disk, and keys, which its caller asks for again."""
        asks = []
        for n, ask in enumerate(state.asks):
            if ask.phase != "asking":
                asks.append(ask)
            elif self.kinds[n] == "plain":
                asks.append(ask._replace(phase="unknown"))
            else:
                token = ask.token + 1 if self.kinds[n] == "keyed" else ask.token
                asks.append(Ask("idle", 0, token))
        return state._replace(asks=tuple(asks), life=state.life + 1)

    def _lane(self, n: int, life: int) -> str:
        return f"errand{n}" if self.kinds[n] == "errand" else f"lane{life}"

    def _receipt(self, n: int, life: int) -> Receipt:
        return Receipt(self._lane(n, life), 1 if self.kinds[n] == "errand" else n + 1, FOREVER)

    # the store

    def _arrive(self, state: State, place: int, n: int, life: int, token: int) -> State:
        disk = self._disk(state)
        guards = {0: Guard(f"record{n}", f"ask{n}:")} if self.kinds[n] == "keyed" else {}
        timer = Timer(TARGET, f"job{n}", 0, 0, 1 + token, payload=bytes([token]))
        store = MemoryStore(disk)
        _now(store.open(now=0))
        _now(store.insert([timer], now=0, receipt=self._receipt(n, life), guards=guards, each=bool(guards)))
        after = self._read(state, disk)
        return after._replace(flight=_without(state.flight, place), answers=_with(state.answers, (n, life)))

    def _disk(self, state: State) -> Disk:
        disk = Disk(shards=dict(_SHARDS))
        disk.shards[SHARD] = ShardRow(SHARD, NODES[state.owner], state.epoch)
        disk.objects[TARGET] = (0, 0)
        disk.timers = {
            (TARGET, f"job{n}"): Timer(TARGET, f"job{n}", 0, 0, 1 + token, payload=bytes([token]))
            for n, token in state.timers
        }
        disk.receipts = {id: (Receipt(id, number, FOREVER), frozenset(out)) for id, number, out in state.receipts}
        disk.remembered = {
            (TARGET, f"record{n}"): Remembered(f"record{n}", b"", bytes([token]), FOREVER) for n, token in state.records
        }
        disk.rows[TARGET] = {(USER, f"ran{n}"): bytes([count]) for n, count in enumerate(state.runs)}
        return disk

    def _read(self, state: State, disk: Disk) -> State:
        timers = {(int(name[3:]), timer.seq - 1) for (_, name), timer in disk.timers.items()}
        return state._replace(
            timers=tuple(sorted(timers)),
            receipts=tuple(sorted((one.id, one.number, tuple(out)) for one, out in disk.receipts.values())),
            records=tuple(sorted((int(key[6:]), one.answer[0]) for (_, key), one in disk.remembered.items())),
            runs=tuple(disk.rows[TARGET][USER, f"ran{n}"][0] for n in range(len(self.kinds))),
        )

    # the nodes that run timers

    def _nodes(self, state: State) -> Iterator[tuple[str, State]]:
        is_busy = any(node == state.owner and epoch == state.epoch for node, epoch, _ in state.running)
        if not is_busy:
            for n, _ in state.timers:
                running = _with(state.running, (state.owner, state.epoch, n))
                yield f"{NODES[state.owner]} fires {n}", state._replace(running=running)
        for place, (node, epoch, n) in enumerate(state.running):
            left = _without(state.running, place)
            yield f"{NODES[node]} ends {n}", self._end(state, node, epoch, n)._replace(running=left)
            if state.crashes < self.bounds.crashes:
                yield f"{NODES[node]} crashes", state._replace(running=left, crashes=state.crashes + 1)
        if state.takeovers < self.bounds.takeovers:
            yield (
                "takeover",
                state._replace(owner=1 - state.owner, epoch=state.epoch + 1, takeovers=state.takeovers + 1),
            )

    def _end(self, state: State, node: int, epoch: int, n: int) -> State:
        """The run and the clearing of its timer are one commit, fenced by the epoch."""
        [token] = [token for one, token in state.timers if one == n] or [0]
        disk = self._disk(state)
        beaten = any(one == n and other != token for one, other in state.records)
        count = state.runs[n] if beaten else state.runs[n] + 1  # a duplicate of a key is cleared and does not run
        record = Remembered(f"record{n}", b"", bytes([token]), FOREVER)
        commit = Commit(
            id=TARGET,
            shard=SHARD,
            epoch=epoch,
            now=0,
            puts={(USER, f"ran{n}"): bytes([count])},
            clears=[(f"job{n}", 1 + token)],
            records=[record] if self.kinds[n] == "keyed" and not beaten else [],
        )
        store = MemoryStore(disk)
        _now(store.open(now=0))
        _now(store.commit(NODES[node], [commit]))
        return self._read(state, disk)


_SHARDS = Disk().shards


def _now(verb: Any) -> Any:
    """The memory store answers at once."""
    try:
        verb.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("the memory store waited for something")


def _ask(state: State, n: int, **changes: Any) -> State:
    asks = (*state.asks[:n], state.asks[n]._replace(**changes), *state.asks[n + 1 :])
    return state._replace(asks=asks)


def _with(line: tuple[Any, ...], one: Any) -> tuple[Any, ...]:
    return tuple(sorted((*line, one)))


def _without(line: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return line[:place] + line[place + 1 :]


def _way(state: State, came: dict[State, tuple[State | None, str]]) -> list[str]:
    steps: list[str] = []
    at: State | None = state
    while at is not None:
        at, step = came[at]
        steps.insert(0, step)
    return steps[1:]
