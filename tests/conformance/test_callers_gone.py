"""A caller that gives up: a turn that has begun goes on to its end, one that has not never begins; on every store."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from tests.conformance.acts import Expected, Gate
from tests.conformance.cluster_stage import Cluster, key_of
from wakeful import DurableObject, Limits, reader
from wakeful.values.errors import DeadlineExceeded, NotRunning, Unavailable
from wakeful.values.ids import ObjectId

WHO: ContextVar[str] = ContextVar("who", default="nobody")
began: list[str] = []
ended: list[str] = []


class Account(DurableObject):
    """Keeps its balance in memory too, and takes its time."""

    async def on_wake(self) -> None:
        self.balance: int = await self.storage.get("balance", 0)

    async def add(self, amount: int, seconds: float = 0, how: str = "well") -> int:
        began.append(self.ctx.key)
        self.balance += amount
        await self.storage.put("balance", self.balance)
        try:
            if seconds:
                await asyncio.sleep(seconds)
            if how == "raises":
                raise Expected
        finally:
            ended.append(self.ctx.key)
        return self.balance

    async def pass_on(self, to: str, amount: int, seconds: float, after: float = 0) -> None:
        self.storage.put("passed", amount)
        await self.ctx.get(Account, to).add(amount, seconds)
        await asyncio.sleep(after)

    async def by_parts(self) -> list[str]:
        """Waits in the ways that count the cancellations of their task."""
        seen = []
        try:
            async with asyncio.timeout(2):
                await asyncio.sleep(100)
        except TimeoutError:
            seen.append("timeout")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._fail())
                await asyncio.sleep(100)
        except* Expected:
            seen.append("group")
        await self.storage.put("seen", seen)
        return seen

    async def _fail(self) -> None:
        await asyncio.sleep(2)
        raise Expected

    async def who(self) -> str:
        seen = WHO.get()
        WHO.set("the turn")
        return seen

    @reader
    async def look(self) -> tuple[int, int]:
        return self.balance, await self.storage.get("balance", 0)


@pytest.fixture
def house(stage: Any) -> Any:
    stage.app.object(Account)
    began.clear()
    ended.clear()
    return stage


async def wait_for(call: Awaitable[Any]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call, 1)


async def timeout(call: Awaitable[Any]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await call


async def cancelled_task(call: Awaitable[Any]) -> None:
    task = asyncio.ensure_future(call)
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


GIVE_UP = pytest.mark.parametrize("give_up", [wait_for, timeout, cancelled_task])
GiveUp = Callable[[Awaitable[Any]], Awaitable[None]]


@GIVE_UP
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_turn_that_has_begun_goes_on_without_its_caller(house: Any, give_up: GiveUp, is_first: bool) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        before = None if is_first else asyncio.ensure_future(account.add(1, 0.5))
        await asyncio.sleep(0)
        await give_up(account.add(50, 3))
        assert len(ended) == (1 if is_first else 2)
        assert await account.add(7) == (157 if is_first else 158)  # waits for it
        assert await account.look() == ((157, 157) if is_first else (158, 158))
        assert before is None or await before == 101
        await world.crash()
        await world.restart()
        assert await account.look() == ((157, 157) if is_first else (158, 158))


@GIVE_UP
async def test_a_retry_under_the_same_key_finds_what_the_first_did(house: Any, give_up: GiveUp) -> None:
    async with house.world() as world:
        await world.get(Account, "a").add(100)
        await give_up(world.get(Account, "a", request_key="k").add(50, 3))
        assert await world.get(Account, "a", request_key="k").add(50, 3) == 150
        assert await world.get(Account, "a").look() == (150, 150)
        assert len(began) == 2


async def test_a_call_that_waits_in_the_mailbox_never_runs(house: Any) -> None:
    async with house.world() as world:
        first = asyncio.ensure_future(world.get(Account, "a").add(1, 5))
        await asyncio.sleep(0)
        await wait_for(world.get(Account, "a").add(50))
        assert await first == 1
        assert await world.get(Account, "a").look() == (1, 1)
        assert began == ["a"]


async def test_calls_for_which_nobody_waits_leave_room_in_the_mailbox(house: Any) -> None:
    async with house.world(limits=Limits(mailbox=3)) as world:
        account = world.get(Account, "a")
        first = asyncio.ensure_future(account.add(1, 5))
        await asyncio.sleep(0)
        await asyncio.gather(*(wait_for(account.add(50)) for _ in range(3)))
        others = [asyncio.ensure_future(account.add(1)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="3 calls waiting, its limit"):
            await account.add(1)
        assert await asyncio.gather(first, *others) == [1, 2, 3, 4]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_call_that_waits_for_a_slot_never_runs(house: Any, is_first: bool) -> None:
    async with house.world(limits=Limits(concurrent_turns=1, slow_start_turns=1)) as world:
        before = asyncio.ensure_future(world.get(Account, "other").add(1, 5))
        await asyncio.sleep(0.1)
        more = None
        if not is_first:  # it is the object's own task then that waits for a slot, first for another call
            more = asyncio.ensure_future(world.get(Account, "a").add(1))
            await asyncio.sleep(0)
            more.cancel()
        await wait_for(world.get(Account, "a").add(50))
        assert await before == 1
        await world.settle()
        assert began == ["other"]
        assert world.node.slots.taken == world.node.slots.waiting == 0
        assert await world.get(Account, "a").add(7) == 7
        assert more is None or more.cancelled()


async def test_a_call_whose_caller_goes_at_once_never_runs(house: Any) -> None:
    async with house.world() as world:
        task = asyncio.ensure_future(world.get(Account, "a").add(50))
        await asyncio.sleep(0)
        task.cancel()
        await world.settle()
        assert began == []
        assert await world.rows(Account, "a") == {}


@pytest.mark.parametrize("is_first", [True, False])
async def test_its_own_deadline_still_undoes_it(house: Any, is_first: bool) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        before = None if is_first else asyncio.ensure_future(account.add(1, 0.5))
        await asyncio.sleep(0)
        began_at = world.now()
        await wait_for(world.get(Account, "a", deadline="5s").add(50, 1_000))
        assert await account.add(7) == (107 if is_first else 108)
        assert (world.now() - began_at).total_seconds() == 5
        assert await account.look() == ((107, 107) if is_first else (108, 108))
        assert before is None or await before == 101
        assert not world.node.deadlines._line
        assert world.node.meter.expired.value == 1


async def test_calls_that_are_over_leave_no_deadline_behind(house: Any) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await wait_for(account.add(1, 3))
        assert len(world.node.deadlines._line) == 1
        await wait_for(account.add(1))  # in line behind it
        await asyncio.sleep(3)
        assert not world.node.deadlines._line
        assert not world.node.deadlines._own
        assert await account.look() == (1, 1)


async def test_a_turn_that_raises_without_a_caller_is_undone_and_nobody_minds(house: Any) -> None:
    async with house.world() as world:
        noise: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: noise.append(about))
        account = world.get(Account, "a")
        await account.add(100)
        await wait_for(account.add(50, 3, "raises"))
        assert await account.add(7) == 107
        assert await account.look() == (107, 107)
        assert noise == []


async def test_turns_that_it_waits_for_go_on_too(house: Any) -> None:
    async with house.world() as world:
        await wait_for(world.get(Account, "a").pass_on("b", 50, 3))
        await world.advance(seconds=3)
        assert await world.rows(Account, "a") == {"passed": 50}
        assert await world.get(Account, "b").look() == (50, 50)


async def test_a_turn_that_gives_up_a_call_leaves_it_running(house: Any) -> None:
    """The turn is a caller like any other."""
    async with house.world() as world:

        async def outer(self: Any) -> str:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ctx.get(Account, "b").add(50, 3), 1)
            return "went on"

        assert await house.do(outer) == "went on"
        assert ended == []
        await world.advance(seconds=3)
        assert await world.get(Account, "b").look() == (50, 50)


async def test_what_a_turn_called_has_happened_though_the_turn_is_undone(house: Any) -> None:
    async with house.world() as world:
        with pytest.raises(DeadlineExceeded):
            await world.get(Account, "a", deadline="5s").pass_on("b", 50, 1, after=1_000)
        assert await world.rows(Account, "a") == {}
        assert await world.get(Account, "b").look() == (50, 50)


async def test_timeouts_and_groups_within_the_turn_are_its_own(house: Any) -> None:
    async with house.world() as world:
        await wait_for(world.get(Account, "a").by_parts())
        await world.advance(seconds=10)
        assert await world.rows(Account, "a") == {"seen": ["timeout", "group"]}


async def test_the_turn_sees_the_context_of_its_caller_and_leaves_it_alone(house: Any) -> None:
    async with house.world() as world:
        WHO.set("the caller")
        assert await world.get(Account, "a").who() == "the caller"
        assert WHO.get() == "the caller"


async def test_a_caller_that_goes_while_its_commit_is_on_its_way_changes_nothing(house: Any) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        with Gate(world) as gate:
            await wait_for(account.add(50))
            gate.open()
            assert await account.add(7) == 157
        assert await account.look() == (157, 157)
        assert not world.node.deadlines._line


async def test_a_stop_waits_for_a_turn_whose_caller_has_gone(house: Any) -> None:
    async with house.world() as world:
        await wait_for(world.get(Account, "a").add(50, 3))
        assert ended == []
        await world.restart()
        assert ended == ["a"]
        assert await world.get(Account, "a").look() == (50, 50)


async def test_a_crash_cuts_a_turn_whose_caller_has_gone(house: Any) -> None:
    async with house.world() as world:
        await world.get(Account, "a").add(100)
        await wait_for(world.get(Account, "a").add(50, 3))
        await world.crash()
        await world.restart()
        await world.advance(seconds=5)
        assert await world.get(Account, "a").look() == (100, 100)


async def test_a_call_that_was_about_to_begin_when_the_node_died_is_told_so(house: Any) -> None:
    async with house.world() as world:
        await world.get(Account, "a").add(100)
        began_at = world.now()
        call = asyncio.ensure_future(world.get(Account, "a").add(50))
        await asyncio.sleep(0)
        await world.crash()
        with pytest.raises(NotRunning):
            await call
        assert world.now() == began_at
        await world.restart()
        assert await world.get(Account, "a").look() == (100, 100)


# from another node


async def test_a_turn_on_another_node_goes_on_without_its_caller(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(troupe.at(asker, key, request_key="k").add(5.0), 1)
        assert owner.node is not None
        assert owner.node.awake[ObjectId("Cell", key)].is_busy
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(troupe.at(asker, key).add(), 1)  # it waits there, and never runs
        assert await troupe.at(world.members[2], key, request_key="k").add(5.0) == 1
        assert await troupe.cell(key).add() == 2
        await world.advance(seconds=1)
        assert await troupe.cell(key).value() == 2


async def test_a_turn_goes_on_when_the_link_to_its_caller_is_lost(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        call = asyncio.ensure_future(troupe.at(asker, key).add(3.0))
        await world.advance(milliseconds=500)
        await asker.crash()
        await asyncio.gather(call, return_exceptions=True)
        await world.advance(seconds=4)
        assert (await world.rows(troupe.Cell, key))["n"] == 1
        assert await troupe.at(owner, key).add() == 2


async def test_the_deadline_of_a_turn_whose_caller_on_another_node_has_gone_undoes_it(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(troupe.at(asker, key, deadline="3s").add(5.0), 1)
        await world.advance(milliseconds=2_200)
        assert owner.node is not None
        assert not owner.node.awake[ObjectId("Cell", key)].is_busy
        assert "n" not in await world.rows(troupe.Cell, key)
        assert await troupe.cell(key).add() == 1
