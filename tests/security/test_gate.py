"""Who is let in when there are no tokens, and what a request has to say for itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.security.stage_security import Door, program
from wakeful.security.gate import Gate
from wakeful.values.errors import NoToken

CALL = "/v1/objects/Box/eu%2F1/put"
BODY = b'["x"]'


PAGE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}


async def test_a_page_of_a_named_origin_reads_and_writes_and_no_other_does() -> None:
    async with doors(cors=["https://ops.example"]) as door:
        own, other = PAGE | {"origin": "https://ops.example"}, PAGE | {"origin": "https://evil.example"}
        for site in ("cross-site", "same-site"):
            own["sec-fetch-site"] = site
            assert (await door.ask("POST", CALL, body=BODY, headers=own)).status == 200
            found = await door.ask("GET", "/v1/objects", headers=own)
            assert found.status == 200, found.body
            assert found.headers["access-control-allow-origin"] == "https://ops.example"
        for method, path in (("GET", "/v1/objects"), ("HEAD", "/v1/objects"), ("POST", CALL)):
            assert (await door.ask(method, path, headers=other)).status == 403
        assert (await door.ask("GET", "/v1/objects", headers=PAGE)).status == 403


@asynccontextmanager
async def doors(**options: Any) -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        yield Door(app, world, **options)


async def check_refused(door: Door, code: str, status: int, method: str = "POST", path: str = CALL, **ask: Any) -> None:
    """Refused with that code, nothing done, and the newest audit row says so."""
    await door.world.advance(seconds=61)
    found = await door.ask(method, path, body=BODY if method == "POST" else b"", **ask)
    assert (found.status, found.code) == (status, code), found.body
    assert (await door.refusals())[0][0] == code
    assert await door.world.info(door.app.box, "eu/1") is None  # type: ignore[attr-defined]


async def test_without_tokens_this_machine_may_do_everything() -> None:
    async with doors() as door:
        for host in ("localhost:7420", "127.0.0.1:7420", "[::1]:7420", "LOCALHOST", "127.9.9.9"):
            found = await door.ask("POST", CALL, body=BODY, host=host)
            assert found.status == 200, (host, found.body)
        assert (await door.ask("GET", "/v1/audit", client=("::1", 1))).status == 200
        assert (await door.ask("GET", "/v1/objects", client=("::ffff:127.0.0.1", 1))).status == 200


@pytest.mark.parametrize("client", [("10.0.0.7", 1), ("192.168.1.5", 1), ("::2", 1), ("testclient", 1), None])
async def test_without_tokens_nobody_else_may_anything(client: Any) -> None:
    async with doors() as door:
        await check_refused(door, "denied.remote", 401, client=client)
        await check_refused(door, "denied.remote", 401, "GET", "/v1/objects", client=client)


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:7420", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]", None]
)
async def test_a_name_that_was_made_to_point_here_is_not_this_machine(host: str | None) -> None:
    """DNS rebinding: the browser is here and the page is not."""
    async with doors() as door:
        await check_refused(door, "denied.remote", 401, "GET", "/v1/objects", host=host)
        await check_refused(door, "denied.remote", 401, host=host)


@pytest.mark.parametrize(
    "name", ["x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "via", "x-forwarded-proto"]
)
async def test_what_a_proxy_passes_on_is_not_of_this_machine(name: str) -> None:
    async with doors() as door:
        await check_refused(door, "denied.remote", 401, headers={name: "127.0.0.1"})


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"origin": "http://localhost"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
async def test_a_form_of_another_site_does_nothing(headers: dict[str, str]) -> None:
    async with doors() as door:
        await check_refused(door, "denied.site", 403, headers=headers)


async def test_pages_of_our_own_and_links_to_them_work() -> None:
    async with doors() as door:
        own = {"origin": "http://localhost:7420", "sec-fetch-site": "same-origin"}
        assert (await door.ask("POST", CALL, body=BODY, headers=own)).status == 200
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert (await door.ask("GET", "/v1/objects", headers=link)).status == 200
        script = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
        assert (await door.ask("GET", "/v1/objects", headers=script)).status == 403


async def test_an_origin_that_the_server_was_told_of_may_write() -> None:
    async with doors(cors=["https://ops.example"]) as door:
        assert (await door.ask("POST", CALL, body=BODY, headers={"origin": "https://ops.example"})).status == 200
        found = await door.ask("POST", CALL, body=BODY, headers={"origin": "https://ops.example.evil"})
        assert found.code == "denied.site"


async def test_a_header_that_is_there_twice_is_believed_in_neither_form() -> None:
    async with doors() as door:
        await check_refused(door, "denied.headers", 401, more=[(b"host", b"localhost:7420")])
        token = await door.token("admin")
        more = [(b"authorization", b"Bearer wk_other")]
        found = await door.ask("GET", "/v1/objects", token=token, more=more)
        assert found.code == "denied.headers"


async def test_a_token_in_the_url_is_none() -> None:
    async with doors() as door:
        token = await door.token("admin")
        for query in (f"?token={token}", f"?access_token={token}"):
            assert (await door.ask("GET", f"/v1/objects{query}")).code == "denied.no_token"
        assert all(token not in str(row) for row in await door.audit())


async def test_a_token_in_a_path_is_not_written_down() -> None:
    async with doors() as door:
        token = await door.token("admin")
        await door.ask("GET", f"/v1/objects/Box/{token}")
        rows = [row for row in await door.audit() if row["kind"] == "refusal"]
        assert rows
        assert token[:11] in rows[0]["target"]
        assert token not in str(rows)


async def test_sockets_of_other_sites_are_refused() -> None:
    path = "/v1/objects/Box/eu1/socket"
    async with doors() as door:
        assert await door.socket(path, headers={"origin": "http://evil.example"}) == 403
        assert ("denied.site", "address:127.0.0.1") in await door.refusals()
        token = await door.token("admin")
        assert await door.socket(path) == 401
        assert await door.socket(path, token=await door.token("read")) == 403
        assert await door.socket("/v1/objects/Box/us%2F1/socket", token=await door.token("call", tenant="eu/")) == 403
        codes = {code for code, _ in await door.refusals()}
        assert {"denied.no_token", "denied.scope", "denied.tenant"} <= codes
        assert await door.socket(path, token=token) not in (401, 403)


async def test_a_token_that_is_revoked_is_refused_within_a_second() -> None:
    async with doors() as door:
        token = await door.token("read")
        assert (await door.ask("GET", "/v1/objects", token=token)).status == 200
        await door.revoke(token)
        await door.world.advance(milliseconds=1_000)
        assert (await door.ask("GET", "/v1/objects", token=token)).code == "denied.revoked"


async def test_tokens_that_are_over_do_not_open_the_door_again() -> None:
    async with doors() as door:
        token = await door.token("admin", expires_ms=1_000)
        await door.world.advance(seconds=5)
        assert (await door.ask("GET", "/v1/objects")).code == "denied.no_token"
        assert (await door.ask("GET", "/v1/objects", token=token)).code == "denied.expired"


async def test_use_is_noted_to_ten_minutes() -> None:
    from wakeful.security.tokens import tokens_of

    async with doors() as door:
        token = await door.token("read")
        for _ in range(3):
            await door.ask("GET", "/v1/objects", token=token)
        await door.world.settle()
        [first] = await tokens_of(door.world.store)
        assert first.used_at is not None
        await door.world.advance(minutes=5)
        await door.ask("GET", "/v1/objects", token=token)
        await door.world.advance(minutes=6)
        await door.ask("GET", "/v1/objects", token=token)
        await door.world.settle()
        [later] = await tokens_of(door.world.store)
        assert later.used_at == first.used_at + 660_000


async def test_a_server_without_tokens_does_not_listen_beyond_this_machine() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        gate = Gate(app.deployment)
        for host in ("127.0.0.1", "::1", "[::1]", "localhost"):
            await gate.check_bind(host)
        for host in ("0.0.0.0", "::", "", "10.0.0.1", "example.com"):
            with pytest.raises(NoToken, match="wakeful tokens create") as caught:
                await gate.check_bind(host)
            assert caught.value.code == "denied.open"
        await door.token("admin")
        await gate.check_bind("0.0.0.0")
