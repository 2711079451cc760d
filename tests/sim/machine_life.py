"""One machine's life under bad luck: events, delays, actions and invoked methods, and what must hold on disk at any instant."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

from wakeful import App, Limits, Machine, RetryPolicy, action, assign, errors, fixed
from wakeful.machines.records import ROW, whole
from wakeful.store.protocol import Query, Range, Store
from wakeful.testing import World
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.ids import ObjectId

RULES = ("deadline", "restart", "pause_while_down")
KEYS = ("m1", "m2", "m3")
TROUBLES = ("crash", "crash soon", "crash soon", "fail before", "fail after", "outage", "restart", "sleep", "nothing")


def make_app(rule: str, dice: random.Random) -> tuple[App, Any]:
    """A machine with something of everything that waits."""
    app = App(limits=Limits(ledger_keep=1_000_000, ledger_keep_ms=10**12))

    @app.object
    class Cell(Machine):
        resume = rule
        retry = RetryPolicy(50, fixed("1s"))
        chart = {
            "initial": "a",
            "context": {"taken": [], "calls": 0, "fired": 0, "results": [], "visits": 0},
            "on": {"TAKE": {"actions": ["take", "count"]}},
            "states": {
                "a": {
                    "on": {"NEXT": {"target": "b", "actions": "count"}},
                    "after": {"5s": {"target": "b", "actions": "fire"}},
                },
                "b": {
                    "entry": ["visit", "mark", "mark_again"],
                    "on": {"NEXT": {"target": "c", "actions": "count"}},
                    "invoke": {
                        "id": "work",
                        "src": "work",
                        "onDone": {"target": "c", "actions": "result"},
                        "onError": {"target": "c", "actions": "result"},
                    },
                    "after": {"20s": {"target": "c", "actions": "fire"}},
                },
                "c": {
                    "entry": {"type": "raise", "event": {"type": "PING"}, "delay": "2s", "id": "ping"},
                    "exit": {"type": "cancel", "sendId": "ping"},
                    "on": {"NEXT": {"target": "a", "actions": "count"}, "PING": {"actions": "fire"}},
                    "after": {"9s": {"target": "a", "actions": "fire"}},
                },
            },
        }

        @assign
        def take(self, context: Any, event: Any) -> Any:
            return {"taken": [*context["taken"], event["number"]]}

        @assign
        def count(self, context: Any, event: Any) -> Any:
            return {"calls": context["calls"] + 1}

        @assign
        def fire(self, context: Any, event: Any) -> Any:
            return {"fired": context["fired"] + 1}

        @assign
        def visit(self, context: Any, event: Any) -> Any:
            return {"visits": context["visits"] + 1}

        @assign
        def result(self, context: Any, event: Any) -> Any:
            error = event.get("error") or {"name": "", "message": ""}
            # Given up after three deaths, a run has no id to tell.
            told = f"crashed {len(context['results'])}" if error["name"] == "Crashed" else error["message"]
            return {"results": [*context["results"], event.get("output") or told]}

        @action
        async def mark(self, context: Any, event: Any) -> None:
            name = f"mark {context['visits']}"
            await self.storage.put(name, await self.storage.get(name, 0) + 1)

        @action
        async def mark_again(self, context: Any, event: Any) -> None:
            assert await self.storage.get(f"mark {context['visits']}") == 1, "in the order of the chart"
            name = f"again {context['visits']}"
            await self.storage.put(name, await self.storage.get(name, 0) + 1)

        async def work(self, context: Any, event: Any) -> str:
            assert self.ctx.run is not None
            await asyncio.sleep(dice.choice((0, 1, 4)))
            if dice.random() < 0.3:
                raise OSError(self.ctx.run.id)
            return self.ctx.run.id

    return app, Cell


class Life:
    """One seed."""

    def __init__(self, seed: int, *, is_calm: bool = False) -> None:
        self.dice = random.Random(seed)
        self.app, self.Cell = make_app(RULES[seed % 3], random.Random(seed + 1))
        self.world: World = self.app.world(seed=seed, sleep_after_turn=not is_calm and self.dice.random() < 0.25)
        self.acked: dict[str, set[int]] = {key: set() for key in KEYS}
        self.is_calm = is_calm
        self._next = 0

    async def call(self, key: str) -> None:
        """One event, sent again under its request key until it is known to be taken; a NEXT only once."""
        self._next += 1
        number = self._next
        if self.dice.random() < 0.3:
            with suppress(errors.Unavailable, errors.DeadlineExceeded):
                await self.app.get(self.Cell, key).send("NEXT")
            return
        while True:
            try:
                await self.app.get(self.Cell, key, request_key=f"take {number}").send("TAKE", number=number)
            except (errors.Unavailable, errors.DeadlineExceeded):
                await asyncio.sleep(1)
            else:
                self.acked[key].add(number)
                return

    async def run(self, *, crash_at: int | None = None, rounds: int = 12) -> int:
        """Live, and hold every promise on the way; how many trips to the store it took."""
        async with self.world as world:
            before = world.faults.probes
            if crash_at is not None:
                self._crash_in(crash_at)
            calls: list[asyncio.Future[None]] = []
            for _ in range(rounds):
                for _ in range(3):
                    calls.append(asyncio.ensure_future(self.call(self.dice.choice(KEYS))))
                    calls[-1].add_done_callback(lambda call: call.cancelled() or call.exception())
                await world.advance(seconds=1 if self.is_calm else self.dice.choice((0, 1, 3, 10)))
                await self.trouble()
            probes = world.faults.probes - before
            world.faults.on_probe = None
            await self.recover()
            await world.advance(seconds=30)
            await asyncio.gather(*calls)
            await world.advance(seconds=60)
            await self.check(is_quiet=True)
            return probes

    async def trouble(self) -> None:
        """Whatever may happen to a process."""
        world, kind = self.world, "nothing" if self.is_calm else self.dice.choice(TROUBLES)
        if world._node is None:
            await self.recover()
        elif kind == "crash":
            await world.crash()
            await self.recover(self.dice.choice((0, 1, 30)))
        elif kind == "crash soon":
            self._crash_in(self.dice.randrange(1, 30))
        elif kind == "fail before":
            world.faults.fail_commit(self.dice.randrange(3))
        elif kind == "fail after":
            world.faults.fail_commit(self.dice.randrange(3), when="after")
        elif kind == "outage":
            world.faults.is_down = True
            await world.advance(seconds=self.dice.choice((1, 20)))
            world.faults.is_down = False
        elif kind == "restart":
            world.faults.on_probe = None
            await world.restart(after=f"{self.dice.choice((0, 40))}s")
        elif kind == "sleep":
            await world.sleep_all()

    def _crash_in(self, probes: int) -> None:
        world = self.world
        last = world.faults.probes + probes

        def crash(name: str, at: int) -> None:
            if at == last:
                world.kill()

        world.faults.on_probe = crash

    async def recover(self, after_s: int = 0) -> None:
        """A dead process leaves a disk that agrees with itself, and the next one goes on from there."""
        if self.world._node is not None:
            return
        await self.world.advance(seconds=0)
        await self.check()
        self.world.faults.on_probe = None
        await self.world.restart(after=f"{after_s}s")

    async def check(self, *, is_quiet: bool = False) -> None:
        late_at = self.world.warp.now() - 10_000 if is_quiet else 0
        for key in KEYS:
            await check_cell(self.world.store, key, self.acked[key], late_at=late_at)
        assert await self.world.parked() == []


async def check_cell(store: Store, key: str, acked: set[int], *, late_at: int) -> None:
    """What must hold of one machine on disk at any instant; what was due by `late_at` has fired."""
    id = ObjectId("Cell", key)
    found = await store.read(id, ROW[0], [ROW[1]])
    timers = await store.find_timers(Query(cls="Cell", key=key, limit=1000))
    names: Counter[str] = Counter()
    for _, entry in await store.find_entries(Query(cls="Cell", key=key, limit=100_000)):
        # A method that failed is a result; one whose process died three times gets its result later.
        is_result = entry.name == "machine-run:work" and "process died" not in (entry.error or "")
        if entry.verdict == "run" or is_result:
            names[entry.name] += 1
    if not found:
        assert not acked, f"{key}: taken events are gone"
        assert [*timers, *names] == [], f"{key}: nothing is kept of it"
        return
    kept = whole(decode(found[ROW[1]]))
    context, pending = kept["snapshot"]["context"], kept["snapshot"]["pending"]
    where = f"{key} in {kept['snapshot']['value']}"
    # The snapshot, the timers and the ledger say the same.
    waiting = {timer.name[8:]: timer.nominal_at for timer in timers if timer.name.startswith("machine:")}
    assert waiting == {one["id"]: one["due_at"] for one in pending}, f"{where}: delays"
    runs = {timer.name[12:]: decode(timer.payload or b"")[2] for timer in timers if timer.name[:12] == "machine-run:"}
    assert runs == kept["running"], f"{where}: invoked methods"
    assert names["machine.event"] == context["calls"], f"{where}: events"
    fired = sum(count for name, count in names.items() if name.startswith("machine:"))
    assert fired == context["fired"], f"{where}: delays that fired"
    assert names["machine-run:work"] == len(context["results"]), f"{where}: results"
    # Nothing happened twice, and nothing is lost.
    assert len(set(context["taken"])) == len(context["taken"]), f"{where}: an event was taken twice"
    assert len(set(context["results"])) == len(context["results"]), f"{where}: a result was applied twice"
    assert acked <= set(context["taken"]), f"{where}: an event is lost"
    done = {name: decode(data) for name, data in await store.scan(id, USER, Range())}
    assert set(done.values()) <= {1}, f"{where}: an action happened twice"
    acts = sum(len(decode(timer.payload or b"")) for timer in timers if timer.name.startswith("machine-do:"))
    assert len(done) + acts == 2 * context["visits"], f"{where}: actions"
    assert names["machine-do:mark"] + names["machine-do:mark_again"] == len(done), f"{where}: actions in the ledger"
    late = [timer.name for timer in timers if timer.due_at < late_at and not timer.name.startswith("machine-run:")]
    assert late == [], f"{where}: never fired"


async def live(seed: int) -> int:
    """One life with troubles."""
    try:
        return await Life(seed).run()
    except AssertionError as error:
        error.add_note(f"seed {seed}")
        raise


class ClusterLife(Life):
    """One seed on three nodes that die, freeze, lose the store and come back."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = self.app.world(seed=seed, nodes=3, sees=self.dice.random() < 0.5)

    async def trouble(self) -> None:
        member = self.dice.choice(self.world.members)
        kind = self.dice.choice(("crash", "freeze", "cut off", "restart", "nothing"))
        if not member.is_up:
            await member.restart()
        elif kind == "crash":
            await member.crash()
        elif kind == "freeze":
            member.freeze()
            await self.world.advance(seconds=self.dice.choice((2, 12)))
            member.thaw()
        elif kind == "cut off":
            member.cut_off()
            await self.world.advance(seconds=self.dice.choice((1, 10)))
            member.reconnect()
        elif kind == "restart":
            await member.restart()
        if any(one.is_up for one in self.world.members):  # through one of them the disk is looked at
            await self.check()

    async def recover(self, after_s: int = 0) -> None:
        for member in self.world.members:
            if not member.is_up:
                await member.restart()


async def cluster(seed: int) -> int:
    """One life on several nodes."""
    try:
        return await ClusterLife(seed).run(rounds=8)
    except AssertionError as error:
        error.add_note(f"seed {seed}")
        raise


async def calm(crash_at: int | None = None) -> int:
    """The same short life each time, killed at that trip to the store."""
    try:
        return await Life(7, is_calm=True).run(crash_at=crash_at, rounds=20)
    except AssertionError as error:
        error.add_note(f"probe {crash_at}")
        raise
