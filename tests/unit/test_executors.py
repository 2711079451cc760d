"""Plain `def` methods: turns in threads and in other processes."""

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.executor_program import Bare, Boss, Mill, app
from tests.yardstick import PATIENCE_S
from wakeful import App, DurableObject, Limits, RetryPolicy, errors, in_process, in_thread, reader
from wakeful.executors.permits import Permits
from wakeful.values.ids import ObjectId


async def test_a_def_writes_in_its_turn() -> None:
    async with app.world() as world:
        mill = world.get(Mill, "a")
        assert await mill.grind(3) == 3
        assert await mill.grind(4, times=2) == 11
        await world.crash()
        await world.restart()
        assert await world.get(Mill, "a").flour() == 11


async def test_what_it_wrote_is_undone_when_it_raises() -> None:
    async with app.world() as world:
        mill = world.get(Mill, "a")
        await mill.grind(3)
        with pytest.raises(ValueError, match="mice"):
            await mill.spoil()
        assert await mill.flour() == 3
        assert await mill.keep(2) == 2  # nor has its state changed


async def test_a_reader_in_a_thread_can_not_write() -> None:
    async with app.world() as world:
        with pytest.raises(errors.ReadOnly):
            await world.get(Mill, "a").steal()


@pytest.mark.parametrize("way", ["order", "typed_order"])
async def test_it_calls_other_objects(way: str) -> None:
    async with app.world() as world:
        assert await getattr(world.get(Mill, "a"), way)("b", 5) == 5
        assert await world.get(Mill, "b").flour() == 5


async def test_a_circle_of_calls_is_refused() -> None:
    async with app.world() as world:
        with pytest.raises(errors.Reentrancy):
            await world.get(Mill, "a").order("a", 5)


async def test_schedules_jobs_and_the_alarm_are_set_and_run_such_methods() -> None:
    async with app.world(start="2026-03-01T12:00Z") as world:
        mill = world.get(Mill, "a")
        assert await mill.plan() == ["daily", "later"]
        await world.advance(timedelta(hours=4))
        assert await mill.flour() == 5
        assert await world.get(Mill, "b").flour() == 7
        assert await mill.rang_at() == "2026-03-01T15:00:00+00:00"
        await world.advance(timedelta(hours=24))
        assert await mill.flour() == 6


async def test_a_savepoint_drops_what_was_written_in_it() -> None:
    async with app.world() as world:
        assert await world.get(Mill, "a").attempt() == 12


async def test_each_name_says_where_it_belongs() -> None:
    async with app.world() as world:
        with pytest.raises(errors.BadInput, match=r"self\.blocking\.sql") as found:
            await world.get(Mill, "a").sql_here()
        assert found.value.code == "blocking.sql"
        with pytest.raises(errors.BadInput, match="await") as found:
            await world.get(Mill, "a").blocking_here()
        assert found.value.code == "blocking.place"
        with pytest.raises(errors.UnknownMethod, match="@in_thread"):
            await world.get(Mill, "a").plain()  # type: ignore[func-returns-value]
        with pytest.raises(errors.TurnOver):
            await Mill(None).grind(1)  # type: ignore[arg-type]


async def test_a_class_without_the_base_has_a_view_too() -> None:
    async with app.world() as world:
        assert await world.get(Bare, "a").count() == 1
        assert await world.get(Bare, "a").count_far() == 2


async def test_several_in_one_turn() -> None:
    async with app.world() as world:
        assert await world.get(Mill, "a").both() in ([1, 0], [1, 1])


def test_what_can_not_be_marked() -> None:
    async def later(self: object) -> None: ...

    def each(self: object) -> Iterator[int]:
        yield 1

    for mark in (in_thread, in_process):
        for wrong in (later, each, 3, property(lambda self: 1)):
            with pytest.raises(errors.BadHandler) as found:
                mark(wrong)  # type: ignore[arg-type]
            assert found.value.code == "executor.method"


async def test_no_more_run_at_once_than_there_may() -> None:
    bounded = App(limits=Limits(threads=2))
    running, most, gate = 0, 0, threading.Lock()
    pairs = threading.Barrier(2, timeout=PATIENCE_S)  # two at once there must be, however busy the machine is

    @bounded.object
    class Counter(DurableObject):
        @in_thread
        def pass_by(self) -> None:
            nonlocal running, most
            with gate:
                running += 1
                most = max(most, running)
            pairs.wait()
            self.blocking.storage.get("x")
            with gate:
                running -= 1

    async with bounded.world() as world:
        await asyncio.gather(*(world.get(Counter, str(n)).pass_by() for n in range(20)))
    assert most == 2


