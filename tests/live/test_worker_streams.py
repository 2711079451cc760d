"""Streams of a Worker over a real server: a client that reads slowly, and one that hangs up."""

import asyncio
from pathlib import Path

from tests.compat.workers_stage import write_worker
from tests.yardstick import PATIENCE_S
from wakeful.compat.workers import load
from wakeful.compat.workers.site import serving

CODE = """
import asyncio
from workers import DurableObject, Response, WorkerEntrypoint

made = []

class Sample(DurableObject):
    async def fetch(self, request):
        async def blocks():
            try:
                while True:
                    made.append(1)
                    yield b"x" * 65_536
            finally:
                made.append("end")
        return Response(blocks())

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await self.env.SAMPLE.getByName("one").fetch(request)
"""


async def test_a_slow_client_holds_the_generator_and_one_that_hangs_up_ends_it(tmp_path: Path) -> None:
    worker = load(write_worker(tmp_path, CODE))
    made = worker.module.made
    async with worker.app.run("memory:"), serving(worker, "127.0.0.1:0") as url, asyncio.timeout(PATIENCE_S):
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=65_536)
        writer.write(b"GET / HTTP/1.1\r\nhost: there\r\n\r\n")
        assert b"200" in await reader.readline()
        seen = -1
        while len(made) != seen:  # until all buffers between the two are full
            seen = len(made)
            await asyncio.sleep(0.3)
        assert seen < 1_000
        assert "end" not in made
        for _ in range(200):
            await reader.readexactly(65_536)
        while len(made) == seen:  # noqa: ASYNC110  what is looked at is in the Worker
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while made[-1] != "end":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    worker.unload()
