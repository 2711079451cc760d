"""A relay swallows the answer to one insert and cuts that connection, while the job runs: it runs once all the same."""

import asyncio
import time
from typing import Any

import pytest

from tests.live.proxy import Proxy
from tests.live.test_cluster_frozen import socket_of, through
from wakeful import App, DurableObject, JobSpec

MARK = "the-one-whose-answer-is-lost"
CUT_AFTER_S = 2.0  # by then the job has run, and its timer is gone
END_S = 180.0


class Swallowing(Proxy):
    """Passes everything, but for what the server says to the first connection on which the mark was sent."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path
        self.swallowed = 0

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._path)
        is_mute = False

        async def outward() -> None:
            nonlocal is_mute
            while data := await reader.read(65_536):
                if MARK.encode() in data and not self.swallowed:
                    self.swallowed, is_mute = 1, True
                    asyncio.get_running_loop().call_later(CUT_AFTER_S, writer.close)
                back.write(data)

        async def homeward() -> None:
            while data := await there.read(65_536):
                if not is_mute:
                    writer.write(data)

        ways = [asyncio.create_task(outward()), asyncio.create_task(homeward())]
        self._tasks.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.close()


@pytest.mark.parametrize("way", ["one", "keyed", "many"])
async def test_a_job_whose_insert_was_not_answered_runs_once(postgres_schema_url: str, way: str) -> None:
    """`schedule()` returned, and the job ran twice."""
    ran: list[str] = []
    has_run = asyncio.Event()
    app = App()

    @app.object
    class Till(DurableObject):
        async def work(self, text: str) -> None:
            ran.append(text)
            if text == MARK:
                has_run.set()

    relay = Swallowing(socket_of(postgres_schema_url))
    await relay.start()
    try:
        async with app.run(through(postgres_schema_url, relay.port)):
            stub: Any = app.get(Till, "a")
            began = time.monotonic()
            if way == "many":
                await app.jobs.schedule_many([JobSpec(stub.work, (text,)) for text in (MARK, "beside")])
            else:
                await app.jobs.schedule(stub.work, MARK, key="k" if way == "keyed" else None)
            assert relay.swallowed
            assert time.monotonic() - began >= CUT_AFTER_S
            await asyncio.wait_for(has_run.wait(), END_S)
            await asyncio.sleep(2)  # for one that should not come
            assert sorted(ran) == sorted([MARK, "beside"] if way == "many" else [MARK])
    finally:
        await relay.close()
