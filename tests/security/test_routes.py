"""Every resource needs a scope, and everyone who lacks it is refused with an audit row: for each row of the table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.security.stage_security import Door, Reply, program
from wakeful.http.rows import TABLE
from wakeful.http.table import Route
from wakeful.security.scopes import IMPLIED, SCOPES

OPEN = {"/healthz", "/readyz"}  # for whoever watches the process: they say nothing of the program
NAMES = {
    "{class}": "Box",
    "{key}": "eu%2F1",
    "{method}": "put",
    "{name}": "daily",
    "{number}": "1",
    "{node}": "n1",
    "{id}": "Box%2Feu%252F1%2Fput%253Aabc",
}
ROUTES = [route for route in TABLE.routes if route.path not in OPEN]
ids = [f"{route.method} {route.path}" for route in ROUTES]


def names_object(route: Route) -> bool:
    return "{class}/{key}" in route.path


def path_of(route: Route) -> str:
    path = route.path
    for name, value in NAMES.items():
        path = path.replace(name, value)
    assert "{" not in path, f"{route.path}: a name in it that this test does not know; add it to NAMES"
    return path + ("?q=a" if route.path == "/v1/search" else "")


@asynccontextmanager
async def doors() -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        yield Door(app, world)


async def asked(door: Door, route: Route, token: str | None) -> Reply:
    body = b"" if route.method in ("GET", "DELETE") else b"[]"
    return await door.ask(route.method, path_of(route), token=token, body=body)


async def check_refused(door: Door, route: Route, token: str | None, status: int, code: str) -> None:
    await door.world.advance(seconds=61)  # another minute: this refusal is the first of its kind again
    before = await door.refusals()
    found = await asked(door, route, token)
    assert (found.status, found.code) == (status, code), found.body
    now = await door.refusals()
    assert len(now) > len(before)
    assert now[0][0] == code


def test_every_resource_names_a_scope() -> None:
    without = {route.path for route in TABLE.routes if route.scope not in SCOPES}
    assert without == OPEN


@pytest.mark.parametrize("route", ROUTES, ids=ids)
async def test_who_may_not_is_refused_and_written_down(route: Route) -> None:
    async with doors() as door:
        await door.object("eu/1")
        others = [scope for scope in SCOPES if route.scope not in IMPLIED[scope]]
        weak = await door.token(",".join(others)) if others else None
        old = await door.token("admin", expires_ms=1_000)
        gone = await door.token("admin")
        await door.revoke(gone)
        stranger = await door.token("admin", tenant="us/")
        await check_refused(door, route, None, 401, "denied.no_token")
        await check_refused(door, route, "wk_nonsense", 401, "denied.token")
        await check_refused(door, route, f"{gone[:-1]}{'0' if gone[-1] != '0' else '1'}", 401, "denied.token")
        await check_refused(door, route, old, 401, "denied.expired")
        await check_refused(door, route, gone, 401, "denied.revoked")
        if weak is not None:
            await check_refused(door, route, weak, 403, "denied.scope")
        if names_object(route) or route.is_wide:
            await check_refused(door, route, stranger, 403, "denied.tenant")


@pytest.mark.parametrize("route", ROUTES, ids=ids)
async def test_who_may_is_let_in(route: Route) -> None:
    """With the least scope that is enough; what the answer is, is not the gate's business, but it is no refusal."""
    if route.is_stream:
        pytest.skip("it never ends; see the test of events")
    async with doors() as door:
        await door.object("eu/1")
        tenant = None if route.is_wide else "eu/"
        found = await asked(door, route, await door.token(route.scope, tenant=tenant))
        assert found.status not in (401, 403, 429, 500), found.body


async def test_the_document_names_classes_so_it_needs_a_token() -> None:
    async with doors() as door:
        token = await door.token("call")
        assert (await door.ask("GET", "/openapi.json")).status == 401
        assert (await door.ask("GET", "/openapi.json", token=token)).status == 200
        assert (await door.ask("GET", "/healthz")).status == 200


async def test_metrics_need_a_token_of_the_whole_deployment() -> None:
    async with doors() as door:
        bound = await door.token("admin", tenant="eu/")
        assert (await door.ask("GET", "/metrics")).status == 401
        assert (await door.ask("GET", "/metrics", token=bound)).status == 403
        assert (await door.ask("GET", "/metrics", token=await door.token("read"))).status == 200


async def test_a_list_shows_a_tenant_its_own_and_nothing_else() -> None:
    async with doors() as door:
        for key in ("eu/1", "eu/2", "us/1", "europe", "eu"):
            await door.object(key)
        await door.world.advance(days=1)
        token = await door.token("operate,call", tenant="eu/")
        for route in ROUTES:
            if route.method != "GET" or names_object(route) or route.is_wide or route.is_stream or "{" in route.path:
                continue
            found = await door.ask("GET", path_of(route), token=token)
            if route.scope == "admin":
                assert found.status == 403
                continue
            assert found.status == 200, (route.path, found.body)
            text = found.body.decode()
            assert not any(key in text for key in ('"us/1"', '"europe"', '"eu"')), (route.path, text)
        rows = (await door.ask("GET", "/v1/objects", token=token)).json
        assert "eu/1" in str(rows)
        assert "eu/2" in str(rows)


async def test_what_a_tenant_asks_for_by_number_or_id_is_its_own() -> None:
    async with doors() as door:
        await door.object("us/1")
        await door.world.advance(days=3)
        [parked, *_] = await door.world.parked()
        everything, bound = await door.token("admin"), await door.token("operate,call", tenant="eu/")
        path = f"/v1/parked/{parked.number}"
        assert (await door.ask("GET", path, token=everything)).status == 200
        assert (await door.ask("GET", path, token=bound)).status in (403, 404)
        done = await door.ask("POST", "/v1/parked/redrive", token=bound, body=b'{"numbers": [%d]}' % parked.number)
        assert "is not parked" in done.body.decode()
        assert len(await door.world.parked()) >= 1
        job = await door.app.jobs.schedule(door.app.get(door.app.box, "us/1").put, "x", after="1h")  # type: ignore[attr-defined]
        from urllib.parse import quote

        for method, tail in (("GET", ""), ("POST", "/cancel"), ("GET", "/wait?timeout=1")):
            found = await door.ask(method, f"/v1/jobs/{quote(job.id, safe='')}{tail}", token=bound)
            assert found.status in (403, 404), (method, tail, found.body)
        assert (await door.app.jobs.get(job.id)).state == "scheduled"


async def test_tracebacks_are_for_those_who_operate() -> None:
    async with doors() as door:
        await door.object("eu/1")
        reader, operator = await door.token("call,read"), await door.token("call,operate")
        path = "/v1/objects/Box/eu%2F1/fails"
        shown = await door.ask("POST", path, token=operator)
        hidden = await door.ask("POST", path, token=reader)
        assert "Traceback" in shown.body.decode()
        assert "Traceback" not in hidden.body.decode()
