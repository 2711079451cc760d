"""A Worker's fetch, its cron triggers, and what its env has."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.compat.workers_stage import WRANGLER, played, write_worker
from wakeful.compat.workers import Request
from wakeful.compat.workers.site import BODY_BYTES_MAX, WorkerSite
from wakeful.policy.shares import Shares

CODE = """
    import asyncio
    from urllib.parse import urlparse
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        async def note(self, text):
            await self.ctx.storage.put("notes", [*await self.notes(), text])
        async def notes(self):
            return await self.ctx.storage.get("notes") or []
        def fetch(self, request):
            return Response(f"{request.method} {urlparse(request.url).path}", headers={"x-by": self.ctx.id.name})

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            match urlparse(request.url).path:
                case "/echo":
                    return Response(await request.bytes(), headers=[("a", "1"), ("a", "2")])
                case "/said":
                    return Response("hello", headers={"content-length": "3", "transfer-encoding": "chunked", "date": "x"})
                case "/packed":
                    return Response("hello", headers={"content-encoding": "gzip"})
                case "/packed/here":
                    return Response(b"\\0packed", {"headers": {"content-encoding": "gzip"}, "encodeBody": "manual"})
                case "/unknown":
                    return Response("hello", headers={"content-encoding": "br"})
                case "/unchanged":
                    return Response(None, status=304)
                case "/raise":
                    raise ValueError("a secret")
                case "/nothing":
                    return "not a response"
                case "/later":
                    self.ctx.waitUntil(self.later())
                    return Response("soon")
                case "/cache":
                    return Response(str(self.env.CACHE))
                case "/unbound":
                    return Response(str(self.env.NOTHING))
            return await self.env.SAMPLE.getByName("o").fetch(request)

        async def later(self):
            await asyncio.sleep(5)
            await self.env.SAMPLE.getByName("o").note("later")

        async def scheduled(self, controller, env, ctx):
            at = controller.scheduledTime
            await env.SAMPLE.getByName("o").note(f"{controller.cron} {at // 60_000 % 60}")
            if controller.cron.startswith("*/7"):
                raise ValueError("nobody tries this again")
