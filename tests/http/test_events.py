"""Events: free when nobody listens, of the whole deployment when somebody does, bounded for those who are slow."""

import asyncio
from typing import Any

import pytest

from tests.http.events_reader import Reader
from tests.http.http_stage import Stage, make_app, opened
from wakeful.runtime.events import GRACE_MS, KEPT, Event, EventRing
from wakeful.values.errors import BadOption
from wakeful.values.ids import ObjectId


async def heard(stage: Stage, listener: Any, *, settle: bool = True) -> list[Event]:
    """What has been told by now."""
    if settle:
        await stage.world.settle()
    return [event for _, event in await listener.some(wait_ms=0)]


async def test_nobody_listens_and_nothing_is_kept() -> None:
    async with opened() as stage:
        events = stage.world.node.events
        assert not events.is_heard
        await stage.result("a", "add")
        assert events.ring.next == 1
        async with events.listen() as listener:
            assert events.is_heard
            await stage.result("a", "add")
            assert await heard(stage, listener)
        assert events.is_heard  # it may come back
        await stage.world.advance(milliseconds=GRACE_MS + 1)
        assert not events.is_heard


async def test_what_is_told_of_a_call_a_run_a_timer_and_a_parked_one() -> None:
    async with opened() as stage, stage.world.node.events.listen() as listener:
        await stage.result("a", "add", [5])
        call = next(event for event in await heard(stage, listener) if event["kind"] == "call")
        assert (call["object"], call["name"], call["verdict"], call["class"]) == ("Shop/a", "add", "done", "Shop")
        await stage.call("a", "fails", ["oh"])
        failed = next(event for event in await heard(stage, listener) if event["kind"] == "call")
        assert (failed["verdict"], failed["error"]) == ("failed", "ValueError: oh")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stage.call("a", "slow", [5]), 1)
        left = next(event for event in await heard(stage, listener) if event["kind"] == "call")
        assert (left["name"], left["verdict"], left["error"]) == ("slow", "left", None)
        await stage.result("a", "alarm_soon", [60])
        timer = next(event for event in await heard(stage, listener) if event["kind"] == "timer")
        assert (timer["name"], timer["due_at"] - timer["at"]) == ("alarm", 60_000)
        await stage.world.advance(minutes=2)
        run = next(event for event in await heard(stage, listener) if event["kind"] == "run")
        assert (run["name"], run["verdict"], run["lateness_ms"], run["error"]) == ("alarm", "run", 0, None)
        await stage.result("a", "doomed")
        await stage.world.advance(minutes=2)
        kinds = [(event["kind"], event.get("verdict")) for event in await heard(stage, listener)]
        assert ("run", "failed") in kinds
        assert ("parked", "failed") in kinds
        await stage.ask("POST", "/v1/parked/redrive", json={"all": True})
        assert "redriven" in [event["kind"] for event in await heard(stage, listener)]
        await stage.ask("POST", "/v1/jobs", json={"class": "Shop", "key": "j", "method": "add", "after": 9})
        assert ("Shop/j", "timer") in [(event.get("object"), event["kind"]) for event in await heard(stage, listener)]
        await stage.result("a", "plan")
        await stage.ask("POST", "/v1/objects/Shop/a/schedules/nightly/pause")
        paused = next(event for event in await heard(stage, listener) if event["kind"] == "schedule")
        assert (paused["operation"], paused["verdict"]) == ("pause", "done")


async def test_kinds_and_own_classes_can_be_left_out() -> None:
    async with opened() as stage:
        events = stage.world.node.events
        async with events.listen(kinds=["write"]) as writes, events.listen(reserved=True) as everything:
            await stage.result("a", "add")
            await stage.ask("POST", "/v1/objects/Shop/a/nothing")  # an audit row
            assert {event["kind"] for event in await heard(stage, writes)} == {"write"}
            classes = {event.get("class") for event in await heard(stage, everything)}
            assert classes == {"Shop", "wakeful.Audit"}
        with pytest.raises(BadOption, match="no events are of kind 'odd'"):
            events.listen(kinds=["odd"])


def test_a_ring_keeps_the_newest_and_knows_what_is_gone() -> None:
    ring = EventRing(4)
    assert ring.after(0, 10) == (1, [])
    for number in range(1, 7):
        ring.add({"n": number})
    start, found = ring.after(0, 10)
    assert (start, [event["n"] for event in found]) == (3, [3, 4, 5, 6])
    assert ring.after(4, 1) == (5, [{"n": 5}])
    assert ring.after(6, 10) == (7, [])


