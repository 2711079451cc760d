"""What a machine's watchers and callers from outside must not get to see or to break, whatever its class does."""

import asyncio
from typing import Any

import pytest

from tests.http.client_stage import client_of, served
from tests.http.events_reader import Reader
from tests.http.http_stage import Stage, opened, problem
from tests.http.watch_stage import PATH, PATH_OF, Socket, make_app, send, told
from wakeful import App, DurableObject, Limits, Machine, assign, internal
from wakeful.client.looks import _lines
from wakeful.machines.snapshot import Snapshot


async def test_a_job_asked_for_again_under_its_key_shows_what_the_caller_may_see() -> None:
    async with opened(make_app()) as stage:
        guest = await stage.token("guest", "call")
        await send(stage, "OPEN", token=guest)
        body = {"class": "Door", "key": "front", "method": "snapshot", "job_key": "k"}
        assert (await stage.ask("POST", "/v1/jobs", json=body, token=guest)).status_code == 201
        await stage.world.advance(seconds=5)
        again = await stage.ask("POST", "/v1/jobs", json=body, token=guest)
        many = await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [body]}, token=guest)
        for row in (again.json(), *many.json()["rows"]):
            assert (row["state"], row["result"]["context"]) == ("done", {"opened": 1})
        assert "1234" not in again.text + many.text


def faulty_app(*, limits: Limits | None = None) -> App:
    """A class whose filter fails once the door is open."""
    app = App(limits=limits or Limits())

    @app.object
    class Door(Machine):
        chart = {
            "initial": "shut",
            "states": {"shut": {"on": {"OPEN": "open", "KNOCK": {"actions": [NOISE]}}}, "open": {}},
        }

        def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
            if snapshot.matches("open"):
                raise KeyError("on purpose")
            return snapshot

        def audible(self, caller: Any, event: dict[str, Any]) -> dict[str, Any] | None:
            raise ValueError("deaf")

        async def open(self) -> None:
            await self.send("OPEN")

    return app


NOISE = {"type": "emit", "event": {"type": "knock"}}


async def test_what_a_filter_raises_is_the_objects_answer_and_no_fault_of_ours() -> None:
    async with opened(faulty_app()) as stage:
        answer = await stage.ask("POST", f"{PATH_OF}send", json=["OPEN"])
        assert problem(answer, 424, "turn.failed")["remote_type"] == "builtins.KeyError"
        problem(await stage.ask("POST", f"{PATH_OF}snapshot"), 424, "turn.failed")
        problem(await stage.ask("GET", PATH), 424, "turn.failed")
        job = await stage.ask("POST", "/v1/jobs", json={"class": "Door", "key": "front", "method": "snapshot"})
        await stage.world.advance(seconds=5)
        waited = await stage.ask("GET", f"/v1/jobs/{job.json()['id'].replace('/', '%2F')}/wait")
        problem(waited, 424, "turn.failed")
        async with Socket(stage) as socket:
            assert socket.sent[0]["status"] == 424


@pytest.mark.parametrize(("event", "remote"), [("OPEN", "builtins.KeyError"), ("KNOCK", "builtins.ValueError")])
async def test_a_filter_that_fails_later_ends_the_watch_with_what_it_raised(event: str, remote: str) -> None:
    async with opened(faulty_app()) as stage, Reader(stage, PATH) as reader, Socket(stage) as socket:
        assert (reader.status, socket.sent[0]["type"]) == (200, "websocket.accept")
        await stage.ask("POST", f"{PATH_OF}send", json=[event])
        await stage.world.settle()
        kind, data = told(reader)[-1]
        assert (kind, data["status"], data["code"], data["remote_type"]) == ("problem", 424, "turn.failed", remote)
        assert (socket.sent[-1]["code"], socket.sent[-1]["reason"][:11]) == (1011, "turn.failed")


async def test_the_filter_has_what_is_left_of_the_callers_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(make_app()) as stage:
        node, asked = stage.world.node, []
        node_send = type(node).send

        async def heard(self: Any, target: Any, method: str, *args: Any, **options: Any) -> Any:
            if target.cls == "Door":
                asked.append((method, options["deadline_ms"]))
                await self.clock.sleep(300)
            return await node_send(self, target, method, *args, **options)

        monkeypatch.setattr(type(node), "send", heard)
        calling = asyncio.ensure_future(stage.ask("POST", f"{PATH_OF}snapshot", headers={"wakeful-deadline": "1s"}))
        await stage.world.advance(seconds=2)
        assert (await calling).status_code == 200
        calling = asyncio.ensure_future(stage.ask("POST", f"{PATH_OF}snapshot", headers={"wakeful-deadline": "200ms"}))
        await stage.world.advance(seconds=2)
        await calling
        assert asked == [("snapshot", 1_000), ("machine.seen", 700), ("snapshot", 200), ("machine.seen", 1)]


