"""What may happen at the same time in a hosted object, what is on disk when something leaves it, and what stays."""

import asyncio
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.testing.faults import Lag
from wakeful.values.errors import Unavailable

CODE = textwrap.dedent("""
    import asyncio
    from workers import DurableObject

    class Sample(DurableObject):
        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            self.said = []
            self.balance = None
            self.door = asyncio.Event()

        async def read(self, *keys):
            found = await self.ctx.storage.get(list(keys))
            return [found.get(key) for key in keys]

        async def told(self):
            return self.said

        # beside each other

        async def wait_for_another(self):
            await self.door.wait()
            return "opened"

        async def open(self):
            self.door.set()

        async def ask(self, other, depth):
            self.said.append(depth)
            if depth:
                return await self.env.SAMPLE.getByName(other).ask(self.ctx.id.name, depth - 1)
            return "bottom"

        async def sleep(self, seconds):
            await asyncio.sleep(seconds)
            return seconds

        # what stays

        async def put_and_sleep(self, seconds):
            self.balance = 200
            await self.ctx.storage.put("balance", 200)
            await asyncio.sleep(seconds)
            await self.ctx.storage.put("after", True)

        async def memory_and_storage(self):
            return [self.balance, await self.ctx.storage.get("balance")]

        # leaving

        async def pay(self, ledger):
            self.balance = 1
            self.ctx.storage.put("paid", True)
            await self.env.SAMPLE.getByName(ledger).enter()
            await asyncio.sleep(60)

        async def enter(self):
            await self.ctx.storage.put("entered", True)

        async def tell_other(self, other):
            self.balance = 1
            self.ctx.storage.put("told", True)
            await self.env.SAMPLE.getByName(other).enter()

        # sections

        async def block(self, seconds):
            async def work():
                self.said.append("block begins")
                await asyncio.sleep(seconds)
                self.said.append("block ends")
            await self.ctx.blockConcurrencyWhile(work)

        async def say(self, what):
            self.said.append(what)

        async def sleep_and_say(self, seconds, what):
            await asyncio.sleep(seconds)
            self.said.append(what)

        async def fails_in_transaction(self, seconds):
            async def work(txn):
                await txn.put("inside", 1)
                await asyncio.sleep(seconds)
                raise ValueError("undone")
            try:
                await self.ctx.storage.transaction(work)
            except ValueError:
                pass

        async def put_from_behind(self, seconds):
            async def work():
                await asyncio.sleep(seconds)
                await self.ctx.storage.put("behind", 1)
            await asyncio.gather(work())
            return await self.ctx.storage.get("behind")

        async def write_and_raise(self):
            self.balance = 300
            await self.ctx.storage.put("balance", 300)
            await asyncio.sleep(1)
            raise LookupError("on purpose")

        async def look_and_say(self):
            self.said.append("looks")
            await self.ctx.storage.list(prefix="n")
            self.said.append("has looked")

        async def fill(self, count):
            await self.ctx.storage.put({f"k{n}": "x" * 100 for n in range(count)})

        async def read_modify_write(self):
            n = (await self.ctx.storage.list(prefix="n")).get("n") or 0
            await self.ctx.storage.put("n", n + 1)
""")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def test_an_event_may_wait_for_another_of_its_object(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        waiting = sample.wait_for_another()
        await world.advance("5m")
        assert not waiting.done(), "no deadline ends an event"
        await sample.open()
        assert await waiting == "opened"


async def test_objects_may_call_each_other_in_a_circle(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        assert await sample.ask("y", 4) == "bottom"
        assert await sample.told() == [4, 2, 0]


async def test_what_was_put_stays_when_the_caller_gives_up_and_the_event_goes_on(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sample.put_and_sleep(10), 1)
        assert await sample.memory_and_storage() == [200, 200]
        await world.advance("15s")
        assert await sample.read("balance", "after") == [200, True]


async def test_the_deadline_of_a_caller_ends_its_waiting_and_not_the_event(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        stub: Any = worker.app.get(worker.classes["Sample"], "x", deadline="1s")
        with pytest.raises(Exception, match="it goes on"):
            await stub.put_and_sleep(10)
        await world.advance("15s")
        assert await sample.read("balance", "after") == [200, True]


async def test_what_was_put_before_a_call_is_on_disk_when_that_happens(folder: Path) -> None:
    async with played(folder) as (worker, world):
        paying = worker.env.SAMPLE.getByName("x").pay("ledger")
        await asyncio.sleep(1)
        assert await worker.env.SAMPLE.getByName("ledger").read("entered") == [True]
        await world.crash()
        await asyncio.gather(paying, return_exceptions=True)
        await world.restart()
        assert await worker.env.SAMPLE.getByName("x").read("paid") == [True]


async def test_a_call_of_another_object_waits_for_the_disk(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample, other = worker.env.SAMPLE.getByName("x"), worker.env.SAMPLE.getByName("y")
        await sample.told(), await other.told()
        world.faults.lag_once("commit", "late", 5_000)
        telling = sample.tell_other("y")
        await asyncio.sleep(2)
        assert await other.read("entered") == [None], "it left before what it rests on was on disk"
        await telling
        assert await other.read("entered") == [True]


async def test_nothing_leaves_when_its_commit_is_refused_and_the_object_is_made_anew(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample, other = worker.env.SAMPLE.getByName("x"), worker.env.SAMPLE.getByName("y")
        await sample.told(), await other.told()
        waiting = sample.wait_for_another()
        await asyncio.sleep(0.1)
        world.faults.fail_commit()
        with pytest.raises(Unavailable):
            await sample.tell_other("y")
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, 60)
        await world.advance("1m")
        assert await other.read("entered") == [None], "the call left, though what it rests on is nowhere"
        assert await sample.memory_and_storage() == [None, None]
        assert await sample.read("told") == [None]


async def test_what_was_put_stays_when_the_handler_raises_in_memory_and_on_disk(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        with pytest.raises(LookupError):
            await sample.write_and_raise()
        assert await sample.memory_and_storage() == [300, 300]


async def test_nothing_begins_or_goes_on_while_concurrency_is_blocked(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        before = sample.sleep_and_say(2, "slept")
        await asyncio.sleep(1)
        block = sample.block(5)
        await asyncio.sleep(0.5)
        after = sample.say("came")
        await asyncio.gather(before, block, after)
        said = await sample.told()
        assert said[:2] == ["block begins", "block ends"]
        assert sorted(said[2:]) == ["came", "slept"]


async def test_what_another_task_writes_is_not_undone_with_a_transaction(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        behind = sample.put_from_behind(2)
        await asyncio.sleep(1)
        failing = sample.fails_in_transaction(5)
        assert (await asyncio.gather(behind, failing))[0] == 1
        await world.crash()
        await world.restart()
        assert await sample.read("inside", "behind") == [None, 1]


async def test_reading_and_writing_without_other_awaits_loses_nothing(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await asyncio.gather(*(sample.read_modify_write() for _ in range(50)))
        assert await sample.read("n") == [50]
        await sample.fill(1_200)  # more than come with an object that wakes
        await world.crash()
        await world.restart()
        world.faults.lag = lambda verb: Lag("late", 10, 10) if verb == "scan" else None
        await asyncio.gather(*(sample.read_modify_write() for _ in range(50)))
        world.faults.lag = None
        assert await sample.read("n") == [100]


async def test_nothing_begins_while_storage_is_read(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.fill(1_200)  # more than come with an object that wakes
        await world.crash()
        await world.restart()
        await sample.told()
        world.faults.lag = lambda verb: Lag("late", 5_000, 0) if verb == "scan" else None
        looking = sample.look_and_say()
        await asyncio.sleep(1)
        await asyncio.gather(looking, sample.say("came"))
        assert await sample.told() == ["looks", "has looked", "came"]


async def test_an_object_with_an_event_does_not_sleep(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        sleeping = sample.sleep(100)
        await sample.say("before")
        await world.advance("50s")
        assert await sample.told() == ["before"]
        await world.advance("51s")
        assert await sleeping == 100
        await world.advance("20s")
        assert await sample.told() == []


async def test_what_waits_when_a_node_stops_is_cut_after_its_time_and_its_caller_told(folder: Path) -> None:
    async with played(folder) as (worker, world):
        waiting = worker.env.SAMPLE.getByName("x").wait_for_another()
        await asyncio.sleep(1)
        await world.restart()
        with pytest.raises(Unavailable):
            await waiting
        assert await worker.env.SAMPLE.getByName("x").told() == []


async def test_an_event_whose_shard_goes_elsewhere_ends_and_keeps_what_it_wrote(folder: Path) -> None:
    async with played(folder, nodes=2) as (worker, world):
        stubs = [worker.env.SAMPLE.getByName(f"x{n}") for n in range(8)]
        events = [stub.put_and_sleep(1_000_000) for stub in stubs]
        await asyncio.sleep(1)
        [_, second] = world.members
        await second.stop()
        await world.advance("1m")
        ended = [event for event in events if event.done()]
        assert 0 < len(ended) < len(events)
        assert all(isinstance(event.exception(), Unavailable) for event in ended)
        for stub in stubs:
            assert await stub.read("balance") == [200]