"""
CRONS = WRANGLER + '\n[[vectorize]]\nbinding = "CACHE"\n\n[triggers]\ncrons = ["*/20 * * * *", "*/7 * * * *"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE, CRONS)


async def test_requests_reach_the_worker_over_asgi(folder: Path) -> None:
    async with played(folder) as (worker, world):
        transport = httpx.ASGITransport(WorkerSite(worker))
        async with httpx.AsyncClient(transport=transport, base_url="http://there") as client:
            answer = await client.post("/echo?x=1", content=b"\0\1")
            assert (answer.content, answer.headers.get_list("a")) == (b"\0\1", ["1", "2"])
            answer = await client.get("/a%20b")
            assert (answer.text, answer.headers["x-by"]) == ("GET /a%20b", "o")
            assert (await client.head("/x")).headers["content-length"] == "7"
            for path in ("/raise", "/nothing"):
                answer = await client.get(path)
                assert answer.status_code == 500
                assert "secret" not in answer.text
            assert (await client.get("/later")).text == "soon"
            await world.advance("10s")
            assert await worker.env.SAMPLE.getByName("o").notes() == ["later"]


async def sent(folder: Path, path: str, *, method: str = "GET", events: list[Any] | None = None) -> list[Any]:
    """What the server is told to send."""
    told: list[Any] = []
    incoming = events or [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        told.append(message)

    async with played(folder) as (worker, _):
        await WorkerSite(worker)({"type": "http", "method": method, "path": path, "headers": []}, receive, send)
    return told


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/said", {b"content-length": b"5"}, b"hello"),
        ("/packed/here", {b"content-encoding": b"gzip", b"content-length": b"7"}, b"\0packed"),
        ("/unknown", {b"content-length": b"5"}, b"hello"),
        ("/unchanged", {}, b""),
    ],
)
async def test_what_the_server_says_itself_is_not_said_by_the_worker(
    folder: Path, path: str, headers: dict[bytes, bytes], body: bytes
) -> None:
    start, end = await sent(folder, path)
    assert {name: value for name, value in start["headers"] if name != b"content-type"} == headers
    assert end["body"] == body


async def test_a_body_is_packed_as_its_headers_promise(folder: Path) -> None:
    start, end = await sent(folder, "/packed")
    assert gzip.decompress(end["body"]) == b"hello"
    assert dict(start["headers"])[b"content-length"] == b"%d" % len(end["body"])
    start, end = await sent(folder, "/said", method="HEAD")
    assert (dict(start["headers"])[b"content-length"], end["body"]) == (b"5", b"")


async def test_a_part_of_a_body_is_not_taken_for_all_of_it(folder: Path) -> None:
    events = [{"type": "http.request", "body": b"transfer 1", "more_body": True}, {"type": "http.disconnect"}]
    assert await sent(folder, "/echo", method="POST", events=events) == []


async def test_too_large_a_body_is_refused(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sent: list[Any] = []
        chunk = {"type": "http.request", "body": b"x" * (BODY_BYTES_MAX // 2 + 1), "more_body": True}

        async def receive() -> Any:
            return chunk

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/echo", "headers": []}
        await WorkerSite(worker)(scope, receive, send)
        assert sent[0]["status"] == 413


async def test_bodies_are_bounded_in_sum(folder: Path) -> None:
    """Two that are still coming have most of the room; a third as large is told to come again, and may when they have ended."""
    async with played(folder) as (worker, _):
        site = WorkerSite(worker)
        site._bodies = Shares(1_000, few=10)

        async def ask(address: str, size: int, *, until: asyncio.Event | None = None) -> int:
            sent: list[Any] = []
            events = [{"type": "http.request", "body": b"x" * size, "more_body": until is not None}]

            async def receive() -> Any:
                if not events:
                    assert until is not None
                    await until.wait()
                    return {"type": "http.request", "body": b"", "more_body": False}
                return events.pop()

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "POST", "path": "/echo", "headers": [], "client": (address, 1)}
            await site(scope, receive, send)
            return int(sent[0]["status"])

        end = asyncio.Event()
        slow = [asyncio.create_task(ask(f"10.0.0.{number}", 250, until=end)) for number in range(2)]
        await asyncio.sleep(0)
        assert await ask("10.0.0.9", 250) == 503
        assert await ask("10.0.0.0", 300) == 503
        assert await ask("10.0.0.9", 100) == await ask("10.0.0.9", 0) == 200
        end.set()
        assert await asyncio.gather(*slow) == [200, 200]
        assert await ask("10.0.0.9", 250) == 200
        assert site._bodies.taken == 0


async def test_cron_triggers_fire_once_each_and_are_not_tried_again(folder: Path) -> None:
    async with played(folder, start="2026-03-01T11:58:00+00:00") as (worker, world):
        await world.advance("15m")
        notes = await worker.env.SAMPLE.getByName("o").notes()
        assert sorted(notes) == ["*/20 * * * * 0", "*/7 * * * * 0", "*/7 * * * * 7"]
        await world.crash()
        await world.restart(after="2h")  # what was missed is missed
        await world.advance("30s")
        assert len(await worker.env.SAMPLE.getByName("o").notes()) == 3


async def test_what_is_bound_and_not_here_says_so(folder: Path) -> None:
    async with played(folder) as (worker, _):
        with pytest.raises(NotImplementedError, match=r"env.CACHE is Vectorize"):
            await worker.fetch(Request("http://x/cache"))
        with pytest.raises(AttributeError, match=r"env has no 'NOTHING'; the wrangler file binds SAMPLE"):
            await worker.fetch(Request("http://x/unbound"))


async def test_the_older_form_with_functions_works(tmp_path: Path) -> None:
    code = """
        from js import Response
        from workers import DurableObject, handler

        class Sample(DurableObject):
            async def hello(self, to):
                return f"hello {to}"

        @handler
        async def on_fetch(request, env):
            return Response.new(await env.SAMPLE.getByName("x").hello(request.url[-1]))
    """
    async with played(write_worker(tmp_path, code)) as (worker, _):
        assert await (await worker.fetch(Request("http://x/y"))).text() == "hello y"


async def test_requests_and_responses_go_through_calls_and_variables_have_attributes(tmp_path: Path) -> None:
    code = """
        from workers import DurableObject, Request, Response, WorkerEntrypoint

        class Sample(DurableObject):
            async def answer(self, request, *, again):
                return Response(f"{request.method} {await request.text()} {again.url}", status=202, headers={"a": "b"})
            async def keep(self):
                await self.ctx.storage.put("k", Response("x"))

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                again = Request(self.env.PLACES.near[0])
                return await self.env.SAMPLE.getByName("x").answer(request, again=again)
    """
    folder = write_worker(tmp_path, code, WRANGLER + '\n[vars]\nPLACES = { near = ["http://n/"] }\n')
    async with played(folder) as (worker, _):
        answer = await worker.fetch(Request("http://x/", method="POST", body="hi"))
        assert (answer.status, answer.headers.get("a"), await answer.text()) == (202, "b", "POST hi http://n/")
        with pytest.raises(TypeError, match="not plain data"):
            await worker.env.SAMPLE.getByName("x").keep()


ASKED = """
    from workers import DurableObject, Response, WorkerEntrypoint

    fired = []

    class Sample(DurableObject):
        pass

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            return Response.json({"ip": request.headers.get("CF-Connecting-IP"), **request.cf.to_py()})

        async def scheduled(self, controller, env, ctx):
            fired.append((controller.cron, controller.scheduledTime))
            if controller.cron == "bad":
                raise ValueError("no such day")
