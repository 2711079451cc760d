"""A stolen shard, a store that goes away and comes back; on every store."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from tests.conformance.acts import MINUTE, SECOND, Gate, add_one, ask, get, put, sleep
from wakeful import AlarmInfo, Unavailable
from wakeful.store.protocol import CANCELLED, Query
from wakeful.values.errors import Fenced, OutcomeUnknown, StoreDown, StoreError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.times import from_datetime


async def test_a_stolen_shard_refuses_the_commit_and_the_caller_gets_unavailable(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        shard = shard_of(ObjectId("Bell", "a"))
        swallowed: list[BaseException] = []

        async def tries(self: Any) -> None:
            await self.storage.put("x", 2)
            try:
                await self.ctx.commit()
            except Exception as error:
                swallowed.append(error)
            await asyncio.sleep(1)

        await world.store.claim("thief", [shard], now=from_datetime(world.now()))
        with pytest.raises(Unavailable) as caught:
            await stage.do(tries)
        assert not isinstance(caught.value, StoreDown)
        assert swallowed == []
        with pytest.raises(Unavailable):
            await stage.do(put("x", 3))
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        assert not issubclass(Fenced, Exception)
        other = next(f"k{n}" for n in range(1_000) if shard_of(ObjectId("Bell", f"k{n}")) != shard)
        assert await stage.do(add_one, other) == 1  # the other shards go on


async def test_a_stolen_shard_refuses_a_commit_at_the_end_of_a_turn_and_all_that_wait(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        await world.store.claim("thief", range(256), now=from_datetime(world.now()))
        tasks = [asyncio.create_task(stage.do(put("x", n))) for n in range(2, 6)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(type(result) is Unavailable for result in results), results
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        with pytest.raises(Unavailable, match="owned by another node"):
            await stage.do(get("x"))


async def test_a_stolen_shards_alarm_does_not_count_here_and_is_left_to_the_new_owner(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.put("ran", 1)
            if len(stage.fired) == 1:
                await world.store.claim("thief", range(256), now=from_datetime(world.now()))

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert len(stage.fired) == 1
        assert await world.rows(stage.Bell, "a") == {}
        assert await world.ledger(stage.Bell, "a") == []
        [timer] = await world.due()
        assert timer.attempt == 0
        await world.restart()
        await world.advance(minutes=1)
        assert await world.rows(stage.Bell, "a") == {"ran": 1}


async def test_while_the_store_is_away_calls_are_unavailable_and_nothing_is_lost(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        at = world.now() + MINUTE
        await stage.set_alarm(at)
        await stage.set_alarm(at, "b")
        world.faults.is_down = True
        with pytest.raises(Unavailable):
            await stage.do(add_one)
        with pytest.raises(Unavailable, match="try again"):
            await stage.do(get("count"))
        with pytest.raises(Unavailable):
            await stage.peek(get("count"))
        await world.advance(minutes=5)
        assert stage.fired == []
        world.faults.is_down = False
        back = world.now()
        await world.advance(seconds=6)
        assert await stage.do(get("count")) == 1
        assert len(stage.fired) == 2
        assert all(back <= when <= back + 6 * SECOND for _, _, when in stage.fired)
        assert {info.scheduled_at for _, info, _ in stage.fired} == {at}
        assert await stage.do(add_one) == 2


async def test_a_store_that_flickers_loses_no_acknowledged_write(stage: Any) -> None:
    async with stage.world() as world:
        acknowledged = 0
        for n in range(60):
            if n % 7 == 3:
                world.faults.fail_commit(when="before" if n % 2 else "after")
            try:
                acknowledged = await stage.do(add_one)
            except Unavailable:
                await world.advance(seconds=6)
        count = await stage.do(get("count"))
        assert acknowledged <= count <= 60
        assert count >= 51


async def test_what_ran_while_the_store_went_away_is_interrupted_and_told(stage: Any) -> None:
    async with stage.world() as world:
        running = asyncio.create_task(stage.do(sleep(50)))
        nested = asyncio.create_task(stage.do(ask(stage, ("do", "c"), ("do", "d")), "b"))
        await nested
        slow_nest = asyncio.create_task(stage.do(slow_chain(stage), "e"))
        await world.advance(seconds=1)
        world.faults.is_down = True
        with pytest.raises(StoreDown):
            await stage.do(add_one, "z")
        start = world.now()
        for task in (running, slow_nest):
            with pytest.raises(StoreDown):
                await task
            assert task.cancelling() == 0
        assert world.now() == start
        world.faults.is_down = False
        await world.advance(seconds=10)
        assert await stage.do(add_one) == 1


def slow_chain(stage: Any) -> Any:
    async def body(self: Any) -> str:
        try:
            return await self.ctx.get(stage.Bell, "f").do(stage.act(sleep(50)))
        except Exception:
            await asyncio.sleep(1_000)  # it can't outlive the failure of its own turn
            return "went on"

    return body


async def test_a_reader_that_wakes_its_object_while_the_store_goes_away_is_told(stage: Any) -> None:
    async with stage.world() as world:

        async def wake(self: Any) -> None:
            if self.ctx.key == "a":
                await asyncio.sleep(20)

        stage.on_wake = wake
        read = asyncio.create_task(stage.peek(get("x")))
        await world.advance(seconds=1)
        world.faults.is_down = True
        with pytest.raises(StoreDown):
            await stage.do(add_one, "z")
        with pytest.raises(StoreDown):
            await read
        world.faults.is_down = False


async def test_a_commit_that_the_store_refuses_is_tried_again_later_and_does_not_spin(stage: Any) -> None:
    """Only the one commit is refused, again and again, while other objects go on."""
    async with stage.world() as world:
        inner = world.node.store
        original, refused = inner.commit, []

        async def commit(node: str, commits: Any) -> Any:
            outcomes = await original(node, [c for c in commits if not (c.id.key == "odd" and c.entries)])
            found, answers = iter(outcomes), []
            for c in commits:
                if c.id.key == "odd" and c.entries:
                    refused.append(c)
                    answers.append(StoreError("no such value here"))
                else:
                    answers.append(next(found))
            return answers

        await stage.set_alarm(5 * SECOND, "odd")
        await stage.set_alarm(5 * SECOND, "even")
        inner.commit = commit
        await world.advance("65s")
        assert len(await world.ledger(stage.Bell, "even")) == 1
        assert 5 < len(refused) < 40
        inner.commit = original
        await world.advance("10s")
        assert len(await world.ledger(stage.Bell, "odd")) == 1


async def test_a_timer_whose_start_note_comes_after_the_stop_gave_up_on_its_object_leaves_nothing_running(
    stage: Any,
) -> None:
    """The task that looked into the mailbox of the failed copy started itself anew, for as long as the loop lived."""
    async with stage.world() as world:
        await stage.set_alarm(SECOND)
        with Gate(world) as gate:
            await world.advance("1s")
            running = asyncio.create_task(stage.do(sleep(600)))
            await world.settle()
            stopping = asyncio.create_task(world.node.stop())
            await world.advance("11s")
            gate.open()
            await stopping
        with pytest.raises(Unavailable):
            await running
        for _ in range(10):
            await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if "_drain" in repr(task)]
        await world.restart()
        await world.advance("1s")
        [fired] = stage.fired
        assert not fired[1].is_retry


async def test_a_read_that_fails_while_a_commit_is_on_its_way_leaves_that_ones_outcome_unknown(stage: Any) -> None:
    """Its caller was told that the store is down, as if nothing had happened, and the commit arrived."""
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            caller = asyncio.create_task(stage.do(add_one))
            await world.settle()
            world.faults.is_down = True
            with pytest.raises(StoreDown) as plain:
                await stage.do(get("x"), "b")
            assert not isinstance(plain.value, OutcomeUnknown)
            with pytest.raises(OutcomeUnknown):
                await caller
            world.faults.is_down = False
            gate.open()
            await world.settle()
        await world.advance("10s")
        assert await stage.do(get("count")) == 2


async def test_upkeep_that_the_server_ends_is_no_outage(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.world() as world:
        asked: list[int] = []

        async def prune(**what: Any) -> int:
            asked.append(what["now"])
            raise StoreDown("ended by a timeout", code=CANCELLED)

        monkeypatch.setattr(world.node.store, "prune", prune)
        await world.advance(minutes=11)
        assert (len(asked), world.node.outage.count, world.node.state) == (2, 0, "up")


async def test_a_store_that_comes_and_goes_is_said_once_a_minute(stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A client whose database had a full disk said so 80 times in 15 seconds."""

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        caplog.clear()
        return [line for line in lines if "the store answers" in line]

    async with stage.world() as world:
        for n in range(20):
            world.node.store_failed(StoreDown(f"could not extend file {n}: no space left"))
            await world.advance(seconds=2)
            assert world.node.state == "up"
        assert [line[:7] for line in said()] == ["nothing", "the sto"]
        world.node.store_failed(StoreDown("something else"))
        await world.advance(seconds=2)
        assert "something else [store.down] (19 short ones before it were not said)" in said()[0]
        world.faults.is_down = True
        world.node.store_failed(StoreDown("could not extend file 7: no space left"))
        await world.advance(seconds=5)  # this one lasts, which must not go unsaid
        assert ["could not extend file 7" in line for line in said()] == [True]
        world.faults.is_down = False
        await world.advance(minutes=2)
        assert len(said()) == 1
        world.node.store_failed(StoreDown("could not extend file 8: no space left"))
        await world.advance(seconds=2)
        assert len(said()) == 2
        assert world.node.outage.count == 23


