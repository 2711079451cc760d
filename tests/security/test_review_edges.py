"""What a second pair of eyes found at the edges: what leaks, what lasts too long, what pushes out what."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from tests.security.stage_security import HERE, HOST, Door, program
from wakeful import App, DurableObject, Socket
from wakeful.sockets.socket import SocketRequest


@asynccontextmanager
async def doors(app: App | None = None, **options: Any) -> AsyncIterator[Door]:
    app = app or program(**options)
    async with app.world() as world:
        yield Door(app, world)


@pytest.mark.parametrize("path", ["/v1/parked/{}", "/parked/one?number={}"])
async def test_a_number_of_another_tenant_is_as_unknown_as_one_that_is_not_there(path: str) -> None:
    async with doors() as door:
        await door.object("us/hidden-name")
        await door.world.advance(days=3)
        number = (await door.world.parked())[0].number
        bound = await door.token("operate", tenant="eu/")
        theirs = await door.ask("GET", path.format(number), token=bound)
        nobodys = await door.ask("GET", path.format(99_999), token=bound)
        assert (theirs.status, nobodys.status) == (404, 404)
        assert "hidden-name" not in theirs.body.decode()
        assert re.sub(r"\d+", "N", theirs.body.decode()) == re.sub(r"\d+", "N", nobodys.body.decode())
        assert (await door.refusals())[0][0] == "parked.unknown"
        assert (await door.ask("GET", path.format(number), token=await door.token("read"))).status == 200


@pytest.mark.parametrize("name", ["path", "request", "self", "query", "said"])
async def test_a_page_bears_any_parameter_in_its_address(name: str) -> None:
    async with doors() as door:
        assert (await door.ask("GET", f"/?{name}=1")).status == 200
        assert (await door.ask("GET", f"/jobs?{name}=1")).status == 200


@pytest.mark.parametrize("path", ["/objects?class=%00", "/schedules?tag=a%00b", "/?cursor=%00", "/search?q=%00"])
async def test_a_page_asks_no_store_for_a_nul(path: str) -> None:
    async with doors() as door:
        assert (await door.ask("GET", path)).status == 400
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert (await door.ask("POST", "/job/cancel", headers=form, body=b"id=%00")).status == 400


@pytest.mark.parametrize("method", ["inside", "_private", "alarm", "schedules.add"])
async def test_who_schedules_what_is_not_for_callers_leaves_an_audit_row(method: str) -> None:
    async with doors() as door:
        await door.object("eu/1")
        token = await door.token("operate")
        path = "/v1/objects/Box/eu%2F1/schedules/mine"
        body = b'{"spec": "every 1h", "handler": "%s"}' % method.encode()
        found = await door.ask("PUT", path, token=token, body=body)
        assert found.status in (400, 404)
        assert [code for code, _ in await door.refusals()] == [found.code]
        await door.world.advance(seconds=61)
        body = b'{"spec": "every 1h", "on_missed": "%s"}' % method.encode()
        found = await door.ask("POST", "/v1/objects/Box/eu%2F1/schedules/daily/reschedule", token=token, body=body)
        assert found.status in (400, 404)
        assert [code for code, _ in await door.refusals()] == [found.code] * 2


async def test_callers_and_visitors_push_no_act_of_an_operator_out_of_the_audit_rows() -> None:
    from wakeful import Limits

    async with doors(limits=Limits(audit_rows=3)) as door:
        await door.object("eu/1")
        operator, caller = await door.token("operate", name="ops"), await door.token("call", tenant="eu/")
        assert (await door.ask("POST", "/v1/objects/Box/eu%2F1/schedules/daily/pause", token=operator)).status == 200
        job = await door.app.jobs.schedule(door.app.get(door.app.box, "eu/1").put, "x", after="1h")  # type: ignore[attr-defined]
        cancel = f"/v1/jobs/{quote(job.id, safe='')}/cancel"
        assert (await door.ask("POST", cancel, token=caller)).json["cancelled"] is True
        for _ in range(6):
            assert (await door.ask("POST", cancel, token=caller)).json["cancelled"] is False
            form = {"content-type": "application/x-www-form-urlencoded"}
            found = await door.ask("POST", "/login", headers=form, body=f"token={caller}".encode())
            assert found.status == 303
        acts = [row["act"] for row in await door.audit(has_refusals=False)]
        assert acts.count("login") == 3
        assert "schedule.pause" in acts
        assert (await door.ask("POST", cancel, token=operator)).status == 403  # cancelling is a call's business
        both = await door.token("operate,call")
        assert (await door.ask("POST", cancel, token=both)).status == 200
        assert (await door.audit())[0]["act"] == "job.cancel"


class Line:
    """One connection that lasts, seen from the server."""

    def __init__(self, kind: str, path: str, token: str | None, cookie: str = "", **scope: Any) -> None:
        sent = {"host": HOST} | ({"authorization": f"Bearer {token}"} if token else {})
        sent |= {"cookie": cookie} if cookie else {}
        self.scope = {
            "type": kind,
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http" if kind == "http" else "ws",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": HERE,
            "server": ("127.0.0.1", 7420),
            "subprotocols": [],
            **scope,
        }
        self.came: list[Any] = []
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        if kind == "websocket":
            self._incoming.put_nowait({"type": "websocket.connect"})

    def begin(self, door: Door) -> "asyncio.Task[None]":
        return asyncio.ensure_future(door.site(self.scope, self._incoming.get, self._send))  # type: ignore[arg-type]

    async def _send(self, message: Any) -> None:
        self.came.append(message)
        if message["type"] == "websocket.close":
            self._incoming.put_nowait({"type": "websocket.disconnect", "code": message["code"]})


def sockets_program() -> App:
    app = program()

    @app.object
    class Room(DurableObject):
        async def on_connect(self, socket: Socket, request: SocketRequest) -> None:
            await self.storage.put("headers", dict(request.headers))

        async def on_message(self, socket: Socket, message: str | bytes) -> None: ...

        async def headers(self) -> dict[str, str]:
            found: dict[str, str] = await self.storage.get("headers")
            return found

    app.room = Room  # type: ignore[attr-defined]
    return app


@pytest.mark.parametrize("how", ["revoked", "expired"])
@pytest.mark.parametrize(("kind", "path"), [("http", "/v1/events"), ("websocket", "/v1/objects/Room/eu%2F1/socket")])
async def test_what_was_opened_with_a_token_ends_with_it(kind: str, path: str, how: str) -> None:
    async with doors(sockets_program()) as door:
        token = await door.token("call,read", expires_ms=30_000 if how == "expired" else None)
        other = await door.token("call,read")
        line, stays = Line(kind, path, token), Line(kind, path, other)
        task, lasting = line.begin(door), stays.begin(door)
        await door.world.advance(seconds=10)
        assert not task.done()
        assert line.came[0].get("status", 200) == 200
        assert line.came[0]["type"] in ("http.response.start", "websocket.accept")
        if how == "revoked":
            await door.revoke(token)
        await door.world.advance(seconds=5 if how == "revoked" else 25)
        await asyncio.wait_for(task, 5)
        if kind == "websocket":
            assert (line.came[-1]["type"], line.came[-1]["code"]) == ("websocket.close", 1008)
        else:
            assert line.came[-1]["more_body"] is False
        assert not lasting.done()
        lasting.cancel()
        await asyncio.gather(lasting, return_exceptions=True)


async def test_an_object_is_not_told_the_session_of_who_connects() -> None:
    async with doors(sockets_program()) as door:
        token = await door.token("call,read")
        form = {"content-type": "application/x-www-form-urlencoded"}
        found = await door.ask("POST", "/login", headers=form, body=f"token={token}".encode())
        session = found.cookies[0].partition(";")[0]
        line = Line("websocket", "/v1/objects/Room/eu%2F1/socket", None, cookie=f"theme=dark; {session}; a=b")
        task = line.begin(door)
        await door.world.advance(seconds=1)
        assert line.came[0]["type"] == "websocket.accept"
        headers = await door.app.get(door.app.room, "eu/1").headers()  # type: ignore[attr-defined]
        assert headers["cookie"] == "theme=dark; a=b"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "field", ['"at": "{}"', '"spec": "every 1h", "start_at": "{}"', '"spec": "every 1h", "end_at": "{}"']
)
async def test_a_time_before_all_times_is_refused_in_words(field: str) -> None:
    async with doors() as door:
        await door.object("eu/1")
        body = '{"handler": "fails", ' + field.format("0001-01-01T00:00:00+14:00") + "}"
        found = await door.ask("PUT", "/v1/objects/Box/eu%2F1/schedules/mine", body=body.encode())
        assert (found.status, found.code) == (422, "time.early")
        path = "/v1/objects/Box/eu%2F1/schedules/daily/backfill"
        body = '{"start": "0001-01-01T00:00:00+14:00", "end": "2026-01-01T00:00:00Z", "dry_run": true}'
        assert (await door.ask("POST", path, body=body.encode())).code == "time.early"


async def test_the_loop_goes_on_while_a_long_backfill_is_looked_at() -> None:
    """Whoever previews thousands of years must not keep timers waiting for it."""
    async with doors() as door:
        await door.object("eu/1")
        body = b'{"start": "0001-01-01T00:00:00Z", "end": "9999-01-01T00:00:00Z", "dry_run": true}'
        asked = asyncio.ensure_future(
            door.ask("POST", "/v1/objects/Box/eu%2F1/schedules/daily/backfill", body=body),
        )
        passes = 0
        while not asked.done():
            await asyncio.sleep(0)
            passes += 1
        assert asked.result().code == "limit.backfill"
        assert passes > 200


async def test_nobody_ends_the_sessions_of_others_by_logging_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from wakeful.security import tokens

    monkeypatch.setattr(tokens, "SESSIONS_EACH_MAX", 3)
    monkeypatch.setattr(tokens, "SESSIONS_MAX", 5)
    async with doors() as door:
        cookies = []
        ops, flood = await door.token("read"), await door.token("read")
        for token in [ops] + [flood] * 6:
            await door.world.advance(seconds=1)
            form = {"content-type": "application/x-www-form-urlencoded"}
            found = await door.ask("POST", "/login", headers=form, body=f"token={token}".encode())
            cookies.append(found.cookies[0].partition(";")[0])
        alive = [(await door.ask("GET", "/", headers={"cookie": cookie})).status for cookie in cookies]
        assert alive == [200, 303, 303, 303, 200, 200, 200]


async def test_a_tenant_is_not_told_where_the_store_is() -> None:
    async with doors() as door:
        url = door.world.node.store.url
        bound, whole = await door.token("read", tenant="eu/"), await door.token("read")
        assert url in (await door.ask("GET", "/", token=whole)).body.decode()
        assert url not in (await door.ask("GET", "/", token=bound)).body.decode()


async def test_a_tenant_finds_its_own_behind_any_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search looks at is bounded, and what may not be shown must not use that up."""
    from wakeful.views import pages

    monkeypatch.setattr(pages, "LOOKS_MAX", 5)
    async with doors() as door:
        for key in [f"eu/{number}" for number in range(40)] + ["us/25", "us/needle-25"]:
            await door.app.get(door.app.box, key).put("x")  # type: ignore[attr-defined]
        bound = await door.token("read", tenant="us/")
        for text, wanted in {
            "needle": ["us/needle-25"],
            "25": ["us/25", "us/needle-25"],
            "us/2": ["us/25"],
            "u": ["us/25", "us/needle-25"],
            "Box/us/2": ["us/25"],
            "Box/": ["us/25", "us/needle-25"],
            "eu/2": [],
            "Box/eu/25": [],
        }.items():
            found = await door.ask("GET", f"/v1/search?limit=3&q={quote(text, safe='')}", token=bound)
            assert [row["key"] for row in found.json["rows"]] == wanted, text