async def test_those_who_wait_for_others_of_them_never_wait_for_ever() -> None:
    async with app.world() as world:  # two threads
        mills = [world.get(Mill, f"a{n}").order(f"b{n}", n) for n in range(10)]
        assert await asyncio.gather(*mills) == list(range(10))


async def test_the_loop_goes_on_meanwhile_and_the_next_turn_waits() -> None:
    entered, leave = threading.Event(), threading.Event()
    program = App()
    order = []

    @program.object
    class Slow(DurableObject):
        @in_thread
        def block(self) -> None:
            order.append("began")
            entered.set()
            leave.wait(30)
            order.append("ended")

        async def other(self) -> None:
            order.append("other")

    async with program.run("memory:"):
        slow, free = program.get(Slow, "a"), program.get(Slow, "b")
        first = asyncio.ensure_future(slow.block())
        await asyncio.to_thread(entered.wait)
        second = asyncio.ensure_future(slow.other())
        await free.other()
        leave.set()
        await asyncio.gather(first, second)
    assert order == ["began", "other", "ended", "other"]


async def test_a_caller_that_leaves_does_not_end_it() -> None:
    entered, leave = threading.Event(), threading.Event()
    program = App()

    @program.object
    class Slow(DurableObject):
        @in_thread
        def block(self) -> None:
            entered.set()
            leave.wait(30)
            self.blocking.storage.put("done", True)

        async def done(self) -> bool:
            return await self.storage.get("done", False)  # type: ignore[no-any-return]

    async with program.run("memory:"):
        slow = program.get(Slow, "a")
        first = asyncio.ensure_future(slow.block())
        await asyncio.to_thread(entered.wait)
        first.cancel()
        await asyncio.sleep(0)
        leave.set()
        assert await slow.done()


