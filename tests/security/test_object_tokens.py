"""Tokens for one object: what they let their holder do there, and that they let nobody do anything else."""

import base64
import hashlib
import hmac
import json
from typing import Any

import httpx
import msgspec
import pytest

from tests.http.events_reader import Reader
from tests.http.http_stage import Stage, opened, problem
from tests.http.watch_stage import PATH, PATH_OF, Socket, make_app, told
from wakeful import App, DurableObject, Machine, errors
from wakeful.http.rows import ROWS
from wakeful.machines.snapshot import Snapshot
from wakeful.security.audit import page
from wakeful.security.object_tokens import Grant, SigningKey, sign
from wakeful.security.tokens import ALL, new_signing_key, redact, signing_of
from wakeful.server import Site

OPEN = {"type": "OPEN"}


async def token(stage: Stage, key: str = "front", cls: str = "Door", **options: Any) -> str:
    return await stage.app.token(stage.app.deployment.registry.by_name(cls).cls, key, **options)


async def refusal(stage: Stage, method: str, path: str, text: str, **options: Any) -> tuple[int, str]:
    answer = await stage.ask(method, path, token=text, **options)
    return answer.status_code, answer.json().get("code", "")


async def test_it_is_for_watching_and_for_the_events_that_it_names() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage, events=["OPEN"], name="ann")
        headers = {"authorization": f"Bearer {text}"}
        async with Reader(stage, f"{PATH}?patches=true", headers) as reader, Socket(stage, **headers) as socket:
            assert reader.status == 200
            assert await socket.send(1, OPEN) == {"kind": "accepted", "id": 1}
            answer = await socket.send(2, {"type": "SHUT"})
            assert (answer["problem"]["status"], answer["problem"]["code"]) == (403, "denied.event")
            assert socket.end is None
            assert told(reader)[-1][1]["snapshot"]["value"] == "open"
        assert (await stage.ask("POST", f"{PATH_OF}send", json=["OPEN"], token=text)).status_code == 200
        assert (await stage.ask("POST", f"{PATH_OF}snapshot", token=text)).status_code == 200
        for event in (["SHUT"], [{"type": "SHUT"}], [{"no": "type"}], [1], []):
            status, code = await refusal(stage, "POST", f"{PATH_OF}send", text, json=event)
            assert (status, code) in ((403, "denied.event"), (422, "arguments.missing"), (422, "arguments.type"))


async def test_without_events_it_only_watches() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage)
        assert await refusal(stage, "POST", f"{PATH_OF}send", text, json=["OPEN"]) == (403, "denied.method")
        assert await refusal(stage, "POST", f"{PATH_OF}start", text) == (403, "denied.method")
        async with Socket(stage, authorization=f"Bearer {text}") as socket:
            answer = await socket.send(1, OPEN)
            assert (answer["problem"]["status"], answer["problem"]["code"]) == (403, "denied.method")
            assert socket.texts[0]["snapshot"]["status"] == "new"


async def test_one_for_events_alone_is_not_told_how_the_machine_stands() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        for options in ({"methods": [], "events": ["OPEN"]}, {"methods": ["send"]}):
            text = await token(stage, **options)
            answer = await stage.ask("POST", f"{PATH_OF}send", json=["OPEN"], token=text)
            assert (answer.status_code, answer.json()) == (200, {"result": None})
            assert await refusal(stage, "POST", f"{PATH_OF}snapshot", text) == (403, "denied.method")


async def test_one_outlives_its_object_and_makes_it_anew() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        door = stage.app.deployment.registry.by_name("Door").cls
        text = await token(stage, events=["OPEN"])
        await stage.ask("POST", f"{PATH_OF}send", json=["OPEN"], token=text)
        assert await stage.app.forget(door, "front")
        answer = await stage.ask("POST", f"{PATH_OF}send", json=["OPEN"], token=text)
        assert (answer.status_code, answer.json()["result"]["value"]) == (200, "open")


async def test_the_class_knows_whose_it_is() -> None:
    app, callers = App(), []

    @app.object
    class Safe(Machine):
        chart = {"context": {"gold": 1}}

        def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
            callers.append(caller)
            return None

    async with opened(app) as stage:
        text = await token(stage, "s", "Safe", name="ann")
        await stage.ask("POST", "/v1/objects/Safe/s/snapshot", token=text)
        await stage.ask("POST", "/v1/objects/Safe/s/snapshot")
        assert callers == ["object:ann", "local"]


