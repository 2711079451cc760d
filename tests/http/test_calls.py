"""Calling methods: arguments by annotation, nothing wrong reaches a turn, once only with a key."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.http.http_stage import Address, Colour, Line, later, make_app, opened, problem
from wakeful import DurableObject
from wakeful.http.asks import MSGPACK
from wakeful.values.codec import decode, encode

TYPES = {"content-type": MSGPACK.decode()}
ID = "12345678-1234-5678-1234-567812345678"


async def test_arguments_by_place_by_name_and_none() -> None:
    async with opened() as stage:
        assert await stage.result("a", "add", [5]) == 5
        assert await stage.result("a", "add", {"amount": 2}) == 7
        assert await stage.result("a", "add") == 8
        assert await stage.result("a", "add", []) == 9
        assert await stage.result("a", "total") == 9


async def test_annotations_make_of_json_what_the_method_takes() -> None:
    async with opened() as stage:
        body = [{"name": "tea", "count": 2}, later(hours=1)]
        given = await stage.result("a", "order", body)
        assert given["kinds"][:3] == ["Line", "datetime", "Colour"]
        assert given["line"] == {"$type": "Line", "name": "tea", "count": 2}


async def test_optional_enum_length_uuid_bytes_and_struct_by_name() -> None:
    async with opened() as stage:
        problem(
            await stage.call("a", "order", {"line": {"name": "x"}, "at": later()}), 422, "arguments.unknown"
        )  # only by place
        known = stage.app.deployment.registry.by_name("Shop")
        from wakeful.operations.arguments import signature_of

        args, kwargs = signature_of(known, "order").convert(
            [{"name": "x"}, later(hours=1), "blue"],
            {"wait": "1m30s", "id": ID, "blob": "AAEC", "to": {"street": "s"}},
        )
        assert args == (Line("x"), datetime(2026, 1, 1, 1, tzinfo=UTC), Colour.BLUE)
        assert kwargs == {
            "wait": timedelta(seconds=90),
            "id": UUID(ID),
            "blob": b"\x00\x01\x02",
            "to": Address("s"),
        }


@pytest.mark.parametrize(
    ("method", "body", "code", "named"),
    [
        ("add", ["x"], "arguments.type", "'amount'"),
        ("add", [1.5], "arguments.type", "'amount'"),
        ("add", [True], "arguments.type", "'amount'"),
        ("add", [1, 2], "arguments.many", "2 were given"),
        ("add", {"amout": 1}, "arguments.unknown", "'amout'"),
        ("order", [], "arguments.missing", "'line'"),
        ("order", [{"name": "x"}, "yesterday"], "arguments.type", "'at'"),
        ("order", [{"nam": "x"}, "2026-01-01T00:00:00Z"], "arguments.type", "'line'"),
        ("order", [{"name": "x"}, "2026-01-01T00:00:00Z", "green"], "arguments.type", "'colour'"),
        ("typed", [1, "x"], "arguments.type", "'numbers'"),
        ("typed", {"word": 1}, "arguments.type", "'word'"),
        ("slow", ["never"], "arguments.type", "'seconds'"),
        ("add", "x", "arguments.body", "text"),
        ("add", 7, "arguments.body", "number"),
    ],
)
async def test_an_argument_that_does_not_fit_is_named_and_wakes_nothing(
    method: str, body: object, code: str, named: str
) -> None:
    async with opened() as stage:
        found = problem(await stage.call("a", method, body), 422, code)
        assert named in found["detail"]
        assert stage.awake == set()


async def test_without_annotations_values_go_in_as_they_came() -> None:
    async with opened() as stage:
        assert await stage.result("a", "loose", [1, {"a": [2]}, None]) == [1, [{"a": [2]}, None], {}]
        assert await stage.result("a", "loose", {"first": 1, "x": 2}) == [1, [], {"x": 2}]
        problem(await stage.call("a", "loose", {"x": 2}), 422, "arguments.missing")
        assert await stage.result("a", "typed", [1, 2]) == [[1, 2], {}]
        assert await stage.result("a", "typed", {"k": "v"}) == [[], {"k": "v"}]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("Shop/a/inside", 404, "method.unknown"),
        ("Shop/a/_private", 400, "name.method"),
        ("Shop/a/__init__", 400, "name.method"),
        ("Shop/a/alarm", 404, "method.unknown"),
        ("Shop/a/storage", 404, "method.unknown"),
        ("Shop/a/schedules.pause", 400, "name.method"),
        ("Shop/a/nothing", 404, "method.unknown"),
        ("Nothing/a/add", 404, "class.unknown"),
        ("wakeful.Tokens/all/create", 404, "class.unknown"),
        ("wakeful.Audit/all/begin", 404, "class.unknown"),
        ("Sh%20op/a/add", 400, "name.class"),
        ("Shop/%00/add", 400, "name.key"),
        ("Shop/%C3%28/add", 400, "path.encoding"),
        ("Shop//add", 400, "name.key"),
        (f"Shop/{'k' * 513}/add", 400, "name.key"),
    ],
)
async def test_what_is_not_for_callers_is_refused(path: str, status: int, code: str) -> None:
    async with opened() as stage:
        problem(await stage.ask("POST", f"/v1/objects/{path}"), status, code)
        assert stage.awake == set()


@pytest.mark.parametrize("key", ["a/b", "..", "a%2Fb", "ü€", "a b", "?x=1", "#", "a//b", "../../etc/passwd", "+", ";"])
async def test_a_key_may_be_anything_and_is_decoded_once(key: str) -> None:
    async with opened() as stage:
        await stage.result(key, "add", [3])
        assert [row["key"] for row in (await stage.get("/v1/objects?class=Shop"))["rows"]] == [key]


async def test_a_request_key_makes_a_call_repeatable() -> None:
    async with opened() as stage:
        once = {"headers": {"Idempotency-Key": "k1"}}
        assert await stage.result("a", "add", [5], **once) == 5
        assert await stage.result("a", "add", [5], **once) == 5
        assert await stage.result("a", "add", [5], headers={"Idempotency-Key": '"k1"'}) == 5
        problem(await stage.call("a", "add", [6], **once), 409, "request.key")
        assert await stage.result("b", "add", [6], **once) == 6  # another object's keys are its own
        assert await stage.result("a", "total") == 5
        for key in ("k" * 256, "", "a b", "ü"):
            odd = {"Idempotency-Key": key.encode()}
            problem(await stage.call("a", "add", headers=odd), 400, "request.key.form")
        twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        answer = await stage.client.post("/v1/objects/Shop/a/add", headers=twice)
        problem(answer, 400, "header.twice")


async def test_repeats_at_once_run_once() -> None:
    async with opened() as stage:
        calls = [stage.result("a", "add", [1], headers={"Idempotency-Key": "k"}) for _ in range(20)]
        assert await asyncio.gather(*calls) == [1] * 20


async def test_a_deadline_by_header_or_query() -> None:
    async with opened() as stage:
        problem(await stage.call("a", "slow", [30], headers={"Wakeful-Deadline": "2s"}), 504, "call.deadline")
        problem(await stage.ask("POST", "/v1/objects/Shop/a/slow?deadline=1500ms", json=[30]), 504, "call.deadline")
        assert await stage.result("a", "slow", [1], headers={"Wakeful-Deadline": "2"}) == "late"
        for text in ("soon", "0", "-1", "1h", "nan", "1e3", "1.5"):
            answer = await stage.ask("POST", "/v1/objects/Shop/a/slow", params={"deadline": text}, json=[1])
            assert answer.status_code == 400, text


async def test_a_deadline_that_is_too_long_is_refused_as_the_client_refuses_it() -> None:
    async with opened() as stage:
        for options in ({"headers": {"Wakeful-Deadline": "901"}}, {"params": {"deadline": "16m"}}):
            answer = await stage.ask("POST", "/v1/objects/Shop/a/add", json=[1], **options)
            assert "15m at most" in problem(answer, 400, "deadline.long")["detail"]
        assert await stage.result("a", "add", [1], headers={"Wakeful-Deadline": "15m"}) == 1


async def test_an_answer_that_is_too_large_is_no_fault_of_the_request() -> None:
    app = make_app()

    @app.object
    class Wide(DurableObject):
        async def grow(self, size: int) -> str:
            await self.storage.put("n", 1)
            return "x" * size

    async with opened(app) as stage:
        answer = await stage.ask("POST", "/v1/objects/Wide/a/grow", json=[2_000_000])
        assert "answer of Wide/a.grow" in problem(answer, 424, "limit.answer")["detail"]
        assert await stage.world.info(Wide, "a") is None


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP", "identity, gzip"])
async def test_a_packed_body_is_refused_as_such(encoding: str) -> None:
    async with opened() as stage:
        body, headers = b"\x1f\x8b\x08", {"content-encoding": encoding, "content-type": "application/json"}
        for path in ("/v1/objects/Shop/a/add", "/v1/jobs"):
            answer = await stage.ask("POST", path, content=body, headers=headers)
            problem(answer, 415, "body.encoding")
            assert answer.headers["accept-encoding"] == "identity"
        assert await stage.result("a", "add", [1], headers={"content-encoding": "identity"}) == 1


async def test_a_turn_that_failed_is_not_remembered() -> None:
    app, runs = make_app(), []

    @app.object
    class Till(DurableObject):
        async def pay(self) -> str:
            runs.append(1)
            if len(runs) == 1:
                raise ValueError("declined")
            return "paid"

    async with opened(app) as stage:
        found = [await stage.ask("POST", "/v1/objects/Till/a/pay", headers={"Idempotency-Key": "k"}) for _ in range(3)]
        assert [one.status_code for one in found] == [424, 200, 200]
        assert len(runs) == 2


async def test_a_trace_goes_along() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with opened() as stage:
        assert await stage.result("a", "traced", headers={"traceparent": trace}) == trace
        assert await stage.result("a", "traced", headers={"traceparent": "rubbish"}) is None
        assert await stage.result("a", "traced") is None


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (b"[1", "application/json", 400, "body.json"),
        (b"nan", "application/json", 400, "body.json"),
        (b'"\xff"', "application/json", 400, "body.json"),
        (b"[" * 4_000, "application/json", 400, "body.json"),
        (b"[" * 100_000, "application/json", 400, "body.json"),
        (b"[" * 500 + b"]" * 500, "application/json", 400, "body.depth"),
        (b"[1]", "text/plain", 415, "body.media"),
        (b"a=1", "application/x-www-form-urlencoded", 415, "body.media"),
        (b"\x00", MSGPACK.decode(), 400, "body.msgpack"),
        (b"", MSGPACK.decode(), 400, "body.msgpack"),
        (encode([1, 2, 3]), MSGPACK.decode(), 400, "body.msgpack"),
        (b"[" + b" " * (2 << 20) + b"]", "application/json", 413, "body.large"),
        (b'["' + b"x" * (1 << 20) + b'"]', "application/json", 413, "limit.arguments"),
    ],
)
async def test_a_body_that_is_not_one(body: bytes, media: str, status: int, code: str) -> None:
    async with opened() as stage:
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=body, headers={"content-type": media})
        problem(answer, status, code)


@pytest.mark.parametrize(
    ("body", "half"),
    [
        (rb'["\ud800"]', r"\ud800 is half of a character"),
        (rb'["\\\uDABCx"]', r"\uDABC is half of a character"),
        (rb'["\ud83d\ude00", "\ud83d"]', r"\ud83d is half of a character"),
        (rb'["\udc00"]', "surrogate"),
        (rb'["\\ud800', "truncated"),  # a backslash and letters
        (rb'["\ud83d\ude00', "truncated"),
        (rb'["\ud800' + b"x" * 100 + b'"]', "surrogate"),
        (b'["' + b"x" * 100 + rb'\ud800"]', r"\ud800 is half of a character"),
    ],
)
async def test_half_of_a_character_is_called_so(body: bytes, half: str) -> None:
    async with opened() as stage:
        headers = {"content-type": "application/json"}
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=body, headers=headers)
        assert half in problem(answer, 400, "body.json")["detail"]


async def test_a_charset_and_white_space_are_no_harm() -> None:
    async with opened() as stage:
        headers = {"content-type": "Application/JSON; charset=utf-8"}
        answer = await stage.ask("POST", "/v1/objects/Shop/a/add", content=b" [ 3 ] ", headers=headers)
        assert answer.json() == {"result": 3}
        assert (await stage.ask("POST", "/v1/objects/Shop/a/add", content=b"  ", headers=headers)).json() == {
            "result": 4
        }


async def test_results_are_plain() -> None:
    async with opened() as stage:
        values = [None, True, 1.5, "ü", [1], {"a": [None]}, 2**80, -(2**70)]
        for value in values:
            assert await stage.result("a", "echo", [value]) == value


async def test_our_own_client_keeps_types_both_ways() -> None:
    async with opened() as stage:
        value = {"at": datetime(2026, 1, 1, tzinfo=UTC), "set": {1, 2}, "tuple": (1, b"x"), "id": UUID(ID)}
        body = encode([[value], {}])
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=body, headers=TYPES)
        assert answer.headers["content-type"] == MSGPACK.decode()
        assert decode(answer.content) == {"result": value}


async def test_types_of_the_program_are_made_by_annotations_only() -> None:
    async with opened() as stage:
        body = encode([[Line("tea", 3)], {}])
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=body, headers=TYPES)
        assert decode(answer.content)["result"] == {"$type": "Line", "name": "tea", "count": 3}
        body = encode([[Line("tea", 3), datetime(2026, 1, 1, tzinfo=UTC)], {}])
        answer = await stage.ask("POST", "/v1/objects/Shop/a/order", content=body, headers=TYPES)
        assert decode(answer.content)["result"]["line"] == Line("tea", 3)


async def test_too_many_at_once_are_refused_and_the_rest_is_answered() -> None:
    async with opened(site={"requests_max": 10}) as stage:
        answers = await asyncio.gather(*(stage.call(f"k{n}", "slow", [5]) for n in range(30)))
        statuses = [answer.status_code for answer in answers]
        assert (statuses.count(200), statuses.count(429)) == (7, 23)  # the rest is kept for others
        refused = problem(next(one for one in answers if one.status_code == 429), 429, "server.share")
        assert "7 of 10 places for calls" in refused["detail"]
        assert stage.site.api.requests == 0
        assert await stage.result("x", "add") == 1