async def stop_while_away(world: Any, *, back_after: str) -> None:
    """A clean stop that begins while the store is away, which is back so much later; and a new start a minute on."""
    world.faults.is_down = True
    world.node.store_failed(StoreDown("away"))
    stopping = asyncio.create_task(world.restart(after="60s"))
    await world.advance(back_after)
    world.faults.is_down = False
    await stopping


@pytest.mark.parametrize("back_after", ["3s", "30s"])
async def test_a_stop_while_the_store_is_away_parks_nobody(stage: Any, back_after: str) -> None:
    """Three clean stops during outages looked like three deaths, and the timer was parked."""
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.put("tried", len(stage.fired))
            await asyncio.sleep(5 if len(stage.fired) > 4 else 600)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for _ in range(4):
            await world.advance("2s")
            await stop_while_away(world, back_after=back_after)
        await world.advance("20s")
        assert await world.store.find_parked(Query()) == []
        assert await world.due() == []
        assert [info.retry_count for _, info, _ in stage.fired] == [0] * 5
        assert await world.rows(stage.Bell, "a") == {"tried": 5}


@pytest.mark.parametrize(("back_after", "has_left"), [("3s", True), ("90s", False)])
async def test_a_stop_that_could_not_say_so_knows_it(stage: Any, back_after: str, has_left: bool) -> None:
    """`wakeful run` said "cleanly", and the doctor the opposite."""
    async with stage.world() as world:
        node = world.node
        world.faults.is_down = True
        node.store_failed(StoreDown("away"))
        stopping = asyncio.create_task(node.stop())
        await world.advance(back_after)
        world.faults.is_down = False
        await stopping
        assert node.has_left == has_left