async def test_another_object_and_another_class_are_refused_without_a_word_about_them() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage, methods=["snapshot", "send"])
        for path in ("Door/back", "Door/front%2F", "Door/front2", "Plain/front", "Nobody/front", "wakeful.Tokens/all"):
            for method, what in (("GET", "watch"), ("POST", "snapshot"), ("POST", "send")):
                assert await refusal(stage, method, f"/v1/objects/{path}/{what}", text) == (403, "denied.object")
            async with Socket(
                stage, f"/v1/objects/{path}/watch".replace("%2F", "/"), authorization=f"Bearer {text}"
            ) as s:
                assert s.sent[0]["status"] in (403, 404)


async def test_no_other_route_takes_it() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage, methods=["snapshot", "send", "start", "can"])
        fill = {
            "class": "Door",
            "key": "front",
            "method": "snapshot",
            "name": "n",
            "id": "i",
            "number": "1",
            "node": "n",
        }
        for route in ROWS:
            if route.scope and not route.takes_grants:
                path = route.path.format_map(fill)
                assert await refusal(stage, route.method, path, text) == (403, "denied.object"), path
        assert await refusal(stage, "GET", "/openapi.json", text) == (403, "denied.object")
        assert await refusal(stage, "GET", "/metrics", text) == (403, "denied.object")
        async with Socket(stage, "/v1/objects/Door/front/socket", authorization=f"Bearer {text}") as socket:
            assert socket.sent[0]["status"] == 403


async def test_the_dashboard_does_not_take_it() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage)
        stage.site = Site(stage.app)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(stage.site), base_url="http://localhost") as client:
            for path in ("/", "/objects", "/jobs", "/parked"):
                answer = await client.get(path, headers={"authorization": f"Bearer {text}"})
                assert answer.status_code in (303, 401, 403), path
            answer = await client.post("/login", data={"token": text})
            assert answer.status_code in (401, 403)
            assert not answer.cookies


async def test_a_socket_of_a_plain_object_is_for_those_whose_token_says_so() -> None:
    app = App()

    @app.object
    class Room(DurableObject):
        async def on_connect(self, socket: Any, request: Any) -> None:
            await socket.send(request.caller)

        async def on_message(self, socket: Any, message: Any) -> None: ...

        async def say(self) -> str:
            return "hello"

    async with opened(app) as stage:
        await stage.token("other", "admin")
        may, may_not = (
            await token(stage, "r", "Room", methods=["on_connect"], name="ann"),
            await token(stage, "r", "Room", methods=["say"]),
        )
        path = "/v1/objects/Room/r/socket"
        async with Socket(stage, path, authorization=f"Bearer {may}") as socket:
            assert socket.sent[-1] == {"type": "websocket.send", "text": "object:ann"}
        async with Socket(stage, path, authorization=f"Bearer {may_not}") as socket:
            assert socket.sent[0]["status"] == 403
        assert await refusal(stage, "POST", "/v1/objects/Room/r/say", may) == (403, "denied.method")
        assert (await stage.ask("POST", "/v1/objects/Room/r/say", token=may_not)).json() == {"result": "hello"}


async def test_one_that_has_expired_is_refused_and_ends_what_it_opened() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage, events=["OPEN"], ttl="1m")
        headers = {"authorization": f"Bearer {text}"}
        async with Reader(stage, PATH, headers) as reader, Socket(stage, **headers) as socket:
            await stage.world.advance(seconds=50)
            assert (await socket.send(1, OPEN))["kind"] == "accepted"
            await stage.world.advance(seconds=20)
            assert told(reader)[-1] == ("gone", {})
            assert socket.end == (1008, "the token is over; connect with another")
        assert await refusal(stage, "GET", PATH, text) == (401, "denied.expired")


async def test_with_another_key_all_of_them_are_over() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage)
        async with Socket(stage, authorization=f"Bearer {text}") as socket:
            made = new_signing_key(lambda count: b"x" * count)
            await stage.world.node.send(ALL, "signing", (made,), {"is_new": True})
            await stage.world.advance(seconds=5)
            assert socket.end == (1008, "the token is over; connect with another")
        assert await refusal(stage, "GET", PATH, text) == (401, "denied.token")
        again = await token(stage)
        await stage.world.advance(seconds=1)
        assert (await stage.ask("POST", f"{PATH_OF}snapshot", token=again)).status_code == 200


