"""`wakeful dev --workers`: a Worker served by a real process, which reloads and keeps its data."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.yardstick import PATIENCE_S

WRANGLER = """
{ // of a test
  "name": "live", "main": "entry.py", "compatibility_date": "2026-03-01",
  "durable_objects": { "bindings": [{ "name": "COUNTERS", "class_name": "Counter" },
    { "name": "PAYERS", "class_name": "Payer" }] },
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Order" }],
}
"""
CODE = """
import asyncio, time
from workers import DurableObject, Response, WorkerEntrypoint, WorkflowEntrypoint

class Counter(DurableObject):
    async def fetch(self, request):
        value = (await self.ctx.storage.get("value") or 0) + STEP
        self.ctx.storage.put("value", value)
        self.ctx.storage.setAlarm(int(time.time() * 1000) + 100)
        return Response.json([value, await self.ctx.storage.get("rung") or 0])

    async def alarm(self):
        self.ctx.storage.put("rung", (await self.ctx.storage.get("rung") or 0) + 1)

class Payer(DurableObject):
    async def fetch(self, request):
        if "look" in request.url:
            return Response.json([await self.ctx.storage.get("paid")])
        self.ctx.storage.put("paid", 1)
        await self.env.COUNTERS.getByName("one").fetch(request)
        await asyncio.sleep(600)

BEGUN = []

class Order(WorkflowEntrypoint):
    async def run(self, event, step):
        async def count():
            return (await (await self.env.COUNTERS.getByName("two").fetch("http://x/")).json())[0]

        async def slow():
            n = await count()
            BEGUN.append(n)
            await asyncio.sleep(600 if n == 2 else 0)
            return n

        return [await step.do("first", count), await step.do("slow", slow), await step.do("last", count)]

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if "order" in request.url:
            await self.env.ORDERS.create_batch([{"id": "one"}])
            told = await (await self.env.ORDERS.get("one")).status()
            return Response.json([told.output, *BEGUN])
        if "pay" in request.url:
            return await self.env.PAYERS.getByName("one").fetch(request)
        return await self.env.COUNTERS.getByName("one").fetch(request)
"""


class Served:
    """The command, and what it says."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "wakeful.cli", "dev", "--workers", str(folder), "--json"]
        command += ["--workers-http", "127.0.0.1:0", "--store", f"sqlite:{folder}/objects.db"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def told(self, event: str) -> dict[str, str]:
        """The next event of that kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line) if line.startswith("{") else {}
            if found.get("event") == event:
                return found
        raise AssertionError(f"it ended without {event!r}")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(CODE.replace("STEP", "1"))
    found = Served(tmp_path)
    yield found
    if found.process.poll() is None:
        os.kill(found.process.pid, signal.SIGTERM)
    found.process.wait(PATIENCE_S)
    assert found.process.stdout is not None
    found.process.stdout.close()


def asked(url: str) -> list[int]:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        found: list[int] = json.loads(answer.read())
        return found


def test_a_worker_is_served_reloaded_and_keeps_its_data(served: Served, tmp_path: Path) -> None:
    url = served.told("worker")["url"]
    assert asked(url) == [1, 0]
    give_up_at = time.monotonic() + PATIENCE_S
    while asked(url)[1] == 0:  # an alarm of a real clock
        assert time.monotonic() < give_up_at
        time.sleep(0.3)
    before = asked(url)[0]
    (tmp_path / "entry.py").write_text(CODE.replace("STEP", "1000"))
    served.told("reload")
    url = served.told("worker")["url"]
    assert asked(url)[0] == before + 1000
    (tmp_path / "entry.py").write_text("this is no Python")
    served.told("error")
    (tmp_path / "entry.py").write_text(CODE.replace("STEP", "1"))
    url = served.told("worker")["url"]
    assert asked(url)[0] == before + 1001
    os.kill(served.process.pid, signal.SIGTERM)
    assert served.process.wait(PATIENCE_S) == 0


def _wait_for(url: str, wanted: list[Any]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while (found := asked(url)) != wanted:
        assert time.monotonic() < give_up_at, found
        time.sleep(0.1)


def test_a_workflow_goes_on_where_a_kill_met_it(served: Served, tmp_path: Path) -> None:
    url = served.told("worker")["url"]
    pid = int(served.told("ready")["pid"])
    _wait_for(f"{url}/order", [None, 2])  # its second step is at work
    served.process.kill()
    os.kill(pid, signal.SIGKILL)
    served.process.wait(PATIENCE_S)
    again = Served(tmp_path)
    try:
        _wait_for(f"{again.told('worker')['url']}/order", [[1, 3, 4], 3])  # the first one was not done again
    finally:
        again.process.terminate()
        again.process.wait(PATIENCE_S)
        assert again.process.stdout is not None
        again.process.stdout.close()


def test_what_was_put_before_an_effect_outlives_a_kill_before_the_end_of_its_event(
    served: Served, tmp_path: Path
) -> None:
    url = served.told("worker")["url"]
    pid = int(served.told("ready")["pid"])
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(f"{url}/pay", timeout=2)  # its event goes on
    assert asked(url)[0] == 2, "it was charged"
    served.process.kill()  # who starts it anew
    os.kill(pid, signal.SIGKILL)
    served.process.wait(PATIENCE_S)
    again = Served(tmp_path)
    try:
        url = again.told("worker")["url"]
        assert asked(f"{url}/pay/look") == [1], "charged, and not marked as paid"
        assert asked(url)[0] == 3
    finally:
        again.process.terminate()
        again.process.wait(PATIENCE_S)
        assert again.process.stdout is not None
        again.process.stdout.close()