"""


async def test_the_address_of_a_client_is_not_what_it_claims(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, ASKED)) as (worker, _):
        transport = httpx.ASGITransport(WorkerSite(worker), client=("203.0.113.7", 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
            found = (await client.get("/", headers={"CF-Connecting-IP": "10.0.0.1"})).json()
    assert found["ip"] == "203.0.113.7"
    assert (found["country"], found["httpProtocol"]) == ("XX", "HTTP/1.1")


async def test_cron_triggers_are_fired_by_hand_where_the_worker_is_tried_only(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, ASKED)) as (worker, _):
        tried, served = WorkerSite(worker, is_tried=True), WorkerSite(worker)
        fired = worker.module.fired
        async with httpx.AsyncClient(transport=httpx.ASGITransport(tried), base_url="http://shop.example") as client:
            first = await client.get("/cdn-cgi/handler/scheduled?cron=0+9+*+*+*&time=1745856238000")
            assert (first.status_code, fired) == (200, [("0 9 * * *", 1_745_856_238_000)])
            assert (await client.get("/__scheduled?time=soon")).status_code == 400
            assert (await client.get("/__scheduled?cron=bad")).status_code == 500
        async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://shop.example") as client:
            assert "ip" in (await client.get("/__scheduled")).json()
        assert len(fired) == 2


async def test_a_binding_that_is_not_here_is_honestly_absent(tmp_path: Path) -> None:
    wrangler = WRANGLER + '\n[[vectorize]]\nbinding = "CACHE"\n\n[[containers]]\nclass_name = "q"\n'
    async with played(write_worker(tmp_path, ASKED, wrangler)) as (worker, _):
        assert not hasattr(worker.env, "CACHE")
        assert getattr(worker.env, "CACHE", None) is None
        with pytest.raises(NotImplementedError, match="Vectorize"):
            worker.env.CACHE  # noqa: B018
        (idle,) = worker.config.idle
        assert idle.startswith("containers")