async def test_what_was_changed_or_signed_by_somebody_else_is_refused() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage, events=["OPEN"])
        head, payload, signature = text.split(".")
        fields = json.loads(base64.urlsafe_b64decode(payload + "=="))
        other = [*fields[:1], "back", *fields[2:]]
        key = await signing_of(stage.world.node.store)
        assert key is not None
        spelled = base64.urlsafe_b64encode(json.dumps(other).encode()).decode().rstrip("=")
        unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
        by_id = hmac.new(key.id.encode(), f"{head}.{payload}".encode(), hashlib.sha256).digest()
        forged = [
            f"{head}.{spelled}.{signature}",
            f"{head}.{payload}.{signature[:-1]}{'A' if signature[-1] != 'A' else 'B'}",
            f"{head}.{payload}.",
            f"{head}.{payload}",
            f"{head}.{payload}.{'A' * 43}",
            f"{head}.{payload}.{base64.urlsafe_b64encode(by_id).decode().rstrip('=')}",
            f"{unsigned}.{payload}.",
            f"wo_{unsigned}.{payload}.{signature}",
            f"wo_00000000.{payload}.{signature}",
            f"{text}=",
            f"{text} ",
            text.replace("wo_", "wk_"),
            sign(Grant(*fields), SigningKey(key.id, b"another secret")),  # type: ignore[arg-type]
            "wo_" + "A" * 7_000,
            "wo_",
        ]
        for one in forged:
            answer = await stage.ask("GET", "/v1/objects/Door/back/watch", token=one)
            assert answer.status_code in (400, 401, 403, 431), one
            answer = await stage.ask("POST", "/v1/objects/Door/back/snapshot", token=one)
            assert answer.status_code in (400, 401, 403, 431), one
        assert stage.world.node.awake.keys().isdisjoint({"Door/back"})


async def test_a_server_without_tokens_holds_it_to_its_object_too() -> None:
    async with opened(make_app()) as stage:
        text = await token(stage)
        assert (await stage.ask("POST", f"{PATH_OF}snapshot", token=text)).status_code == 200
        assert await refusal(stage, "GET", "/v1/objects", text) == (403, "denied.object")
        assert (await stage.ask("GET", "/v1/objects")).status_code == 200


async def test_it_is_taken_as_an_offered_protocol_and_is_in_no_audit_row() -> None:
    async with opened(make_app()) as stage:
        await stage.token("other", "admin")
        text = await token(stage)
        socket = Socket(stage)
        socket._scope["subprotocols"] = ["wakeful", f"wakeful.bearer.{text}"]
        async with socket:
            assert socket.sent[0] == {"type": "websocket.accept", "subprotocol": "wakeful", "headers": []}
        await refusal(stage, "GET", f"/v1/objects/Door/{text}/watch", text)
        await stage.world.advance(minutes=2)
        rows = await page(stage.world.node.store, limit=100)
        said = msgspec.json.encode(msgspec.to_builtins(rows, enc_hook=str)).decode()
        assert "denied.object" in said
        assert text.split(".")[1] not in said
        assert redact(f"GET {text}") == f"GET {text.split('.')[0]}.…"


@pytest.mark.parametrize(
    ("cls", "options", "code"),
    [
        ("Plain", {}, "token.methods"),
        ("Plain", {"methods": ["hello"], "events": ["A"]}, "token.events"),
        ("Plain", {"methods": "hello"}, "token.methods"),
        ("Door", {"events": []}, "token.events"),
        ("Door", {"events": "OPEN"}, "token.methods"),
        ("Door", {"ttl": "8d"}, "token.ttl"),
        ("Door", {"ttl": 0}, "token.ttl"),
        ("Door", {"name": "a b"}, "token.name"),
        ("Door", {"events": ["x" * 3_000]}, "token.long"),
    ],
)
async def test_what_can_not_be_a_token_is_said(cls: str, options: dict[str, Any], code: str) -> None:
    async with opened(make_app()) as stage:
        with pytest.raises(errors.BadOption) as failure:
            await token(stage, "k", cls, **options)
        assert failure.value.code == code
        with pytest.raises(errors.UnknownMethod):
            await token(stage, "k", cls, methods=["_private"])


async def test_a_problem_names_the_object() -> None:
    async with opened(make_app()) as stage:
        text = await token(stage)
        answer = await stage.ask("GET", "/v1/objects/Door/back/watch", token=text)
        assert problem(answer, 403, "denied.object")["detail"] == "this token is for Door/front alone"


async def test_an_event_that_the_class_does_not_take_is_in_no_token() -> None:
    app = App()

    @app.object
    class Bill(Machine):
        events = {"PAY": None, "CANCEL": None}
        chart = {"initial": "open", "states": {"open": {"on": {"PAY": "paid"}}, "paid": {}}}

    async with app.world():
        assert await app.token(Bill, "b", events=["PAY"])
        with pytest.raises(errors.BadValue, match="Bill takes no event 'PYA'; it takes PAY, CANCEL"):
            await app.token(Bill, "b", events=["PAY", "PYA"])