async def test_a_slow_listener_loses_the_oldest_and_is_told_how_many() -> None:
    async with opened() as stage:
        events = stage.world.node.events
        async with events.listen() as slow, events.listen() as quick:
            for number in range(KEPT + 100):
                events.tell("write", ObjectId("Shop", "a"), keys=number)
                if number % 1_000 == 0:
                    await quick.some(limit=2_000, wait_ms=0)
            first, *rest = await slow.some(limit=10, wait_ms=0)
            assert first[1] == {"kind": "lost", "at": events.clock.now(), "count": 100}
            assert [event["keys"] for _, event in rest] == list(range(100, 110))
            told = [event for _, event in await quick.some(limit=KEPT, wait_ms=0)]
            assert "lost" not in {event["kind"] for event in told}


async def test_a_listener_can_go_on_where_it_was_or_from_an_instant() -> None:
    async with opened() as stage:
        events = stage.world.node.events
        async with events.listen(kinds=["call"]) as listener:
            await stage.result("a", "add")
            [(number, _)] = await listener.some(wait_ms=0)
        await stage.world.advance(seconds=10)
        since = stage.world.warp.now()
        await stage.result("b", "add")
        async with events.listen(kinds=["call"], after=number) as again:
            assert [event["object"] for _, event in await again.some(wait_ms=0)] == ["Shop/b"]
        async with events.listen(kinds=["call"], since=since) as then:
            assert [event["object"] for _, event in await then.some(wait_ms=0)] == ["Shop/b"]
        async with events.listen(kinds=["call"], after=10**9) as ahead:
            assert await ahead.some(wait_ms=100) == []


async def test_what_happens_on_other_nodes_is_heard_here_once() -> None:
    async with opened(nodes=3) as stage:
        nodes = [member.node for member in stage.world.members if member.node is not None]
        async with nodes[0].events.listen(kinds=["call", "run"]) as listener:
            await stage.world.advance(seconds=3)  # the others are being followed
            for number in range(30):
                await stage.result(f"k{number}", "alarm_soon", [5])
            await stage.world.advance(seconds=20)
            told = await heard(stage, listener)
            calls = [event for event in told if event["kind"] == "call"]
            assert sorted(event["key"] for event in calls) == sorted(f"k{number}" for number in range(30))
            runs = [event for event in told if event["kind"] == "run"]
            assert sorted(event["key"] for event in runs) == sorted(f"k{number}" for number in range(30))
            assert {event["node"] for event in runs} == {node.name for node in nodes}
        await stage.world.advance(minutes=3)
        assert not any(node.events.is_heard for node in nodes)


async def test_a_node_that_goes_and_one_that_comes_are_followed() -> None:
    async with opened(nodes=2) as stage:
        first = stage.world.members[0].node
        assert first is not None
        async with first.events.listen(kinds=["call"]) as listener:
            await stage.world.advance(seconds=3)
            await stage.world.nodes(1)
            await stage.world.nodes(3)
            await stage.world.advance(seconds=20)
            for number in range(30):
                await stage.result(f"k{number}", "add")
            await stage.world.advance(seconds=5)
            lost, *calls = await heard(stage, listener)
            assert (lost["kind"], lost["node"], lost["count"]) == ("lost", "node-2.1", None)  # it had that name before
            assert len(calls) == 30


async def test_a_node_that_comes_and_one_that_dies_are_told_once_to_listeners_anywhere() -> None:
    async with opened(nodes=3) as stage:
        first, second, third = (member for member in stage.world.members)
        assert first.node is not None
        assert second.node is not None
        assert third.node is not None
        dead, names = third.node.name, {first.node.name, second.node.name}
        async with (
            first.node.events.listen(kinds=["node"]) as one,
            second.node.events.listen(kinds=["node"]) as two,
        ):
            await stage.world.advance(seconds=5)
            await heard(stage, one)
            await heard(stage, two)
            third.kill()
            await stage.world.advance(seconds=30)
            for listener in (one, two):
                told = [event for event in await heard(stage, listener) if event["name"] not in names]
                assert [(event["name"], event["verdict"]) for event in told] == [(dead, "gone")]
            await stage.world.nodes(4)
            await stage.world.advance(seconds=10)
            for listener in (one, two):
                told = [event for event in await heard(stage, listener) if event["verdict"] == "joined"]
                assert len({event["name"] for event in told}) == len(told) >= 1
                assert not {event["name"] for event in told} & names


async def test_a_node_without_its_store_does_not_tell_that_all_others_are_gone() -> None:
    async with opened(nodes=2) as stage:
        first = stage.world.members[0]
        assert first.node is not None
        async with first.node.events.listen(kinds=["node"]) as listener:
            await stage.world.advance(seconds=5)
            await heard(stage, listener)
            first.faults.gate = gate = asyncio.Event()  # it hangs, and then refuses
            await stage.world.advance(seconds=4)
            first.faults.is_down, first.faults.gate = True, None
            gate.set()
            await stage.world.advance(seconds=30)
            first.faults.is_down = False
            await stage.world.advance(seconds=30)
            assert "gone" not in {event["verdict"] for event in await heard(stage, listener)}


