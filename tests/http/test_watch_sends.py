"""Sending events to a machine over the socket that watches it: each is answered by its id, and asked about each time."""

import asyncio
import json
from typing import Any

import pytest

from tests.http.http_stage import opened
from tests.http.watch_stage import Socket, make_app, state_of
from wakeful import App, Limits, Machine, assign
from wakeful.http import stream, watch_socket
from wakeful.security import gate
from wakeful.security.tokens import ALL
from wakeful.values.ids import ObjectId

OPEN = {"type": "OPEN"}


async def test_an_event_is_answered_by_its_id_and_told_as_news() -> None:
    async with opened(make_app()) as stage, Socket(stage, query="patches=true") as socket:
        assert await socket.send("a", OPEN) == {"kind": "accepted", "id": "a"}
        assert await socket.send(2, {"type": "NOTHING"}) == {"kind": "accepted", "id": 2}
        assert state_of(socket.texts)["value"] == "open"
        await stage.world.advance(seconds=20)
        assert state_of(socket.texts)["value"] == "shut"
        assert {"kind": "emitted", "event": {"type": "creak"}} in socket.texts


async def test_what_is_refused_has_the_problem_of_http_and_the_socket_goes_on() -> None:
    async with opened(make_app()) as stage, Socket(stage) as socket:
        for id, event, more, status, code in (
            (1, {"type": "xstate.init"}, {}, 422, "chart.event"),
            (2, {"no": "type"}, {}, 422, "chart.event"),
            (3, OPEN, {"key": "a b"}, 400, "request.key.form"),
        ):
            answer = await socket.send(id, event, **more)
            assert (answer["kind"], answer["problem"]["status"], answer["problem"]["code"]) == ("refused", status, code)
        assert (await socket.send(4, OPEN))["kind"] == "accepted"


async def test_an_event_that_is_sent_again_under_its_key_is_taken_once() -> None:
    async with opened(make_app()) as stage:
        async with Socket(stage) as first:
            assert (await first.send(1, OPEN, key="k-1"))["kind"] == "accepted"
            await stage.world.advance(seconds=20)
        async with Socket(stage) as second:  # the answer to the first was lost
            assert (await second.send(1, OPEN, key="k-1"))["kind"] == "accepted"
            answer = await second.send(2, {"type": "CLOSE"}, key="k-1")
            assert answer["kind"] == "refused"
            assert (answer["problem"]["status"], answer["problem"]["error"]) == (409, "KeyTaken")
            assert second.texts[0]["snapshot"]["context"]["opened"] == 1
            assert not [one for one in second.texts if one["kind"] == "snapshot"][1:]


async def test_what_the_machine_raises_is_a_refusal_and_nothing_has_changed() -> None:
    app = App()

    @app.object
    class Frail(Machine):
        chart = {"on": {"BREAK": {"actions": "broken"}}}

        @assign
        def broken(self, context: Any, event: Any) -> Any:
            raise ValueError("no")

    async with opened(app) as stage, Socket(stage, "/v1/objects/Frail/f/watch") as socket:
        answer = await socket.send(1, {"type": "BREAK"})
        assert (answer["problem"]["status"], answer["problem"]["detail"]) == (424, "ValueError: no")
        assert socket.end is None


@pytest.mark.parametrize(
    "text",
    [
        "OPEN",
        "",
        "[]",
        "{}",
        '{"id": 1}',
        '{"send": {"type": "OPEN"}}',
        '{"id": 1, "send": "OPEN"}',
        '{"id": 1.5, "send": {"type": "OPEN"}}',
        '{"id": null, "send": {"type": "OPEN"}}',
        '{"id": 1, "send": {"type": "OPEN"}, "more": 1}',
        '{"id": 1, "send": {"type": "OPEN"}, "key": 1}',
        '{"id": "' + "x" * 300 + '", "send": {"type": "OPEN"}}',
        '{"id": 1, "send": ' + '{"a":' * 200 + "1" + "}" * 200 + "}",
        "[" * 20_000,
        '{"id": 1, "send": {"type": "\\ud800"}}',
    ],
)
async def test_what_is_no_event_ends_the_socket_and_reaches_nobody(text: str) -> None:
    async with opened(make_app()) as stage, Socket(stage) as socket, Socket(stage) as other:
        socket.say({"type": "websocket.receive", "text": text})
        await stage.world.settle()
        assert socket.end is not None
        assert socket.end[0] == 1003
        assert (await other.send(1, OPEN))["kind"] == "accepted"
        assert other.texts[-1]["snapshot"]["context"]["opened"] == 1


