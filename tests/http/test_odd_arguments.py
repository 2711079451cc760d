"""Arguments and answers that programs may well have, and nobody thought of: none is a 500, and the document fits."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema_rs
import pytest
from pydantic import BaseModel, Field, model_validator

from tests.http.http_stage import Stage, opened, problem
from wakeful import App, DurableObject
from wakeful.http import asks
from wakeful.http.asks import MSGPACK
from wakeful.jobs.ids import parse_id
from wakeful.operations.arguments import converter
from wakeful.values.codec import encode
from wakeful.values.errors import UnknownJob

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]

HUGE = 10**5_000


@dataclass
class Hidden:
    """Its annotation is there for type checkers only."""

    part: "Missing"


@dataclass
class Picky:
    size: int

    def __post_init__(self) -> None:
        raise KeyError(self.size)


@dataclass
class Job:
    """Called like a thing of Wakeful's own."""

    mine: int


class Item(BaseModel):
    name: str
    count: int = 1


class Before(BaseModel):
    name: str

    @model_validator(mode="before")
    @classmethod
    def look(cls, data: Any) -> Any:
        return {**data, "name": data.get("title") or data["name"]}


class Linked(BaseModel):
    path: Path
    called: int = Field(alias="n")


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def program() -> App:
    app = App()

    @app.object
    class Odd(DurableObject):
        async def hidden(self, one: Hidden) -> Any:
            return one

        async def picky(self, one: Picky) -> None: ...

        async def job(self, one: Job) -> int:
            return one.mine

        async def numbered(self, names: dict[int, str]) -> Any:
            return [[number, name] for number, name in names.items()]

        async def waits(self, one: timedelta | None, some: list[timedelta]) -> Any:
            return [one, some]

        async def modelled(
            self,
            one: Item,
            maybe: Item | None = None,
            some: list[Item] | None = None,
            named: dict[str, Item] | None = None,
        ) -> Any:
            return [one, maybe, some, named]

        async def either(self, one: Item | dict[str, Any]) -> Any:
            return one

        async def speechless(self) -> None:
            raise Speechless

        async def huge(self) -> Any:
            await self.storage.put("huge", {HUGE: [HUGE]})
            return HUGE

    @app.object
    class Other(DurableObject):
        async def job(self, one: Any, *, two: "Hidden | None" = None) -> None: ...

    return app


async def call(stage: Stage, method: str, body: Any) -> httpx.Response:
    return await stage.ask("POST", f"/v1/objects/Odd/k/{method}", json=body)


async def test_a_type_whose_annotations_only_checkers_know_goes_in_as_it_came() -> None:
    async with opened(program()) as stage:
        assert (await call(stage, "hidden", [{"part": 1}])).json() == {"result": {"part": 1}}
        await stage.get("/openapi.json")  # which one such method would have taken from all


async def test_whatever_a_type_of_the_program_raises_about_an_argument_is_told_as_that() -> None:
    async with opened(program()) as stage:
        said = problem(await call(stage, "picky", [{"size": 3}]), 422, "arguments.type")
        assert said["detail"] == "Odd.picky: argument 'one': 3"


async def test_a_model_in_an_annotation_checks_what_came_and_its_fields_go_in() -> None:
    async with opened(program()) as stage:
        tea, pot = {"name": "tea"}, {"name": "pot", "count": "2"}
        found = (await call(stage, "modelled", [tea, pot, [tea], {"a": tea}])).json()["result"]
        full = {"name": "tea", "count": 1}
        assert found == [full, {"name": "pot", "count": 2}, [full], {"a": full}]
        assert (await call(stage, "modelled", {"one": tea, "maybe": None})).json()["result"][1] is None
        said = problem(await call(stage, "modelled", [{"name": 5, "count": "x"}]), 422, "arguments.type")
        assert said["detail"].startswith("Odd.modelled: argument 'one': name: Input should be a valid string; count: ")
        problem(await call(stage, "modelled", [tea, 5]), 422, "arguments.type")
        said = problem(await call(stage, "modelled", [tea, None, [tea, {}]]), 422, "arguments.type")
        assert said["detail"] == "Odd.modelled: argument 'some': name: Field required - at `$[1]`"
        assert (await call(stage, "either", [{"a": 1}])).json() == {"result": {"a": 1}}  # can't be told apart
        await stage.get("/openapi.json")


async def test_keys_that_are_numbers_come_as_text_from_json_and_as_they_are_from_a_client() -> None:
    async with opened(program()) as stage:
        assert (await call(stage, "numbered", [{"7": "seven"}])).json() == {"result": [[7, "seven"]]}
        problem(await call(stage, "numbered", [{"x": "seven"}]), 422, "arguments.type")
        headers = {"content-type": MSGPACK.decode()}
        body = encode([[{7: "seven"}], {}])
        answer = await stage.ask("POST", "/v1/objects/Odd/k/numbered", content=body, headers=headers)
        assert answer.status_code == 200