async def test_a_node_that_stops_ends_its_listeners() -> None:
    app = make_app()
    async with opened(app) as stage:
        events = stage.world.node.events
        async with events.listen() as listener:
            reading = asyncio.ensure_future(listener.some())
            await asyncio.sleep(0)
            await stage.world.restart()
            assert await reading == []
            assert [event async for event in listener] == []


# as a stream


async def test_the_stream_has_ids_kinds_and_a_heartbeat() -> None:
    async with opened() as stage, Reader(stage, "/v1/events?kinds=call,run") as reader:
        assert reader.status == 200
        assert reader.text.startswith("retry: 2000\n")
        await stage.result("a", "add")
        [(id, kind, data)] = await reader.events()
        assert id.startswith(f"{stage.world.node.name}-")
        assert (kind, data["object"]) == ("call", "Shop/a")
        assert ": still here" not in reader.text
        await stage.world.advance(seconds=20)
        assert ": still here\n\n" in reader.text


async def test_a_follower_that_could_not_ask_for_a_minute_is_told_that_it_lost_some_of_that_node() -> None:
    async with opened(nodes=3) as stage:
        here, there, third = [member.node for member in stage.world.members if member.node is not None]
        network = stage.world.network
        async with here.events.listen(kinds=["write"]) as listener:
            await stage.world.advance(seconds=3)  # the others are being followed
            network.cut(here.name, there.name)
            await stage.world.advance(seconds=90)
            there.events.tell("write", ObjectId("Shop", "unheard"), keys=1)
            network.heal(here.name, there.name)
            await stage.world.advance(seconds=90)
            told = await heard(stage, listener)
            lost = [event for event in told if event["kind"] == "lost"]
            assert [(event["node"], event["count"]) for event in lost] == [(there.name, None)]
            there.events.tell("write", ObjectId("Shop", "heard"), keys=1)
            third.events.tell("write", ObjectId("Shop", "third"), keys=1)
            await stage.world.advance(seconds=5)
            again = await heard(stage, listener)
            assert [(event["kind"], event["key"]) for event in again] == [("write", "heard"), ("write", "third")]


async def test_a_follower_is_told_exactly_how_many_it_lost_while_others_asked() -> None:
    async with opened(nodes=3) as stage:
        here, there, third = [member.node for member in stage.world.members if member.node is not None]
        told: list[Event] = []

        async def read() -> None:
            async for event in here.events.listen(kinds=["write"]):
                told.append(event)

        reading = asyncio.ensure_future(read())
        async with third.events.listen(kinds=["write"]):
            await stage.world.advance(seconds=3)
            stage.world.network.cut(here.name, there.name)
            for number in range(KEPT + 500):
                there.events.tell("write", ObjectId("Shop", "a"), keys=number)
            await stage.world.advance(seconds=60)
            stage.world.network.heal(here.name, there.name)
            await stage.world.advance(seconds=60)
            found = [event for event in told if event["node"] == there.name]
            assert [event["count"] for event in found if event["kind"] == "lost"] == [500]
            assert [event["keys"] for event in found if event["kind"] == "write"] == list(range(500, KEPT + 500))
        reading.cancel()


async def test_a_node_that_went_and_came_back_under_its_name_is_told_of_as_lost() -> None:
    async with opened(nodes=3) as stage:
        member = stage.world.members[1]
        here, there = stage.world.node, member.node
        assert there is not None
        async with here.events.listen(kinds=["write"]) as listener:
            await stage.world.advance(seconds=3)
            member.freeze()
            await stage.world.advance(seconds=120)  # the others took over what it had, and follow it no more
            member.thaw()
            there.events.tell("write", ObjectId("Shop", "unheard"), keys=1)
            await stage.world.advance(seconds=60)
            told = await heard(stage, listener)
            assert [(e["node"], e["count"]) for e in told if e["kind"] == "lost"] == [(there.name, None)]


async def test_a_place_in_the_events_of_a_process_before_is_lost_and_not_one_in_those_of_this() -> None:
    async with opened() as stage:
        events = stage.world.node.events
        first = await events.answer(None, 10, 0)
        assert first == {"events": [], "next": first["next"], "lost": 0}  # who asks for the first time has no place yet
        await stage.result("a", "add")
        some = await events.answer(first["next"], 10, 0)
        assert some["lost"] == 0
        assert {event["key"] for event in some["events"]} == {"a"}
        assert (await events.answer(some["next"], 10, 0))["lost"] == 0
        for before in (3, first["next"] - 1, 2**60):  # of the process that had the name before, on whatever clock
            answer = await events.answer(before, 10, 0)
            assert answer["lost"] is None
            assert [event["key"] for event in answer["events"]] in (["a"] * len(some["events"]), [])
            assert (await events.answer(answer["next"], 10, 0))["lost"] == 0


