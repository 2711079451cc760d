"""Random lives of a few objects, each step compared with the oracle: answers, rows, state, alarm, ledger, parked."""

import asyncio
import copy
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.model.oracle import Oops, Oracle
from wakeful import AlarmInfo, App, DurableObject, Limits, Unavailable, reader
from wakeful.values.errors import NotRunning
from wakeful.values.times import from_datetime


@dataclass
class Total:
    amount: int = 0


class Box(DurableObject):
    """Does what it is told, in one turn."""

    state: Total

    async def do(self, ops: list[Any]) -> list[Any]:
        return [await self._apply(op) for op in ops]

    @reader
    async def look(self, options: dict[str, Any]) -> Any:
        found = await self.storage.list(**options)
        alarm = await self.storage.get_alarm()
        return [[*map(list, found.items())], self.state.amount, alarm and from_datetime(alarm)]

    async def alarm(self, info: AlarmInfo) -> None:
        await self.storage.put("fired", await self.storage.get("fired", 0) + 1)
        await self.storage.put("at", from_datetime(info.scheduled_at))
        self.state.amount += 1000
        if info.retry_count < await self.storage.get("fail", 0):
            raise Oops
        self.state.amount -= 1000

    async def _apply(self, op: Any) -> Any:
        storage = self.storage
        match op:
            case ("put", key, value):
                await storage.put(key, value)
            case ("get", key):
                return await storage.get(key, "none")
            case ("delete", key):
                return await storage.delete(key)
            case ("delete_many", keys):
                return await storage.delete_many(keys)
            case ("delete_all", keep):
                await storage.delete_all(keep_alarm=keep)
            case ("list", options):
                return [*map(list, (await storage.list(**options)).items())]
            case ("count", prefix):
                return await storage.count(prefix)
            case ("alarm", delay, failures):
                await storage.put("fail", failures)
                await storage.set_alarm(timedelta(milliseconds=delay))
            case ("get_alarm",):
                alarm = await storage.get_alarm()
                return alarm and from_datetime(alarm)
            case ("delete_alarm",):
                await storage.delete_alarm()
            case ("state", amount):
                self.state.amount += amount
                return self.state.amount
            case ("commit",):
                await self.ctx.commit()
            case ("leave",):
                await self.ctx.forget()
            case ("raise",):
                raise Oops
            case ("pause",):
                for _ in range(5):
                    await asyncio.sleep(0)  # so that readers come in the middle
            case ("transaction", ops):
                try:
                    async with storage.transaction():
                        return [await self._apply(inner) for inner in ops]
                except Oops:
                    return "undone"
        return None


BOXES = st.sampled_from(["one", "two"])
ALL_KEYS = ["", "a", "ab", "abc", "b", "ba", "bÿ", "Z", "10", "9", "я", "😀"]
KEYS = st.sampled_from(ALL_KEYS)
MAYBE_KEYS = st.none() | KEYS
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)
RANGES = st.fixed_dictionaries(
    {"prefix": st.sampled_from(["", "", "a", "b", "я"]), "end": MAYBE_KEYS, "reverse": st.booleans()},
    optional={"limit": st.integers(1, 4)},
).flatmap(
    lambda given: st.one_of(
        st.just(given),
        KEYS.map(lambda key: {**given, "start": key}),
        KEYS.map(lambda key: {**given, "start_after": key}),
    )
)
SIMPLE = st.one_of(
    st.tuples(st.just("put"), KEYS, VALUES),
    st.tuples(st.just("put"), KEYS, VALUES),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("delete_many"), st.lists(KEYS, max_size=3)),
    st.tuples(st.just("delete_all"), st.booleans()),
    st.tuples(st.just("list"), RANGES),
    st.tuples(st.just("count"), st.sampled_from(["", "a", "b"])),
    st.tuples(st.just("alarm"), st.sampled_from([0, 500, 3_000, 3_600_000]), st.sampled_from([0, 0, 1, 3, 9])),
    st.tuples(st.just("alarm"), st.just(3_600_000), st.just(0)),
    st.tuples(st.just("get_alarm")),
    st.tuples(st.just("delete_alarm")),
    st.tuples(st.just("state"), st.integers(0, 3)),
)
RAISE = ("raise",)
TRANSACTION = st.builds(
    lambda inside, fails: ("transaction", [*inside, RAISE] if fails else inside),
    st.lists(SIMPLE, min_size=1, max_size=4),
    st.booleans(),
)
PLAIN_OPS = st.lists(st.one_of(SIMPLE, SIMPLE, SIMPLE, TRANSACTION), min_size=1, max_size=6)
OPS = st.lists(
    st.one_of(
        *[SIMPLE] * 4, TRANSACTION, st.just(("commit",)), st.just(("pause",)), st.just(("leave",)), st.just(RAISE)
    ),
    min_size=1,
    max_size=8,
)
EVERYTHING = [*(("get", key) for key in ALL_KEYS), ("list", {}), ("state", 0), ("get_alarm",)]


