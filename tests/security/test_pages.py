"""Every page and form of the dashboard asks who is there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from tests.security.stage_security import Door, Reply, program
from wakeful.dashboard.pages import routes
from wakeful.security.gate import Gate

FORM = {"content-type": "application/x-www-form-urlencoded", "origin": "http://localhost:7420"}
FREE = {"/login", "/{rest:path}"}  # what everyone may see: where to log in, and that there is no such page
FIELDS = {"class": "Box", "key": "us/1", "name": "daily", "number": "1", "node": "n1", "id": "Box/us%2F1/put%3Aabc"}
WIDE = {"/node/drain", "/node/undrain", "/audit", "/tokens", "/nodes", "/history", "/webhooks", "/webhooks/test"}


def _routes() -> list[tuple[str, str]]:
    app = program()
    found = [route for route in routes(app.deployment, Gate(app.deployment)) if isinstance(route, Route)]
    return sorted((method, route.path) for route in found for method in (route.methods or ()) if method != "HEAD")


PAGES = [(method, path) for method, path in _routes() if path not in FREE and path != "/logout"]


@asynccontextmanager
async def doors() -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        await door.object("us/1")
        yield door


async def asked(door: Door, method: str, path: str, cookie: str = "", **headers: str) -> Reply:
    sent = headers | ({"cookie": cookie} if cookie else {})
    if method == "GET":
        return await door.ask("GET", f"{path}?{urlencode(FIELDS)}", headers=sent)
    return await door.ask("POST", path, headers=FORM | sent, body=urlencode(FIELDS).encode())


async def login(door: Door, scope: str, tenant: str | None = None) -> str:
    token = await door.token(scope, tenant=tenant)
    found = await door.ask("POST", "/login", headers=FORM, body=urlencode({"token": token}).encode())
    return found.cookies[0].partition(";")[0]


@pytest.mark.parametrize(("method", "path"), PAGES)
async def test_nobody_sees_or_does_anything_without_a_session(method: str, path: str) -> None:
    async with doors() as door:
        await door.token("admin")
        found = await asked(door, method, path)
        assert found.status in (303, 401), found.body
        assert found.status == 401 or "/login" in found.headers["location"]
        assert b"value of us/1" not in found.body
        assert (await door.refusals())[0][0] == "denied.no_token"


@pytest.mark.parametrize(("method", "path"), PAGES)
async def test_a_session_does_what_its_token_may_and_no_more(method: str, path: str) -> None:
    async with doors() as door:
        weak = await login(door, "call")
        found = await asked(door, method, path, weak)
        assert found.status in (401, 403), found.body  # a form fails by its csrf token first
        assert (await door.refusals())[0][0] in ("denied.scope", "denied.csrf")
        await door.world.advance(seconds=61)
        stranger = await login(door, "admin", tenant="eu/")
        if path in WIDE:
            found = await asked(door, method, path, stranger)
            assert found.status in (401, 403), found.body
            assert (await door.refusals())[0][0] in ("denied.tenant", "denied.csrf")
        elif method == "GET" and path != "/live":
            found = await asked(door, method, path, stranger)
            assert b"value of us/1" not in found.body
            assert found.status in (200, 400, 403, 404), found.body


@pytest.mark.parametrize(("method", "path"), [page for page in PAGES if page[0] == "POST"])
async def test_without_tokens_a_form_of_another_site_does_nothing(method: str, path: str) -> None:
    async with doors() as door:
        found = await asked(door, method, path, origin="http://evil.example")
        assert found.status == 403
        assert (await door.refusals())[0][0] == "denied.site"


def test_there_are_pages_and_forms_to_try() -> None:
    assert len(PAGES) > 15
    assert {method for method, _ in PAGES} == {"GET", "POST"}