async def test_types_of_the_program_have_schemas_beside_those_of_wakeful() -> None:
    async with opened(program()) as stage:
        found = await stage.get("/openapi.json")
        schemas = found["components"]["schemas"]
        assert "due_at" in schemas["Job"]["properties"]
        assert list(schemas["Odd.Job"]["properties"]) == ["mine"]
        body = found["paths"]["/v1/objects/Odd/{key}/job"]["post"]["requestBody"]["content"]["application/json"]
        fits = jsonschema_rs.validator_for({**body["schema"], "components": found["components"]})
        assert fits.is_valid([{"mine": 1}])
        assert not fits.is_valid([{"due_at": 1}])


async def test_lengths_of_time_inside_of_lists_are_as_the_document_says() -> None:
    async with opened(program()) as stage:
        found = await stage.get("/openapi.json")
        body = found["paths"]["/v1/objects/Odd/{key}/waits"]["post"]["requestBody"]["content"]["application/json"]
        one, some = body["schema"]["anyOf"][1]["prefixItems"]
        assert one["anyOf"][0]["type"] == ["string", "number"]
        assert some == {"type": "array", "items": {"type": "string", "format": "duration"}}
        assert (await call(stage, "waits", ["5m", ["PT5M"]])).json() == {"result": [300.0, [300.0]]}
        problem(await call(stage, "waits", [5, [5]]), 422, "arguments.type")


async def test_an_error_that_can_not_be_shown_is_still_one_of_the_object() -> None:
    async with opened(program()) as stage:
        said = problem(await call(stage, "speechless", None), 424, "turn.failed")
        assert said["remote_type"].endswith("Speechless")


async def test_numbers_that_python_does_not_write_in_decimal_are_text() -> None:
    assert sys.get_int_max_str_digits() == 4_300
    async with opened(program()) as stage:
        assert (await call(stage, "huge", None)).json() == {"result": hex(HUGE)}
        [row] = (await stage.get("/v1/objects/Odd/k/storage"))["rows"]
        assert row["value"] == {hex(HUGE): [hex(HUGE)]}


LONG = "9" * 400 + "s"
DAY = {"spec": "every day at 09:00", "handler": "add"}
EXTREMES: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "schedules/x", {"handler": "add", "at": "0001-01-01T00:00:00Z"}),
    ("PUT", "schedules/x", {"handler": "add", "after": LONG}),
    ("PUT", "schedules/x", DAY | {"jitter": LONG}),
    ("PUT", "schedules/x", DAY | {"grace": 1e300}),
    ("PUT", "schedules/x", DAY | {"catch_up_window": 1e18}),
    ("PUT", "schedules/x", DAY | {"max_runs": 10**30}),
    ("PUT", "schedules/x", DAY | {"retry": {"first": 1e18}}),
    ("PUT", "schedules/x", DAY | {"retry": {"most": LONG}}),
    ("POST", "schedules/nightly/pause", {"until": "9999-12-31T23:59:59-23:59"}),
    ("POST", "schedules/nightly/pause", {"lasts": LONG}),
    ("POST", "schedules/nightly/reschedule", {"after": LONG}),
]


@pytest.mark.parametrize(("method", "path", "body"), EXTREMES, ids=lambda one: str(one)[:40])
async def test_times_and_numbers_past_all_bounds_are_refused(method: str, path: str, body: dict[str, Any]) -> None:
    async with opened() as stage:
        await stage.result("a", "plan")
        answer = await stage.ask(method, f"/v1/objects/Shop/a/{path}", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] in ("time.early", "time.late", "schedule.max_runs", "spec.jitter"), answer.text


async def test_a_body_of_which_the_rest_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asks, "BODY_TIMEOUT_S", 0.02)
    sent: list[Any] = []
    given = iter([{"type": "http.request", "body": b"[", "more_body": True}])

    async def receive() -> Any:
        return next(given, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async with opened() as stage:
        path = "/v1/objects/Shop/a/add"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "scheme": "http"}
        await asyncio.wait_for(stage.site(scope, receive, send), 10)
        assert sent[0]["status"] == 408
        assert b"body.slow" in sent[1]["body"]


async def test_names_that_no_store_has_are_unknown_on_every_store() -> None:
    with pytest.raises(UnknownJob):
        parse_id("Shop/a/%00")
    async with opened() as stage:
        problem(await stage.ask("GET", "/v1/jobs/Shop%2Fa%2F%2500"), 404, "job.unknown")
        for body in ({"class": "a\0"}, {"key": "a\0"}, {"class": ""}):
            answer = await stage.ask("POST", "/v1/parked/redrive", json=body | {"all": True})
            assert (answer.status_code, answer.json()["error"]) == (400, "BadName")


def test_a_model_checks_whatever_its_validators_fields_and_neighbours_are() -> None:
    before, linked, beside = converter(Before), converter(Linked), converter(tuple[Item, Path])
    assert before is not None
    assert linked is not None
    assert beside is not None
    assert before({"title": "a"}) == {"name": "a"}
    for wrong in ({"name": 5}, 5):
        with pytest.raises((ValueError, AttributeError, TypeError)):
            before(wrong)
    assert linked({"path": "/x", "n": 1}) == {"path": "/x", "n": 1}  # a path is no value, and goes in as it came
    assert linked({"path": "/x", "called": 1}) == {"path": "/x", "called": 1}  # what model_dump() gives
    with pytest.raises(ValueError, match="n"):
        linked({"path": "/x"})
    assert beside([{"name": "a"}, "/x"]) == [{"name": "a"}, "/x"]
