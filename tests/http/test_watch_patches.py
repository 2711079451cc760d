"""Watching a machine by what changes: patches instead of whole snapshots, of what the caller may see and of nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from tests.http.events_reader import Reader
from tests.http.http_stage import Stage, opened, problem
from tests.http.watch_stage import PATH, Socket, make_app, send, state_of, told
from wakeful import App, Machine, assign
from wakeful.http import machine_watch
from wakeful.machines.snapshot import Snapshot

PATCHED = f"{PATH}?patches=true"


def messages(reader: Reader) -> list[dict[str, Any]]:
    return [{"kind": kind, **data} if kind in ("snapshot", "patch") else {"kind": kind} for kind, data in told(reader)]


async def snapshot(stage: Stage, path: str = "/v1/objects/Door/front", **options: Any) -> Any:
    answer = await stage.ask("POST", f"{path}/snapshot", **options)
    return {name: value for name, value in answer.json()["result"].items() if name != "$type"}


async def test_first_a_whole_snapshot_then_what_has_changed() -> None:
    async with opened(make_app()) as stage, Reader(stage, PATCHED) as reader:
        await send(stage, "OPEN")
        await stage.world.settle()
        await stage.world.advance(seconds=60)
        news = told(reader)
        # Of a machine as small as this, some patches would be longer.
        assert [kind for kind, _ in news] == ["snapshot", "snapshot", "emitted", "snapshot", "patch"]
        assert [data.get("to") for _, data in news] == [1, 2, None, 3, 4]
        assert (news[0][1]["snapshot"]["status"], news[2][1]) == ("new", {"type": "creak"})
        assert news[4][1]["from"] == 3
        assert {"op": "replace", "path": "/value", "value": "shut"} in news[4][1]["patch"]
        assert state_of(messages(reader)) == await snapshot(stage)


async def test_what_the_class_hides_is_in_no_patch() -> None:
    async with opened(make_app()) as stage:
        owner, guest = await stage.token("owner", "call"), await stage.token("guest", "call")
        async with (
            Reader(stage, PATCHED, {"authorization": f"Bearer {guest}"}) as reader,
            Socket(stage, query="patches=true", authorization=f"Bearer {guest}") as socket,
        ):
            for _ in range(2):
                await send(stage, "OPEN", token=owner)
                await stage.world.advance(seconds=20)
            seen = await snapshot(stage, token=guest)
            assert seen["context"] == {"opened": 2}
            assert state_of(messages(reader)) == state_of(socket.texts) == seen
            assert "1234" not in reader.text + repr(socket.sent)


async def test_who_comes_back_begins_with_a_whole_snapshot_whatever_they_say_they_have() -> None:
    async with opened(make_app()) as stage:
        await send(stage, "OPEN")
        for last in ("1", "7", "node-3", ""):
            async with Reader(stage, PATCHED, {"last-event-id": last}) as reader:
                await stage.world.settle()
                [(kind, data)] = told(reader)
                assert (kind, data["to"], data["snapshot"]["value"]) == ("snapshot", 1, "open")


async def test_a_patch_that_would_be_longer_comes_as_a_snapshot() -> None:
    app = App()

    @app.object
    class Bag(Machine):
        chart = {"context": {"things": []}, "on": {"SET": {"actions": "set"}}}

        @assign
        def set(self, context: Any, event: Any) -> Any:
            return {"things": event["things"]}

    path = "/v1/objects/Bag/b"
    async with opened(app) as stage, Reader(stage, f"{path}/watch?patches=true") as reader:
        few = [{"thing": "number", "n": n} for n in range(50)]
        for things in (few, [*few, {"n": -1}], [{"other": n} for n in range(50)], []):
            answer = await stage.ask("POST", f"{path}/send", json=[{"type": "SET", "things": things}])
            assert answer.status_code == 200, answer.text
            await stage.world.settle()
            assert state_of(messages(reader)) == await snapshot(stage, path)
        assert [kind for kind, _ in told(reader)] == ["snapshot"] * 3 + ["patch", "snapshot", "snapshot"]


async def test_the_patch_of_much_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    inside = machine_watch.in_thread

    async def seen(make: Any, asker: Any) -> Any:
        made.append(1)
        return await inside(make, asker)

    monkeypatch.setattr(machine_watch, "in_thread", seen)
    app = App()

    @app.object
    class Heap(Machine):
        chart = {"context": {"rows": [], "n": 0}, "on": {"FILL": {"actions": "fill"}, "ONE": {"actions": "one"}}}

        @assign
        def fill(self, context: Any, event: Any) -> Any:
            return {"rows": [{"n": n, "text": "x" * 10} for n in range(5_000)]}

        @assign
        def one(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

    path = "/v1/objects/Heap/h"
    async with opened(app) as stage, Reader(stage, f"{path}/watch?patches=true") as reader:
        for event in ("FILL", "ONE", "ONE"):
            answer = await stage.ask("POST", f"{path}/send", json=[event])
            assert answer.status_code == 200, answer.text
            await stage.world.settle()
        await stage.world.advance(seconds=1)
        assert [kind for kind, _ in told(reader)][-2:] == ["patch", "patch"]
        assert state_of(messages(reader)) == await snapshot(stage, path)
        assert len(made) == 3


async def test_a_snapshot_that_looks_the_same_in_json_is_no_news() -> None:
    app = App()

    @app.object
    class Odd(Machine):
        chart = {"context": {"n": 0}, "on": {"STEP": {"actions": "step"}}}

        @assign
        def step(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

        def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
            pair: Any = (1, 2) if snapshot.context.get("n", 0) % 2 else [1, 2]
            return replace(snapshot, context={"pair": pair})

    async with opened(app) as stage, Reader(stage, "/v1/objects/Odd/o/watch?patches=true") as reader:
        for _ in range(3):
            await stage.ask("POST", "/v1/objects/Odd/o/send", json=["STEP"])
        await stage.world.settle()
        assert len(told(reader)) == 2  # before its start, and after


@pytest.mark.parametrize("query", ["patches=1", "patches=yes", "patch=true"])
async def test_what_can_not_be_asked_for_has_a_status(query: str) -> None:
    async with opened(make_app()) as stage:
        answer = await stage.ask("GET", f"{PATH}?{query}")
        problem(answer, 400, "query.unknown" if query == "patch=true" else "query.value")
        async with Socket(stage, query=query) as socket:
            assert (socket.sent[0]["type"], socket.sent[0]["status"]) == ("websocket.http.response.start", 400)