class ObjectModel(RuleBasedStateMachine):
    """Two objects, one world, an event loop of its own."""

    url = "memory:"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.app = App(limits=Limits(cache_bytes_per_object=60, ledger_keep=10_000))
        self.app.object(Box)
        self.world: Any = None
        self.oracles = {"one": Oracle(), "two": Oracle()}
        self.requests = 0

    @initialize(paranoid=st.booleans())
    def begin(self, paranoid: bool) -> None:
        async def enter() -> Any:
            return await self.app.world(store=self.store_url(), sleep_after_turn=paranoid).__aenter__()

        self.world = self.run(enter())

    def store_url(self) -> str:
        return self.url

    def teardown(self) -> None:
        if self.world is not None:
            self.run(self.world.__aexit__(None, None, None))
        self.loop.close()

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def now(self) -> int:
        return from_datetime(self.world.now())

    # what can happen

    @rule(box=BOXES, ops=OPS)
    def call(self, box: str, ops: list[Any]) -> None:
        assert self.ask(box, ops) == self.expected(box, ops)
        self.settle()

    @rule(calls=st.lists(st.tuples(BOXES, OPS), min_size=2, max_size=5))
    def burst(self, calls: list[Any]) -> None:
        """Calls at once: each object takes its own in the order in which they came."""

        async def together() -> list[Any]:
            return await asyncio.gather(
                *(self.world.get(Box, box).do(ops) for box, ops in calls), return_exceptions=True
            )

        answers = ["oops" if isinstance(answer, Oops) else answer for answer in self.run(together())]
        assert answers == [self.expected(box, ops) for box, ops in calls]
        self.settle()

    @rule(box=BOXES, options=RANGES)
    def read(self, box: str, options: dict[str, Any]) -> None:
        oracle = self.oracles[box]
        found = self.run(self.world.get(Box, box).look(options))
        assert found == [oracle.listed(**options), oracle.state, oracle.alarm and oracle.alarm.nominal]

    @rule(box=BOXES, ops=PLAIN_OPS, more=PLAIN_OPS)
    def fail_and_look(self, box: str, ops: list[Any], more: list[Any]) -> None:
        """A turn that raises leaves nothing, on disk or in memory, and the next one builds on what was before."""
        assert self.ask(box, EVERYTHING) == self.expected(box, EVERYTHING)
        for turn in ([*ops, RAISE], EVERYTHING, more):
            assert self.ask(box, turn) == self.expected(box, turn)
        self.settle()

    @rule(box=BOXES, ops=PLAIN_OPS, more=PLAIN_OPS, fails=st.booleans(), options=RANGES)
    def read_beside_a_turn(
        self, box: str, ops: list[Any], more: list[Any], fails: bool, options: dict[str, Any]
    ) -> None:
        """A reader that comes while a turn waits says what was true before it or after it, and never what it undoes."""
        oracle = self.oracles[box]
        ops = [*ops, ("pause",), *more, *([RAISE] if fails else [])]
        assert self.ask(box, [("get", "a")]) == self.expected(box, [("get", "a")])
        before = [oracle.listed(**options), oracle.state]

        async def together() -> list[Any]:
            stub = self.world.get(Box, box)
            return await asyncio.gather(stub.do(ops), stub.look(options), return_exceptions=True)

        answer, found = self.run(together())
        assert ("oops" if isinstance(answer, Oops) else answer) == self.expected(box, ops)
        assert found[:2] in (before, [oracle.listed(**options), oracle.state])
        self.settle()

    @rule(box=BOXES, ops=OPS, when=st.sampled_from(["before", "after"]), again=st.booleans())
    def commit_fails(self, box: str, ops: list[Any], when: Any, again: bool) -> None:
        """The caller can't know; asking again under the same request key does it exactly once."""
        if ("commit",) in ops or ("leave",) in ops:
            return  # which of its commits would it be? And what is forgotten remembers no answer
        self.requests += 1
        key = f"request-{self.requests}"
        self.world.faults.fail_commit(0, when=when)
        stub = self.world.get(Box, box, request_key=key)
        try:
            told = self.run(stub.do(ops))
        except Oops:
            told = "oops"
        except Unavailable:
            told = None
        self.world.faults.fail_commits.clear()
        if told is None:
            answer = self.expected(box, ops) if when == "after" else None
            self.pass_time(1_000)
            if again:
                repeated = self.run(stub.do(ops))
                assert repeated == (answer if when == "after" else self.expected(box, ops))
        else:
            assert told == self.expected(box, ops)  # it had nothing to commit
        self.settle()

    @rule(box=BOXES, ops=OPS, crashes=st.sampled_from(["", "", "commit.after", "erase.before", "erase.after"]))
    def forget(self, box: str, ops: list[Any], crashes: str) -> None:
        """Nothing of it is left, and a call that is behind it meets a new one; also when the process dies meanwhile."""

        def crash(name: str, _: int) -> None:
            if name == crashes:
                self.world.kill()

        async def together() -> list[Any]:
            forgetting = self.app.forget(Box, box)
            if crashes:
                return [await forgetting]
            return await asyncio.gather(forgetting, self.world.get(Box, box).do(ops), return_exceptions=True)

        self.world.faults.on_probe = crash if crashes else None
        try:
            _, *answers = self.run(together())
        except (Unavailable, NotRunning):
            answers = []
            self.world.faults.on_probe = None
            self.run(self.world.restart())
            self.run(self.app.forget(Box, box))
        self.world.faults.on_probe = None
        self.oracles[box] = Oracle()
        for answer in answers:
            assert ("oops" if isinstance(answer, Oops) else answer) == self.expected(box, ops)
        self.settle()

    @rule(length=st.sampled_from([1, 499, 3_000, 30_000, 4_000_000]))
    def wait(self, length: int) -> None:
        self.pass_time(length)

    @rule()
    def sleep(self) -> None:
        self.run(self.world.sleep_all())

    @rule(length=st.sampled_from([0, 0, 600, 100_000]), is_clean=st.booleans())
    def restart(self, length: int, is_clean: bool) -> None:
        """Down for a while; what fell due meanwhile runs once when it is back."""
        if not is_clean:
            self.run(self.world.crash())
        at = self.now() + length + (10 if is_clean else 0)
        while late := [a.high for a in self.alarms() if a.low <= at < a.high]:
            at = max(late)
        self.run(self.world.restart(after=timedelta(milliseconds=at - self.now())))
        now = self.now()
        for oracle in self.oracles.values():
            if oracle.alarm is not None and oracle.alarm.low <= now:
                oracle.fire(now, now)
        self.settle()

    # keeping the oracle up to date

    def ask(self, box: str, ops: list[Any]) -> Any:
        try:
            return self.run(self.world.get(Box, box).do(ops))
        except Oops:
            return "oops"

    def expected(self, box: str, ops: list[Any]) -> Any:
        try:
            return self.oracles[box].turn(ops, self.now())
        except Oops:
            return "oops"

    def alarms(self) -> list[Any]:
        return [oracle.alarm for oracle in self.oracles.values() if oracle.alarm is not None]

    def settle(self) -> None:
        self.run(self.world.settle())
        self.fire_until(self.now())

    def pass_time(self, length: int) -> None:
        """Let time pass, to an instant at which it is certain what has fired."""
        until = self.now() + length
        imagined = copy.deepcopy(list(self.oracles.values()))
        moved = True
        while moved:
            moved = False
            for oracle in imagined:
                while oracle.alarm is not None and oracle.alarm.low <= until:
                    moved = moved or oracle.alarm.high > until
                    until = max(until, oracle.alarm.high)
                    oracle.fire(oracle.alarm.low, oracle.alarm.high)
        self.run(self.world.advance(timedelta(milliseconds=until - self.now())))
        self.fire_until(until)

    def fire_until(self, until: int) -> None:
        for oracle in self.oracles.values():
            while oracle.alarm is not None and oracle.alarm.high <= until:
                oracle.fire(oracle.alarm.low, oracle.alarm.high)

    @invariant()
    def the_disk_agrees(self) -> None:
        if self.world is None:
            return
        due = {timer.id.key: timer for timer in self.run(self.world.due())}
        parked = Counter(row.timer.id.key for row in self.run(self.world.parked()))
        for box, oracle in self.oracles.items():
            assert self.run(self.world.rows(Box, box)) == oracle.rows
            ledger = [run.verdict for run in self.run(self.world.ledger(Box, box))]
            assert ledger == oracle.ledger
            assert parked[box] == oracle.parked
            timer = due.get(box)
            assert (timer and timer.nominal_at) == (oracle.alarm and oracle.alarm.nominal)
            if timer is not None and oracle.alarm is not None:
                assert timer.attempt == oracle.alarm.attempt
                assert oracle.alarm.low <= timer.due_at <= oracle.alarm.high