async def test_a_turn_past_its_deadline_is_over_for_its_caller_and_the_next_waits_for_its_code() -> None:
    entered, leave = threading.Event(), threading.Event()
    program = App()
    order: list[str] = []

    @program.object
    class Slow(DurableObject):
        @in_thread
        def block(self) -> None:
            self.blocking.storage.put("half", True)
            entered.set()
            leave.wait(30)
            order.append("ended")
            self.blocking.storage.put("other half", True)
            order.append("never")

        async def look(self) -> bool:
            order.append("next")
            return await self.storage.count() == 0

    async with program.run("memory:") as node:
        slow = program.get(Slow, "a")
        first = asyncio.ensure_future(slow.block())
        await asyncio.to_thread(entered.wait)
        _expire_calls(node)
        with pytest.raises(errors.DeadlineExceeded):
            await first
        second = asyncio.ensure_future(slow.look())
        for _ in range(50):
            await asyncio.sleep(0)
        assert order == []
        leave.set()
        assert await second
    assert order == ["ended", "next"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_a_library_that_wants_to_end_the_process_fails_its_turn(kind: type[BaseException]) -> None:
    program = App()

    @program.object
    class Rude(DurableObject):
        @in_thread
        def leave(self) -> None:
            self.blocking.storage.put("n", 1)
            raise kind

        async def count(self) -> int:
            return await self.storage.count()

    async with program.world() as world:
        with pytest.raises(errors.TurnFailed) as found:
            await world.get(Rude, "a").leave()
        assert found.value.remote_type == kind.__name__
        assert await world.get(Rude, "a").count() == 0


async def test_nor_does_one_on_the_loop_end_the_node() -> None:
    program = App()

    @program.object
    class Rude(DurableObject):
        async def leave(self) -> None:
            await self.storage.put("n", 1)
            sys.exit(2)

        @reader
        async def look(self) -> None:
            sys.exit("bye")

        async def count(self) -> int:
            return await self.storage.count()

    async with program.world() as world:
        rude = world.get(Rude, "a")
        assert await rude.count() == 0
        for call in (rude.leave, rude.look):
            with pytest.raises(errors.TurnFailed, match=r"sys\.exit") as found:
                await call()
            assert found.value.code == "turn.exit"
        await program.jobs.schedule(rude.leave, retry=RetryPolicy(max_attempts=1))
        await world.advance(minutes=1)
        (parked,) = await world.parked()
        assert "sys.exit(2)" in parked.error
        assert await rude.count() == 0


async def test_a_turn_does_not_wait_for_a_reader_that_was_left() -> None:
    entered, leave = threading.Event(), threading.Event()
    program = App()

    @program.object
    class Slow(DurableObject):
        async def write(self) -> int:
            await self.storage.put("n", 1)
            return 1

        @reader
        @in_thread
        def block(self) -> None:
            entered.set()
            leave.wait(30)

    async with program.run("memory:") as node:
        slow = program.get(Slow, "a")
        assert await slow.write() == 1
        first = asyncio.ensure_future(slow.block())
        await asyncio.to_thread(entered.wait)
        _expire_calls(node)
        with pytest.raises(errors.DeadlineExceeded):
            await first
        assert await slow.write() == 1
        assert await slow.write() == 1
        node.hibernation.sleep_all()
        assert node.awake, "it sleeps under code that runs"
        leave.set()


def _expire_calls(node: object) -> None:
    """As if their deadlines had passed: no test waits for that."""
    for call in list(node.deadlines._line):  # type: ignore[attr-defined]
        call.expire()


# in another process


async def test_a_method_runs_in_another_process() -> None:
    async with app.world() as world:
        pid, parent = await world.get(Mill, "a").where()
        assert pid != os.getpid()
        assert parent == os.getpid()
        assert (await world.get(Mill, "b").where())[0] == pid  # the next one finds it there


async def test_it_reaches_its_object_from_there(caplog: pytest.LogCaptureFixture) -> None:
    async with app.world(start="2026-03-01T12:00Z") as world:
        mill = world.get(Mill, "a")
        assert await mill.grind_far(3) == 3
        assert await mill.grind_far(4) == 7
        assert await mill.keep(1) == 8
        assert await mill.state_far() == 9
        assert await mill.plan_far() == ["2 12:00", "later"]
        await world.advance(timedelta(hours=3))
        assert [await world.get(Mill, key).flour() for key in "abc"] == [12, 7, 2]
    assert "ground 4" in caplog.text


@pytest.mark.parametrize(
    ("how", "kind", "match"),
    [
        ("value", ValueError, "mice"),
        ("os", FileNotFoundError, "nope"),
        ("eof", EOFError, "cut short"),
        ("pipe", BrokenPipeError, "theirs"),
        ("exit", errors.TurnFailed, "SystemExit"),
        ("interrupt", errors.TurnFailed, "KeyboardInterrupt"),
        ("pickle", errors.TurnFailed, "NoPickle"),
        ("answer", errors.BadValue, "the answer of Mill.fail_far"),
        ("refused", errors.BadValue, "what Mill asks for"),
        ("unknown", errors.BadInput, "self.blocking"),
        ("wait", errors.BadInput, "@in_thread"),
        ("die", errors.TurnFailed, "exit code -9"),
    ],
)
async def test_what_goes_wrong_there_is_said_here(how: str, kind: type[Exception], match: str) -> None:
    async with app.world() as world:
        mill = world.get(Mill, "a")
        await mill.grind(3)
        with pytest.raises(kind, match=match):
            await mill.fail_far(how)
        assert await mill.flour() == 3
        assert await mill.grind_far(1) == 4  # in another one, if it died


@pytest.mark.parametrize("method", ["log_far", "ask_far", "raise_far"])
async def test_what_one_method_left_in_a_pipe_is_never_anothers_answer(method: str) -> None:
    """What can't be read of it must not be taken for what the next method says."""
    async with app.world() as world:
        alice, bob = world.get(Mill, "alice"), world.get(Mill, "bob")
        try:
            first = await getattr(alice, method)(*(["hers"] if method != "raise_far" else []))
        except Exception as error:
            first = repr(error)
        assert (await bob.ask_far("his")).startswith("his ")
        assert await bob.who() == "Mill/bob"
        assert await alice.who() in ("Mill/alice", "")
        assert first


async def test_as_many_run_at_once_as_there_may_whoever_asks_for_them() -> None:
    async with app.world() as world:  # two threads, one process
        boss = world.get(Boss, "b")
        assert await boss.spread("grind", 20) == list(range(20))
        assert await boss.spread("grind_far", 3) == [0, 2, 4]
        executors = world.node.features["executors"]
        assert len(executors._threads._idle) <= 2
        assert len(executors._processes._idle) <= 1
        assert (executors._threads_free._free, executors._processes_free._free) == (2, 1)
        assert not executors._threads_free._holders


async def test_what_stands_before_a_question_of_one_with_a_place_has_one_at_once() -> None:
    entered, leave = threading.Barrier(3), threading.Event()
    program = App(limits=Limits(threads=2))

    @program.object
    class Shared(DurableObject):
        @in_thread
        def work(self) -> int:
            return 1

    @program.object
    class Asker(DurableObject):
        @in_thread
        def go(self) -> int:
            entered.wait(30)
            leave.wait(30)
            return self.blocking.get(Shared, "one").work()  # type: ignore[no-any-return]

    async with program.run("memory:"):
        asking = [asyncio.ensure_future(program.get(Asker, key).go()) for key in "ab"]
        await asyncio.to_thread(entered.wait, 30)  # both places are taken
        first = asyncio.ensure_future(program.get(Shared, "one").work())
        for _ in range(20):
            await asyncio.sleep(0)
        leave.set()
        assert await asyncio.wait_for(asyncio.gather(*asking, first), 5) == [1, 1, 1]


class _OfTurn:
    """As much of a turn as places are given by."""

    def __init__(self, key: str) -> None:
        self.activation, self.chain = self, (ObjectId("Mill", key),)
        self.id, self.is_hurried = self.chain[0], False


async def test_nobody_waits_for_a_place_that_is_free() -> None:
    permits = Permits(1, Counter())
    a, b, c = (_OfTurn(key) for key in "abc")
    first: Any = await permits.take(a)  # type: ignore[arg-type]
    hurried = asyncio.ensure_future(permits.take(b))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    last = asyncio.ensure_future(permits.take(c))  # type: ignore[arg-type]  # asks before the hurried one has left the line
    permits.hurry(b.id)
    first.give_back()
    for permit in await asyncio.wait_for(asyncio.gather(hurried, last), 5):
        permit.give_back()
    # One that is told to end as its place comes gives it on.
    first = await permits.take(a)  # type: ignore[arg-type]
    leaving, next_ = (asyncio.ensure_future(permits.take(one)) for one in (b, c))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    first.give_back()
    leaving.cancel()
    (await asyncio.wait_for(next_, 5)).give_back()
    assert (permits._free, permits._line, +permits._holders) == (1, {}, Counter())


async def test_a_thread_whose_code_ends_as_its_turn_is_cancelled_is_not_left() -> None:
    program = App()
    ended = threading.Event()

    @program.object
    class Quick(DurableObject):
        @in_thread
        def run(self) -> None:
            ended.set()

        async def give_up(self) -> None:
            ended.clear()
            task = asyncio.ensure_future(self.run())
            await asyncio.sleep(0)
            ended.wait(30)  # its code has, and nobody has looked yet
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    before = {thread.ident for thread in threading.enumerate()}
    async with program.run("memory:"):
        for n in range(5):
            await program.get(Quick, str(n)).give_up()
    left = [one for one in threading.enumerate() if one.ident not in before and one.name == "wakeful-method"]
    for thread in left:
        thread.join(10)
        assert not thread.is_alive()


async def test_at_its_deadline_the_process_is_killed() -> None:
    async with app.run("memory:") as node:
        mill, gate = app.get(Mill, "a"), app.get(Bare, "gate")
        pid, _ = await mill.where()
        first = asyncio.ensure_future(mill.sleep_far())
        asked = 0
        while await gate.count() == asked + 1:  # until it has counted too
            asked += 1
        _expire_calls(node)
        with pytest.raises(errors.DeadlineExceeded):
            await first
        assert await mill.flour() == 0
        assert (await mill.where())[0] != pid
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_class_that_no_other_process_could_import_is_said_to_be_one() -> None:
    program = App()

    @program.object
    class Local(DurableObject):
        @in_process
        def run(self) -> None: ...

    async with program.world() as world:
        with pytest.raises(errors.BadHandler, match="top level") as found:
            await world.get(Local, "a").run()
        assert found.value.code == "executor.import"
