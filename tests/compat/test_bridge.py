"""ASGI applications that answer for a Worker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.compat.test_sockets import Client
from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Request
from wakeful.compat.workers.wsgi import can_run_sync, run_sync


async def test_an_asgi_app_answers_for_a_worker(tmp_path: Path) -> None:
    code = """
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route
        from workers import DurableObject, asgi

        class Sample(DurableObject):
            async def add(self, n):
                total = (await self.ctx.storage.get("n") or 0) + n
                await self.ctx.storage.put("n", total)
                return total

        async def add(request):
            sample = request.scope["env"].SAMPLE.getByName(request.path_params["name"])
            return JSONResponse({"total": await sample.add(len(await request.body()))}, status_code=202)

        Default = asgi.entrypoint(Starlette(routes=[Route("/{name}", add, methods=["POST"])]))
    """
    async with played(write_worker(tmp_path, code)) as (worker, _):
        answer = await worker.fetch(Request("http://x/bob", method="POST", body="four"))
        assert (answer.status, await answer.json()) == (202, {"total": 4})
        assert (await worker.fetch(Request("http://x/bob"))).status == 405


async def test_an_asgi_app_gives_its_answer_in_parts_and_lives_around_the_request(tmp_path: Path) -> None:
    code = """
        import asyncio
        from contextlib import asynccontextmanager
        from starlette.applications import Starlette
        from starlette.responses import StreamingResponse
        from starlette.routing import Route
        from workers import DurableObject, WorkerEntrypoint, asgi

        class Sample(DurableObject):
            pass

        log = []

        @asynccontextmanager
        async def lifespan(app):
            log.append("up")
            yield {"who": "ann"}
            log.append("down")

        async def parts(request):
            async def made():
                for n in range(3):
                    await asyncio.sleep(1)
                    yield f"{request.state.who} {n} "
            return StreamingResponse(made())

        async def bare(scope, receive, send):
            if scope["type"] != "http":
                raise ValueError("knows of nothing else")
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"bare"})

        app = Starlette(routes=[Route("/", parts)], lifespan=lifespan)

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                return await asgi.fetch(bare if "bare" in request.url else app, request, self.env, self.ctx)
    """
    async with played(write_worker(tmp_path, code)) as (worker, world):
        assert await (await worker.fetch(Request("http://x/"))).text() == "ann 0 ann 1 ann 2 "
        await world.settle()
        assert worker.module.log == ["up", "down"]
        assert await (await worker.fetch(Request("http://x/bare"))).text() == "bare"


async def test_the_env_is_a_dependency_of_fastapi(tmp_path: Path) -> None:
    code = """
        import asgi
        from asgi import env
        from fastapi import FastAPI
        from workers import DurableObject

        class Sample(DurableObject):
            async def called(self):
                return self.ctx.id.name

        app = FastAPI()

        @app.get("/{name}")
        async def named(name: str, env=env):
            return {"name": await env.SAMPLE.getByName(name).called()}

        Default = asgi.entrypoint(app)
    """
    async with played(write_worker(tmp_path, code)) as (worker, _):
        assert await (await worker.fetch(Request("http://x/bob"))).json() == {"name": "bob"}


async def test_an_asgi_app_speaks_over_sockets(tmp_path: Path) -> None:
    code = """
        from fastapi import FastAPI, WebSocket, WebSocketDisconnect
        from workers import DurableObject, WorkerEntrypoint, asgi

        app, log = FastAPI(), []

        @app.websocket("/room/{name}")
        async def room(socket: WebSocket, name: str):
            if name == "closed":
                return await socket.close()
            await socket.accept(subprotocol="chat" if "chat" in socket.scope["subprotocols"] else None)
            try:
                while True:
                    said = await socket.receive()
                    if said["type"] == "websocket.disconnect":
                        log.append(said["code"])
                        return
                    if said.get("text") == "raise":
                        raise ValueError("no")
                    if said.get("text") == "end":
                        return await socket.close(4001, "over")
                    total = await socket.scope["env"].SAMPLE.getByName(name).add()
                    await (socket.send_text(f"{total} {said['text']}") if "text" in said else socket.send_bytes(said["bytes"]))
            except WebSocketDisconnect as error:
                log.append(error.code)

        class Sample(DurableObject):
            async def add(self):
                total = (await self.ctx.storage.get("n") or 0) + 1
                await self.ctx.storage.put("n", total)
                return total

            async def on_fetch(self, request):
                return await asgi.fetch(app, request, self.env, self.ctx)

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                if "object" in request.url:
                    return await self.env.SAMPLE.getByName("other").fetch(request)
                return await asgi.fetch(app, request, self.env, self.ctx)
    """
    async with played(write_worker(tmp_path, code)) as (worker, world):
        for path in ("/room/a", "/room/object"):
            client = Client(worker, path)
            assert (await client.hear())["type"] == "accept"
            client.say("hello")
            client.say(b"raw")
            assert [await client.hear(), await client.hear()] == ["1 hello", b"raw"]
            client.leave(4000, "bye")
            await client.task
            await world.settle()
        assert worker.module.log == [4000, 4000]
        client = Client(worker, "/room/a")
        await client.hear()
        client.say("end")
        assert await client.hear() == {"type": "close", "code": 4001, "reason": "over"}
        client.leave(4001, "over")
        await client.task
        client = Client(worker, "/room/a")
        await client.hear()
        client.say("raise")
        assert (await client.hear())["code"] == 1011
        client.leave(1011, "")
        await client.task
        refused = Client(worker, "/room/closed")
        assert (await refused.hear())["status"] == 403
        await refused.task


FLASK = """
    import asyncio
    from flask import Flask, Response, request
    from pyodide.ffi import run_sync
    from workers import DurableObject, WorkerEntrypoint, wsgi

    app, log = Flask(__name__), []

    @app.post("/add/<name>")
    def add(name):
        sample = request.environ["workers.env"].SAMPLE.getByName(name)
        return {"total": run_sync(sample.add(len(request.data))), "q": request.args["q"]}, 202

    @app.get("/parts")
    def parts():
        def made():
            try:
                for n in range(100):
                    run_sync(asyncio.sleep(1))
                    yield f"{n} "
            finally:
                log.append("end")
        return Response(made(), headers=[("set-cookie", "a=1"), ("set-cookie", "b=2")])

    @app.get("/raise")
    def fail():
        raise ValueError("of the app")

    class Sample(DurableObject):
        async def add(self, n):
            total = (await self.ctx.storage.get("n") or 0) + n
            await self.ctx.storage.put("n", total)
            return total

        async def fetch(self, request):
            def bare(environ, start):
                if "bad" in environ["PATH_INFO"]:
                    raise KeyError("of the app")
                self.ctx.storage.kv.put("k", 7)
                start("200 OK", [("content-type", "text/plain")])
                return [str(self.ctx.storage.kv.get("k")).encode(), str(run_sync(self.ctx.storage.get("k"))).encode()]
            return await wsgi.fetch(bare, request, self.env)

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if "object" in request.url:
                return await self.env.SAMPLE.getByName("o").fetch(request)
            return await wsgi.fetch(app, request, self.env)
