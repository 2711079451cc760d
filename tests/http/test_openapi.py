"""The document says what there is, and every answer is as it says."""

from typing import Any

import jsonschema_rs
import pytest

from tests.http.http_stage import Stage, opened
from tests.http.test_looks import LISTS, THINGS, furnish
from wakeful.http.answers import SCHEMAS, schema_of
from wakeful.http.openapi import document
from wakeful.http.rows import ROWS
from wakeful.views.due import PlainTimer


async def read(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = await stage.get("/openapi.json")
    return found


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Closed references: what the schema names is in the document."""
    return jsonschema_rs.validator_for({**schema, "components": document["components"]})


async def test_every_resource_and_every_method_of_the_program_is_in_it() -> None:
    async with opened() as stage:
        paths = (await read(stage))["paths"]
        for route in ROWS:
            assert route.method.lower() in paths[route.path], route
        own = {path for path in paths if path.startswith(("/v1/objects/Shop/", "/v1/objects/Lamp/"))}
        assert "/v1/objects/Shop/{key}/add" in own
        assert "/v1/objects/Lamp/{key}/send" in own
        assert not [path for path in own if path.endswith(("inside", "_private", "alarm"))]
        assert not [path for path in paths if "wakeful." in path]


async def test_it_is_itself_valid() -> None:
    async with opened() as stage:
        found = await read(stage)
        assert found["openapi"] == "3.1.0"
        assert found["info"]["title"] == "Wakeful"
        names = [one["operationId"] for path in found["paths"].values() for one in path.values()]
        assert len(names) == len(set(names))
        for name in found["components"]["schemas"]:
            validator(found, {"$ref": f"#/components/schemas/{name}"})
        for path, operations in found["paths"].items():
            given = {part[1:-1] for part in path.split("/") if part.startswith("{")}
            for one in operations.values():
                assert {param["name"] for param in one["parameters"] if param["in"] == "path"} == given, path
                assert {"400", "422"} <= one["responses"].keys()


def test_rows_have_the_schemas_of_their_types() -> None:
    assert schema_of(list[PlainTimer]) == {"type": "array", "items": {"$ref": "#/components/schemas/Timer"}}
    assert schema_of(PlainTimer | None)["anyOf"][1] == {"type": "null"}
    timer = SCHEMAS["Timer"]
    assert timer["properties"]["due_at"] == {"type": "string", "format": "date-time"}
    assert timer["properties"]["held_by"] == {"type": ["string", "null"]}
    assert timer["required"] == list(timer["properties"])
    assert SCHEMAS["Problem"]["required"][-1] == "instance"  # what an error may have is not required
    with pytest.raises(AssertionError):
        schema_of(int | str)


async def test_arguments_have_the_schemas_of_their_annotations() -> None:
    async with opened() as stage:
        found = await read(stage)
        made = found["paths"]["/v1/objects/Shop/{key}/add"]["post"]
        assert made["summary"] == "Add to the sum."
        assert made["tags"] == ["Shop"]
        schema = made["requestBody"]["content"]["application/json"]["schema"]
        fits = validator(found, schema)
        for good in ([], [1], {"amount": 1}, {}):
            assert fits.is_valid(good), good
        for bad in (["x"], [1, 2], {"amount": "x"}, {"odd": 1}, "x"):
            assert not fits.is_valid(bad), bad
        order = found["paths"]["/v1/objects/Shop/{key}/order"]["post"]["requestBody"]
        assert order["required"] is True
        fits = validator(found, order["content"]["application/json"]["schema"])
        assert fits.is_valid([{"name": "x"}, "2026-01-01T00:00:00Z", "red"])
        assert not fits.is_valid([{"name": "x"}, "2026-01-01T00:00:00Z", "green"])


@pytest.mark.parametrize(("method", "status"), [("add", 200), ("total", 200), ("order", 422)])
async def test_null_is_a_body_where_no_argument_is_needed(method: str, status: int) -> None:
    async with opened() as stage:
        path = "/v1/objects/Shop/{key}/" + method
        body = document(stage.app.deployment.registry)["paths"][path]["post"]["requestBody"]
        ways = body["content"]["application/json"]["schema"].get("anyOf", [])
        assert ({"type": "null"} in ways) == (status == 200)
        answer = await stage.ask("POST", path.format(key="a"), content=b"null")
        assert answer.status_code == status


@pytest.mark.parametrize("path", [*LISTS, *THINGS])
async def test_answers_are_as_it_says(path: str) -> None:
    async with opened() as stage:
        await furnish(stage)
        found = await read(stage)
        answer = await stage.ask("GET", f"/v1/{path}")
        assert answer.status_code == 200
        route, _ = _route(path)
        validator(found, {"$ref": f"#/components/schemas/{route.answer}"}).validate(answer.json())


async def test_problems_are_as_it_says() -> None:
    async with opened() as stage:
        found = await read(stage)
        answer = await stage.ask("GET", "/v1/nothing")
        validator(found, SCHEMAS["Problem"]).validate(answer.json())


async def test_it_knows_classes_that_are_registered_later() -> None:
    async with opened() as stage:
        before = document(stage.app.deployment.registry)["paths"].keys()

        @stage.app.object
        class Later:
            def __init__(self, ctx: object) -> None: ...

            async def hello(self) -> str:
                return "hello"

        assert "/v1/objects/Later/{key}/hello" in (await read(stage))["paths"].keys() - before


def _route(path: str) -> tuple[Any, dict[str, str]]:
    from urllib.parse import unquote

    from wakeful.http.rows import TABLE

    return TABLE.find("GET", [unquote(part) for part in f"v1/{path}".partition("?")[0].split("/")])