async def test_a_stop_takes_its_start_notes_back_when_the_store_is_there_again_in_time(stage: Any) -> None:
    async with stage.world() as world:
        await stage.set_alarm(SECOND)

        async def handler(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(600)

        stage.handlers["a"] = handler
        await world.advance("2s")
        assert [timer.started > 0 for timer in await world.due()] == [True]
        world.faults.is_down = True
        world.node.store_failed(StoreDown("away"))
        stopping = asyncio.create_task(world.node.stop())
        await world.advance("5s")
        assert not stopping.done()
        world.faults.is_down = False
        await stopping
        stage.handlers.clear()
        await world.restart()
        [timer] = await world.due() or [None]
        assert timer is None or (timer.started, timer.crashes) == (0, 0)


async def test_a_call_that_was_cut_off_by_a_stop_while_the_store_was_away_is_never_written(stage: Any) -> None:
    async with stage.world() as world:

        async def slow(self: Any) -> None:
            await self.storage.put("x", 1)
            await asyncio.sleep(4)

        running = asyncio.create_task(stage.do(slow))
        await world.advance("1s")
        world.faults.is_down = True
        stopping = asyncio.create_task(world.node.stop())
        await world.advance("5s")
        world.faults.is_down = False
        [ended] = await asyncio.gather(running, return_exceptions=True)
        await stopping
        assert isinstance(ended, Unavailable), ended
        await world.restart()
        assert await world.rows(stage.Bell, "a") == {}


@pytest.mark.parametrize("kind", ["late", "lost"])
async def test_a_stop_while_the_store_is_being_taken_again_parks_nobody(stage: Any, kind: Any) -> None:
    """The shards had been claimed anew, and nobody had heard: what the stop handed back was under older epochs."""
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(600)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for _ in range(4):
            await world.advance("2s")
            assert [timer.crashes for timer in await world.due()] == [0]
            world.faults.lag_once("claim", kind, 1_000)
            world.node.store_failed(StoreDown("away"))
            await world.advance("0.7s")
            assert world.node.state == "down"
            await world.restart(after="60s")
        assert await world.store.find_parked(Query()) == []


async def test_nobody_is_told_what_rests_on_a_commit_that_failed_though_its_code_would_not_stop(stage: Any) -> None:
    async with stage.world() as world:
        gate = asyncio.Event()
        await stage.do(put("x", 1))

        async def stubborn(self: Any) -> Any:
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
            return self.seen

        async def change(self: Any) -> None:
            self.seen = 2
            await self.storage.put("x", 2)

        world.faults.gate = asyncio.Event()  # the commit is on its way
        tasks = [asyncio.create_task(stage.do(change)), asyncio.create_task(stage.do(stubborn))]
        for _ in range(20):
            await asyncio.sleep(0)
        [activation] = world.node.awake.values()
        world.node.drop(activation, Fenced(activation.shard, activation.epoch))
        world.faults.gate.set()
        world.faults.gate = None
        gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in results] == [Unavailable, Unavailable], results


