"""Service bindings and `ctx.exports`: a Worker calls another of the program, and entrypoints of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import WRANGLER, write_worker
from wakeful.compat.workers import Request, WorkersApp, load

SHOP = """
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        async def greet(self, name):
            return await self.ctx.exports.Greeter.greet(name)

    class Greeter(WorkerEntrypoint):
        made = 0

        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            Greeter.made += 1

        async def greet(self, name, **more):
            return {"text": f"{self.ctx.props.get('word', 'hello')} {name}", **more}

        async def change(self, given):
            given["n"] = 2
            return given

        async def fails(self):
            raise LookupError("no such thing")

        async def _hidden(self):
            return "seen"

        def fetch(self, request):
            return Response(f"greeter {request.url}")

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if "/by/" in request.url:
                return await self.ctx.exports.Greeter.fetch(request)
            return Response("default")
        async def deep(self):
            return await self.ctx.exports.Sample.getByName("o").greet("deep")
"""
SERVICES = """
[[services]]
binding = "SELF"
service = "sample"

[[services]]
binding = "GREETER"
service = "sample"
entrypoint = "Greeter"
props = { word = "good morning" }

[[services]]
binding = "FRONT"
service = "front"
"""
FRONT = """
name = "front"
main = "entry.py"

[[services]]
binding = "SHOP"
service = "sample"
entrypoint = "Greeter"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    return write_worker(tmp_path / "shop", SHOP, WRANGLER + SERVICES)


async def test_methods_and_requests_reach_entrypoints(folder: Path) -> None:
    worker = load(folder)
    async with worker.app.world():
        env: Any = worker.env
        told = await env.GREETER.greet("ann", x=1)
        assert (told.text, told.x, told.to_py()) == ("good morning ann", 1, {"text": "good morning ann", "x": 1})
        mine = {"n": 1}
        assert await env.GREETER.change(mine) == {"n": 2}
        assert mine == {"n": 1}, "what is given is copied"
        assert worker.module.Greeter.made == 2, "a new instance for each call"
        assert await (await env.GREETER.fetch("http://x/y")).text() == "greeter http://x/y"
        assert await (await env.SELF.fetch(Request("http://x/"))).text() == "default"
        assert await env.SELF.deep() == {"text": "hello deep"}
        assert await (await worker.fetch(Request("http://x/by/"))).text() == "greeter http://x/by/"
        assert (await worker.exports.Greeter(props={"word": "bye"}).greet("bob")).text == "bye bob"
        assert await (await worker.exports.default.fetch("http://x/")).text() == "default"
        with pytest.raises(LookupError, match="no such thing"):
            await env.GREETER.fails()
        for name in ("nothing", "ctx", "scheduled"):
            with pytest.raises(TypeError, match=f'does not implement the method "{name}"'):
                await getattr(env.GREETER, name)()
        with pytest.raises(AttributeError):
            _ = env.GREETER._hidden
        with pytest.raises(TypeError, match="data"):
            await env.GREETER.change({"n": object()})
        with pytest.raises(AttributeError, match="there are Default, Greeter, Sample, default"):
            _ = worker.exports.Nothing
    worker.unload()


async def test_a_worker_that_is_not_there_is_named_until_it_is(folder: Path, tmp_path: Path) -> None:
    app = WorkersApp()
    worker = load(folder, app=app)
    assert worker.missing == {"FRONT": "the Worker front"}
    (tmp_path / "front").mkdir()
    async with app.world():
        with pytest.raises(NotImplementedError, match=r"env.FRONT is the Worker front, which is not in this program"):
            worker.env.FRONT.fetch("http://x/")
    code = """
        from workers import Response, WorkerEntrypoint

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                return Response((await self.env.SHOP.greet("front")).text)
    """
    front = load(write_worker(tmp_path / "front", code, FRONT), app=app)
    assert worker.missing == {}
    async with app.world():
        assert await (await worker.env.FRONT.fetch("http://x/")).text() == "hello front"
    with pytest.raises(Exception, match="the program has another Worker called front"):
        load(tmp_path / "front", app=app)
    front.unload()
    assert worker.missing == {"FRONT": "the Worker front"}
    worker.unload()


def test_a_service_without_a_name_is_refused(folder: Path) -> None:
    write_worker(folder, SHOP, WRANGLER + '[[services]]\nbinding = "X"\n')
    with pytest.raises(Exception, match="X has no `service`"):
        load(folder)
