"""ASGI applications that answer for a Worker."""

from pathlib import Path

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Request


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