async def test_a_turn_of_a_copy_that_was_given_up_is_not_answered_though_it_wrote_nothing(stage: Any) -> None:
    """Another node may have written since; that all of this copy was on disk proves nothing."""
    async with stage.world() as world:
        gate = asyncio.Event()
        await stage.do(put("x", 1))

        async def stubborn(self: Any) -> Any:
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
            return 1

        asking = asyncio.create_task(stage.do(stubborn))
        for _ in range(20):
            await asyncio.sleep(0)
        [activation] = world.node.awake.values()
        world.node.drop(activation, Fenced(activation.shard, activation.epoch))
        with pytest.raises(Unavailable, match="moving"):
            await asking


async def test_a_claim_that_arrives_after_the_next_was_answered_takes_nothing(stage: Any) -> None:
    """The connection it was sent on was called lost, and the database went on with it."""
    async with stage.world() as world:
        await stage.set_alarm(MINUTE)
        world.faults.fail_commit(0, when="before")
        world.faults.lag_once("claim", "stray", 7_000)
        with contextlib.suppress(Unavailable):
            await stage.do(add_one)
        await world.advance("20s")
        assert await stage.do(add_one) in (1, 2)
        await world.advance("60s")
        assert len(stage.fired) == 1


async def test_a_reader_of_a_copy_that_was_given_up_meanwhile_is_not_answered(stage: Any) -> None:
    """What it looked at may have been another node's by then."""
    async with stage.world() as world:
        gate = asyncio.Event()
        await stage.do(put("x", 1))

        async def look(self: Any) -> int:
            await gate.wait()
            return 1

        reading = asyncio.create_task(stage.peek(look))
        for _ in range(20):
            await asyncio.sleep(0)
        [activation] = world.node.awake.values()
        world.node.drop(activation, Fenced(activation.shard, activation.epoch))
        gate.set()
        with pytest.raises(Unavailable, match="moving"):
            await reading