async def test_who_may_not_ask_for_the_snapshot_may_not_watch_it() -> None:
    app = App()

    @app.object
    class Door(Machine):
        chart = {"initial": "shut", "context": {"code": 1234}, "states": {"shut": {}}}

        @internal
        async def snapshot(self) -> Snapshot:
            return await super().snapshot()

    async with opened(app) as stage:
        guest = await stage.token("guest", "call")
        refused = problem(await stage.ask("POST", f"{PATH_OF}snapshot", token=guest), 404, "method.unknown")
        for method in ("GET", "HEAD"):
            answer = await stage.ask(method, PATH, token=guest)
            assert answer.status_code == 404
        assert (await stage.ask("GET", PATH, token=guest)).json()["code"] == refused["code"]
        async with Socket(stage, authorization=f"Bearer {guest}") as socket:
            assert [one["type"] for one in socket.sent] == [
                f"websocket.http.response.{one}" for one in ("start", "body")
            ]
            assert socket.sent[0]["status"] == 404


def small_app() -> App:
    """A door to watch and a room to talk in, for two sockets together."""
    app = App(limits=Limits(sockets_per_node=2))

    @app.object
    class Door(Machine):
        chart = {"initial": "shut", "states": {"shut": {"on": {"OPEN": "open"}}, "open": {}}}

    @app.object
    class Room(DurableObject):
        async def on_message(self, socket: Any, message: Any) -> None: ...

    return app


def refusal(socket: Socket) -> tuple[int, bool]:
    return socket.sent[0].get("status", 0), b"limit.node_sockets" in socket.sent[-1].get("body", b"")


async def test_sockets_that_watch_count_among_those_of_the_node() -> None:
    async with opened(small_app()) as stage:
        async with Socket(stage), Socket(stage, "/v1/objects/Room/r/socket"):
            for path in (PATH, "/v1/objects/Room/r/socket"):
                async with Socket(stage, path) as third:
                    assert refusal(third) == (422, True)
        for _ in range(3):  # those who went, and those who were refused, leave room
            async with Socket(stage) as one, Socket(stage) as two:
                assert one.sent[0]["type"] == two.sent[0]["type"] == "websocket.accept"
            async with Socket(stage, "/v1/objects/Nobody/x/watch") as nobody:
                assert nobody.sent[0]["status"] == 404


def big_app() -> App:
    app = App()

    @app.object
    class Door(Machine):
        chart = {
            "context": {"n": 0, "blob": "x" * 20_000},
            "initial": "on",
            "states": {"on": {"on": {"GO": {"actions": ["up"]}}}},
        }

        @assign
        def up(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

    return app


async def test_a_reader_that_was_slow_gets_all_it_missed_in_parts() -> None:
    async with opened(big_app()) as stage, Reader(stage, PATH) as reader:
        reader.can_write.clear()
        await _go(stage, 80)
        reader.can_write.set()
        await stage.world.settle()
        assert [data["context"].get("n") for _, data in told(reader)] == [None, *range(81)]


async def _go(stage: Stage, count: int) -> None:
    door = stage.app.get(stage.app.deployment.registry.by_name("Door").cls, "front")
    for _ in range(count):
        await door.send("GO")
    await stage.world.settle()


async def test_the_client_watches_a_machine_with_a_large_context() -> None:
    app = App()

    @app.object
    class Door(Machine):
        chart = {"context": {"blob": "x" * 900_000}, "initial": "shut", "states": {"shut": {}}}

    async with served(app) as shop, client_of(shop) as client:
        await client.get("Door", "front").start()
        news = client.watch("Door", "front")
        first: Any = await asyncio.wait_for(anext(news), 10)
        assert len(first.context["blob"]) == 900_000
        await news.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_lines_are_the_same_however_they_come(size: int) -> None:
    text = b"id: 1\r\n\ndata: {}\n\n\nlast: " + b"x" * 50 + b"\nhalf a li"

    class Content:
        async def iter_any(self) -> Any:
            for start in range(0, len(text), size):
                yield text[start : start + size]

    found = [line async for line in _lines(Content())]
    assert found == [b"id: 1\r", b"", b"data: {}", b"", b"", b"last: " + b"x" * 50]  # what broke off is nothing