"""


async def test_a_wsgi_app_answers_for_a_worker_and_waits_without_holding_others_up(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, FLASK)) as (worker, world):
        for total in (4, 8):
            answer = await worker.fetch(Request("http://x/add/bob?q=%20x", method="POST", body="four"))
            assert (answer.status, await answer.json()) == (202, {"q": " x", "total": total})
        answer = await worker.fetch(Request("http://x/parts"))
        assert answer.headers.getSetCookie() == ["a=1", "b=2"]
        reader: Any = answer.body.getReader()  # type: ignore[union-attr]
        began = world.now()
        others = asyncio.gather(*(worker.fetch(Request("http://x/parts")) for _ in range(5)))
        assert [(await reader.read()).value for _ in range(3)] == [b"0 ", b"1 ", b"2 "]
        await others
        assert (world.now() - began).total_seconds() < 4
        await reader.cancel()
        assert worker.module.log == ["end"]
        assert (await worker.fetch(Request("http://x/raise"))).status == 500
        assert await (await worker.fetch(Request("http://x/object"))).text() == "77"
        with pytest.raises(KeyError, match="of the app"):
            await worker.fetch(Request("http://x/object/bad"))


def test_what_waits_without_a_coroutine_says_where_it_can() -> None:
    with pytest.raises(Exception, match="for applications"):
        run_sync(None)
    assert not can_run_sync()