LOST = {"kind": "lost", "count": None}


@pytest.mark.parametrize("id", ["another-7", "garbage", "node-1-99999", "node-1-x", "node-1", "-", "7"])
async def test_a_reader_that_comes_back_with_an_id_of_elsewhere_is_told_that_it_lost_some(id: str) -> None:
    async with opened() as stage:
        assert stage.world.node.name == "node-1"
        await stage.result("a", "add")
        async with Reader(stage, "/v1/events?kinds=call", {"Last-Event-ID": id}) as reader:
            await stage.result("b", "add")
            lost, call = await reader.events()
            assert lost[2] == LOST | {"at": stage.world.warp.now()}
            assert call[2]["object"] == "Shop/b"
        async with Reader(stage, "/v1/events?kinds=call", {"Last-Event-ID": lost[0]}) as again:  # it has a place now
            assert [data["object"] for _, _, data in await again.events()] == ["Shop/b"]


async def test_a_reader_that_comes_back_after_nobody_listened_is_told_so_once() -> None:
    async with opened() as stage:
        async with Reader(stage, "/v1/events?kinds=call") as reader:
            await stage.result("a", "add")
            [(id, _, _)] = await reader.events()
        await stage.world.advance(milliseconds=GRACE_MS + 5_000)
        await stage.result("b", "add")
        async with Reader(stage, "/v1/events?kinds=call", {"Last-Event-ID": id}) as again:
            [(last, _, lost)] = await again.events()
            assert (lost["kind"], lost["count"]) == ("lost", None)
        async with Reader(stage, "/v1/events?kinds=call", {"Last-Event-ID": last}) as once:
            assert await once.events() == []
        async with Reader(stage, "/v1/events?kinds=call") as fresh:
            assert await fresh.events() == []


async def test_an_id_goes_before_the_instant_of_the_first_time() -> None:
    async with opened() as stage:
        path = "/v1/events?kinds=call&since=2020-01-01T00:00:00Z"
        async with Reader(stage, path) as reader:
            await stage.result("a", "add")
            [(id, _, _)] = await reader.events()
        await stage.result("b", "add")
        async with Reader(stage, path, {"Last-Event-ID": id}) as again:
            assert [data["object"] for _, _, data in await again.events()] == ["Shop/b"]


async def test_a_reader_that_comes_back_misses_nothing() -> None:
    async with opened() as stage:
        async with Reader(stage, "/v1/events?kinds=call") as reader:
            await stage.result("a", "add")
            [(id, _, _)] = await reader.events()
        await stage.result("b", "add")
        async with Reader(stage, "/v1/events?kinds=call", {"Last-Event-ID": id}) as again:
            assert [data["object"] for _, _, data in await again.events()] == ["Shop/b"]
        async with Reader(stage, "/v1/events?kinds=call", {"Last-Event-ID": "another-7"}) as other:
            assert [data for _, _, data in await other.events()] == [LOST | {"at": stage.world.warp.now()}]


async def test_a_reader_that_does_not_read_holds_nothing_and_is_told_what_it_lost() -> None:
    async with opened() as stage, Reader(stage) as reader:
        reader.can_write.clear()
        events = stage.world.node.events
        for number in range(KEPT + 500):
            events.tell("write", ObjectId("Shop", "a"), keys=number)
            if number % 500 == 0:
                await asyncio.sleep(0)
        await stage.result("a", "add")  # others go on
        reader.can_write.set()
        told = await reader.events()
        lost = [data["count"] for _, kind, data in told if kind == "lost"]
        assert sum(lost) + len([1 for _, kind, _ in told if kind == "write"]) >= KEPT + 500
        assert sum(lost) >= 1


async def test_a_tenant_hears_of_its_own_only() -> None:
    async with opened() as stage:
        eu, everyone = await stage.token("eu", "read", tenant="eu/"), await stage.token("all", "read", "call")
        async with Reader(stage, headers={"authorization": f"Bearer {eu}"}) as reader:
            for key in ("eu/1", "us/1", "europe"):
                await stage.result(key, "add", token=everyone)
            assert {data["key"] for _, _, data in await reader.events()} == {"eu/1"}
        async with Reader(stage) as refused:
            assert refused.status == 401


async def test_streams_have_a_bound_and_end_with_the_server() -> None:
    async with opened(site={"streams_max": 2}) as stage:
        async with Reader(stage) as one, Reader(stage), Reader(stage) as third:
            assert (one.status, third.status) == (200, 429)
            stage.site.hang_up()
            await stage.world.settle()
            assert "event: gone\n" in one.text
        async with Reader(stage) as again:
            assert again.status == 200
