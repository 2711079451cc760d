"""The dashboard's sessions: what the cookie is, what a form has to carry, and when it ends."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from tests.security.stage_security import Door, Reply, program

FORM = {"content-type": "application/x-www-form-urlencoded"}
OWN = {"origin": "http://localhost:7420", "sec-fetch-site": "same-origin"}
PAUSE = "/schedule/pause"


@asynccontextmanager
async def doors() -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        await door.object("eu/1")
        yield door


async def sent(door: Door, path: str, fields: dict[str, str], cookie: str = "", **more: Any) -> Reply:
    headers = FORM | OWN | ({"cookie": cookie} if cookie else {}) | more.pop("headers", {})
    return await door.ask("POST", path, headers=headers, body=urlencode(fields).encode(), **more)


async def login(door: Door, token: str, **more: Any) -> tuple[str, Reply]:
    found = await sent(door, "/login", {"token": token}, **more)
    cookie = found.cookies[0].partition(";")[0] if found.cookies else ""
    return cookie, found


async def csrf_of(door: Door, cookie: str) -> str:
    page = await door.ask("GET", "/schedule?class=Box&key=eu%2F1&name=daily", headers={"cookie": cookie})
    found = re.search(rb'name="csrf" value="([0-9a-f]{64})"', page.body)
    assert found is not None, page.body[:2_000]
    return found[1].decode()


async def is_paused(door: Door) -> bool:
    found = await door.app.schedules(door.app.box, "eu/1").get("daily")  # type: ignore[attr-defined]
    return found.state == "paused"


async def test_a_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_never_get() -> None:
    async with doors() as door:
        token = await door.token("operate")
        assert (await door.ask("GET", "/")).status == 303  # to the login page
        cookie, found = await login(door, token)
        assert found.status == 303
        assert token not in str(found)
        flags = found.cookies[0].split("; ")[1:]
        assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} == set(flags)
        assert (await door.ask("GET", "/", headers={"cookie": cookie})).status == 200
        rows = await door.audit(has_refusals=False)
        assert (rows[0]["act"], rows[0]["outcome"]) == ("login", "done")
        assert token not in str(rows)
        assert cookie not in str(rows)


async def test_over_https_the_cookie_is_for_https_and_for_our_path_only() -> None:
    async with doors() as door:
        token = await door.token("read")
        headers = {"origin": "https://localhost:7420"}
        _, found = await login(door, token, scheme="https", headers=headers)
        assert "Secure" in found.cookies[0]
        _, mounted = await login_at_root(door, token)
        assert "Path=/ops" in mounted.cookies[0]


async def login_at_root(door: Door, token: str) -> tuple[str, Reply]:
    found = await door.ask(
        "POST", "/ops/login", headers=FORM | OWN, body=urlencode({"token": token}).encode(), root_path="/ops"
    )
    return "", found


async def test_a_form_needs_the_session_s_own_csrf_token() -> None:
    async with doors() as door:
        mine, _ = await login(door, await door.token("operate"))
        other, _ = await login(door, await door.token("operate"))
        fields = {"class": "Box", "key": "eu/1", "name": "daily"}
        for csrf in (None, "", "0" * 64, await csrf_of(door, other)):
            await door.world.advance(seconds=61)
            given = fields | ({} if csrf is None else {"csrf": csrf})
            found = await sent(door, PAUSE, given, mine)
            assert found.status in (401, 403), found.body
            assert (await door.refusals())[0][0] == "denied.csrf"
            assert not await is_paused(door)
        found = await sent(door, PAUSE, fields | {"csrf": await csrf_of(door, mine)}, mine)
        assert found.status == 303
        assert await is_paused(door)


async def test_a_form_of_another_site_is_refused_even_with_everything_in_it() -> None:
    async with doors() as door:
        mine, _ = await login(door, await door.token("operate"))
        fields = {"class": "Box", "key": "eu/1", "name": "daily", "csrf": await csrf_of(door, mine)}
        for headers in ({"origin": "http://evil.example"}, {"origin": "null"}):
            await door.world.advance(seconds=61)
            found = await sent(door, PAUSE, fields, mine, headers=headers)
            assert found.status == 403
            assert not await is_paused(door)
            assert (await door.refusals())[0][0] == "denied.site"
        found = await sent(door, "/login", {"token": "x"}, headers={"origin": "http://evil.example"})
        assert found.status == 403


async def test_a_session_dies_with_its_token() -> None:
    async with doors() as door:
        token = await door.token("read")
        cookie, _ = await login(door, token)
        await door.revoke(token)
        await door.world.advance(seconds=1)
        assert (await door.ask("GET", "/v1/objects", headers={"cookie": cookie})).code == "denied.revoked"
        short = await door.token("read", expires_ms=60_000)
        cookie, found = await login(door, short)
        assert "Max-Age=60" in found.cookies[0]
        await door.world.advance(seconds=61)
        assert (await door.ask("GET", "/v1/objects", headers={"cookie": cookie})).code == "denied.session"


async def test_a_session_ends_after_twelve_hours_or_at_logout() -> None:
    async with doors() as door:
        token = await door.token("operate")
        cookie, _ = await login(door, token)
        await door.world.advance(hours=11, minutes=59)
        assert (await door.ask("GET", "/v1/objects", headers={"cookie": cookie})).status == 200
        await door.world.advance(minutes=2)
        assert (await door.ask("GET", "/v1/objects", headers={"cookie": cookie})).code == "denied.session"
        cookie, _ = await login(door, token)
        csrf = await csrf_of(door, cookie)
        stays = await sent(door, "/logout", {}, cookie)
        assert stays.status in (401, 403)
        gone = await sent(door, "/logout", {"csrf": csrf}, cookie)
        assert gone.status == 303
        assert "Max-Age=0" in gone.cookies[0]
        assert (await door.ask("GET", "/v1/objects", headers={"cookie": cookie})).code == "denied.session"
        assert {row["act"] for row in await door.audit(has_refusals=False)} == {"login", "logout"}


async def test_what_is_at_rest_makes_no_session() -> None:
    """Whoever reads the store finds hashes: of the token, and of the session."""
    async with doors() as door:
        token = await door.token("admin")
        cookie, _ = await login(door, token)
        value = cookie.partition("=")[2]
        disk = str(door.world.store.inner.disk.rows)  # type: ignore[attr-defined]
        assert token[12:] not in disk
        assert value[9:] not in disk
        from wakeful.security.tokens import session_of

        session = await session_of(door.world.store, value[:8])
        assert session is not None
        forged = f"wakeful_session={session.id}_{session.hash[:43]}"
        assert (await door.ask("GET", "/v1/objects", headers={"cookie": forged})).code == "denied.session"
        for bad in ("wakeful_session=", "wakeful_session=a", f"{cookie}; {cookie}x", "wakeful_session=" + "a" * 52):
            found = await door.ask("GET", "/v1/objects", headers={"cookie": bad})
            assert found.status == 401, bad


async def test_wrong_tokens_make_the_next_try_wait() -> None:
    async with doors() as door:
        token = await door.token("read")
        for _ in range(5):
            assert (await login(door, "wk_wrong"))[1].status in (401, 403)
        for wait in (1, 2, 4, 8):
            _, slowed = await login(door, "wk_wrong")
            assert slowed.status == 429, slowed.body
            assert int(slowed.headers["retry-after"]) <= wait
            await door.world.advance(seconds=wait)
            assert (await login(door, "wk_wrong"))[1].status in (401, 403)
        await door.world.advance(seconds=16)
        cookie, _ = await login(door, token)
        assert cookie
        assert (await login(door, "wk_wrong"))[1].status in (401, 403)  # it has waited long enough
        assert (await login(door, "wk_wrong"))[1].status == 429  # that of another was right, which forgives nobody
        assert "denied.login" in {code for code, _ in await door.refusals()}


async def test_a_stranger_behind_the_same_proxy_locks_out_nobody_who_has_a_token() -> None:
    async with doors() as door:
        token = await door.token("read")
        for _ in range(40):
            await login(door, "wk_wrong")
            await door.world.advance(seconds=60)
        await login(door, "wk_wrong")
        assert (await login(door, "wk_wrong"))[1].status == 429
        cookie, _ = await login(door, token)  # nobody can guess one, so nobody has to wait with a right one
        assert cookie
        assert (await login(door, f"wk_abcdefgh_{'a' * 43}"))[1].status == 429