async def test_pages_are_shown_a_few_at_a_time_and_what_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds the loop for milliseconds, and a flood of them must not keep timers waiting."""
    from starlette.responses import Response

    from wakeful.dashboard import due, visits

    active, most = 0, 0

    async def page(visit: Any) -> Response:
        nonlocal active, most
        active += 1
        most = max(most, active)
        for _ in range(5):
            await asyncio.sleep(0)
        active -= 1
        return Response("shown")

    monkeypatch.setattr(due, "page", page)
    monkeypatch.setattr(visits, "WAITING_MAX", 6)
    async with doors() as door:
        await door.ask("GET", "/")
        found = await asyncio.gather(*[door.ask("GET", "/") for _ in range(8)])
        # All of one asker, who gets seven eighths of seven eighths of six places: the rest is for others.
        assert sorted(one.status for one in found) == [200] * 4 + [429] * 4
        assert most == visits.PAGES_AT_ONCE
        assert (await door.ask("GET", "/")).status == 200


async def test_what_this_machine_opened_without_a_token_ends_with_the_first_token() -> None:
    async with doors() as door:
        line = Line("http", "/v1/events", None)
        task = line.begin(door)
        await door.world.advance(seconds=10)
        assert not task.done()
        await door.token("read")
        await door.world.advance(seconds=5)
        await asyncio.wait_for(task, 5)
        assert line.came[-1]["more_body"] is False