async def test_bytes_and_messages_that_are_too_long_end_it() -> None:
    async with opened(make_app()) as stage:
        async with Socket(stage) as socket:
            socket.say({"type": "websocket.receive", "bytes": json.dumps({"id": 1, "send": OPEN}).encode()})
            await stage.world.settle()
            assert socket.end is not None
            assert socket.end[0] == 1003
        async with Socket(stage) as socket:
            long = {"id": 1, "send": {"type": "OPEN", "much": "x" * stage.world.node.limits.socket_message_bytes}}
            socket.say({"type": "websocket.receive", "text": json.dumps(long)})
            await stage.world.settle()
            assert socket.end is not None
            assert socket.end[0] == 1009


async def test_a_long_event_is_read_beside_the_loop_and_arrives() -> None:
    async with opened(make_app()) as stage, Socket(stage) as socket:
        await socket.send(1, {"type": "OPEN", "much": ["x" * 100] * 1_000})
        await stage.world.advance(seconds=1)
        assert {"kind": "accepted", "id": 1} in socket.texts


async def test_a_client_that_floods_is_paced_and_loses_nothing() -> None:
    app = App(limits=Limits(socket_messages_per_s=10))

    @app.object
    class Counter(Machine):
        chart = {"context": {"n": 0}, "on": {"ADD": {"actions": "add"}}}

        @assign
        def add(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

    async with opened(app) as stage, Socket(stage, "/v1/objects/Counter/c/watch", query="patches=true") as socket:
        for id in range(50):
            text = json.dumps({"id": id, "send": {"type": "ADD"}})
            socket.say({"type": "websocket.receive", "text": text})
        await stage.world.settle()
        assert len([one for one in socket.texts if one["kind"] == "accepted"]) <= 12
        await stage.world.advance(seconds=10)
        assert [one["id"] for one in socket.texts if one["kind"] == "accepted"] == list(range(50))
        assert state_of(socket.texts)["context"] == {"n": 50}


async def test_a_token_that_is_over_is_refused_at_once_and_its_socket_ends() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "LOOK_MS", 3_600_000)  # so that it is the event that finds it out
        async with opened(make_app()) as stage:
            token = await stage.token("owner", "call")
            async with Socket(stage, authorization=f"Bearer {token}") as socket:
                await stage.world.node.send(ALL, "revoke", ("owner",), {})
                await stage.world.advance(seconds=2)  # what the gate knows is at most a second old
                assert socket.end is None
                answer = await socket.send(1, OPEN)
                assert answer["kind"] == "refused"
                assert answer["problem"]["code"] == "denied.revoked"
                assert socket.end == (1008, "the token is over; connect with another")
            found = await stage.world.node.send(ObjectId("Door", "front"), "snapshot", (), {})
            assert found.status == "new"


async def test_who_sees_nothing_may_send_and_learns_nothing() -> None:
    async with opened(make_app()) as stage:
        stranger = await stage.token("stranger", "call")
        async with Socket(stage, authorization=f"Bearer {stranger}") as socket:
            assert await socket.send(1, OPEN) == {"kind": "accepted", "id": 1}
            assert socket.texts == [{"kind": "accepted", "id": 1}]


async def test_who_does_not_read_is_let_go_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_socket, "SEND_TIMEOUT_S", 5.0)
    assert stream.SEND_TIMEOUT_S == 60.0

    class Deaf(Socket):
        async def _send(self, message: Any) -> None:
            if message["type"] == "websocket.send":
                await asyncio.Event().wait()
            await super()._send(message)

    async with opened(make_app()) as stage, Socket(stage) as other:
        async with Deaf(stage) as deaf:
            assert (await other.send(1, OPEN))["kind"] == "accepted"
            await stage.world.advance(seconds=20)
            assert deaf._task.done()
        assert other.end is None
