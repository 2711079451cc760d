"""The demo as a process: `town.py FILE.db [token NAME SCOPES]…` lives ten minutes, serves, and says where in one line.

It ends when its standard input does. Under /ops the same is served once more, as a part of somebody's own application.
"""

import asyncio
import importlib.util
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from wakeful.security.tokens import ALL, PREFIX, new_secret
from wakeful.server.serving import bind, serving

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
PAST = timedelta(minutes=10)


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    return module


async def made(node: Any, name: str, scopes: str) -> str:
    """A token, as `wakeful tokens create` makes it."""
    text, id, hashed = new_secret(PREFIX, lambda size: (f"{name}-secret-" * size).encode()[:size])
    fields = {"id": id, "name": name, "hash": hashed, "scopes": scopes.split(","), "created_by": "test"}
    await node.send(ALL, "create", (fields | {"created_at": node.clock.now()},), {})
    return text


async def main(file: str, tokens: list[str]) -> None:
    demo = loaded()
    async with demo.app.world(store=f"sqlite:{file}", start=datetime.now(UTC) - PAST) as world:
        await demo.on_start(demo.app)
        await world.advance(minutes=10)
    async with demo.app.run(f"sqlite:{file}") as node:
        given = {name: await made(node, name, scopes) for name, scopes in (one.split("=") for one in tokens)}
        async with serving(demo.app, node, "127.0.0.1:0") as served:
            around = Starlette(routes=[Mount("/ops", app=demo.app.asgi(gate=served.site.gate))])
            outer = uvicorn.Server(uvicorn.Config(around, log_level="error", lifespan="off"))
            place = bind("127.0.0.1", 0)
            place.listen()  # so that who is told of it below can come at once
            ends = asyncio.ensure_future(outer.serve(sockets=[place]))
            ops = f"http://127.0.0.1:{place.getsockname()[1]}/ops"
            print(json.dumps({"url": served.url, "ops": ops, "tokens": given}), flush=True)
            await asyncio.to_thread(sys.stdin.read)
            outer.should_exit = outer.force_exit = True
            await ends


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
