"""`wakeful run --processes`: several nodes behind one port and one parent, under kills, replacement and broken programs."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import Member, fetch, until
from tests.live.harness import PATIENCE_S
from tests.live.test_deploy import free_port
from tests.telemetry.prometheus_text import parse
from wakeful import Client

PROGRAM = """
import asyncio, os
from wakeful import App, DurableObject

app = App()


@app.object
class Tally(DurableObject):
    async def add(self) -> int:
        count = (await self.storage.get("count") or 0) + 1
        await self.storage.put("count", count)
        return count

    async def hold(self, seconds: float) -> int:
        await asyncio.sleep(seconds)
        return await self.add()

    async def version(self) -> list[int]:
        return [VERSION, os.getpid()]


VERSION = 1
"""


class Family(Member):
    """The parent; what its processes say is heard too."""

    def __init__(self, url: str, program: Path, count: int, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.program = program
        self.count = count
        super().__init__(
            url, "--processes", str(count), "--http", f"127.0.0.1:{self.port}", *options, program=str(program)
        )

    def heard(self, kind: str) -> list[dict[str, Any]]:
        with self._heard:
            return [event[1] for event in self.events if event[0] == kind]

    async def all_ready(self) -> None:
        """Until it says so, and each of them too: their lines may come in another order."""

        def is_so() -> bool:
            assert self._process.poll() is None, self.tail()
            return bool(self.heard("running")) and len(self.pids) == self.count

        await until(is_so, "all to be ready")

    @property
    def pids(self) -> dict[int, int]:
        """By number: who has it now."""
        return {one["process"]: one["pid"] for one in self.heard("ready")}


@contextmanager
def family(url: str, folder: Path, count: int, *options: str, text: str = PROGRAM) -> Iterator[Family]:
    program = folder / "tallies.py"
    program.write_text(text)
    made = Family(url, program, count, *options)
    try:
        yield made
    finally:
        pids = made.pids
        made.close()
        assert _gone(pids.values()), "processes outlive their parent"


def _gone(pids: Any, timeout_s: float = PATIENCE_S) -> bool:
    """They end, all of them."""
    end = time.monotonic() + timeout_s
    while any(_lives(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def spread(client: Client, wanted: set[tuple[int, int]]) -> None:
    """Until objects live in each of these processes, by version and pid, and in no other."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = {tuple(await client.get("Tally", f"p{number}").version()) for number in range(24)}
        if found == wanted:
            return
        assert time.monotonic() < end, f"{found}, not {wanted}"


async def test_a_kill_and_a_replacement_of_all_lose_and_double_nothing(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    url = postgres_schema_url
    with family(url, tmp_path, 2) as parent:
        await parent.all_ready()
        first = parent.pids
        acked: Counter[str] = Counter()
        stop = asyncio.Event()

        async with Client(parent.url) as client:

            async def add(number: int) -> None:
                while not stop.is_set():
                    key = f"k{number}-{acked.total() % 7}"
                    await client.get("Tally", key).add()
                    acked[key] += 1

            adding = [asyncio.create_task(add(number)) for number in range(4)]
            await until(lambda: acked.total() > 40, "calls")
            assert {(await client.get("Tally", f"p{number}").version())[1] for number in range(24)} == set(
                first.values()
            )

            os.kill(first[2], signal.SIGKILL)
            await until(lambda: parent.pids[2] != first[2], "another process in its place")
            assert "SIGKILL" in parent.heard("error")[0]["text"]

            parent.program.write_text(PROGRAM.replace("VERSION = 1", "VERSION = 2"))
            parent.send_signal(signal.SIGHUP)
            await until(
                lambda: any("all 2 processes are new" in one["text"] for one in parent.heard("reload")), "new ones"
            )
            stop.set()
            await asyncio.gather(*adding)  # not one of them failed
            assert not set(parent.pids.values()) & set(first.values())
            await spread(client, {(2, pid) for pid in parent.pids.values()})

            # One page for both, whichever of them is asked.
            page = parse(await asyncio.to_thread(_read, f"{parent.url}/metrics"))
            for name in ("wakeful_shards_owned", "process_memory_resident_bytes"):
                assert {dict(labels)["process"] for _, labels in page[name].samples} == {"1", "2"}
            assert sum(page["wakeful_shards_owned"].samples.values()) == 256
            for key, count in acked.items():
                assert await client.get("Tally", key).add() == count + 1
        assert parent.stop() == 0


def _read(url: str) -> str:
    import urllib.request

    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


async def test_a_successor_that_does_not_start_leaves_the_old_ones(postgres_schema_url: str, tmp_path: Path) -> None:
    with family(postgres_schema_url, tmp_path, 2) as parent:
        await parent.all_ready()
        first = parent.pids
        parent.program.write_text("raise ValueError('not yet')")
        parent.send_signal(signal.SIGHUP)
        stays = "the old processes stay"
        await until(lambda: any(stays in one.get("text", "") for one in parent.heard("error")), "the failure")
        os.kill(first[1], signal.SIGKILL)  # one that can't come back yet: it is tried again, and the other goes on
        again = "started anew in 2 s"
        await until(lambda: any(again in one.get("text", "") for one in parent.heard("error")), "another try")
        async with Client(parent.url) as client:
            assert (await client.get("Tally", "a").version())[1] == first[2]
        parent.program.write_text(PROGRAM)
        await until(lambda: parent.pids[1] != first[1], "the one that was mended")
        # Who is asked for a stop again does not wait for the turn that runs.
        async with Client(parent.url, retries=False) as client:
            held = asyncio.create_task(client.get("Tally", "a").hold(60))
            await asyncio.sleep(0.5)
            parent.send_signal(signal.SIGTERM)
            await asyncio.to_thread(parent.wait_for, "stopping")
            parent.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(parent.wait) == 143
            held.cancel()
            await asyncio.gather(held, return_exceptions=True)


async def test_processes_end_cleanly_when_their_parent_is_killed(postgres_schema_url: str, tmp_path: Path) -> None:
    with family(postgres_schema_url, tmp_path, 2) as parent:
        await parent.all_ready()
        os.kill(parent.pid, signal.SIGKILL)
        assert await asyncio.to_thread(_gone, parent.pids.values())
    rows = await fetch(postgres_schema_url, "SELECT owner FROM {s}.shards WHERE owner IS NOT NULL")
    assert not rows, "they left without handing back what they owned"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [("raise ValueError('broken')", (), 1), (PROGRAM, ("--http-cert", "/nowhere", "--http-key", "/nowhere"), 2)],
)
def test_what_can_not_start_ends_with_the_code_of_one(
    postgres_schema_url: str, tmp_path: Path, text: str, options: tuple[str, ...], code: int
) -> None:
    with family(postgres_schema_url, tmp_path, 2, *options, text=text) as parent:
        assert parent.wait() == code, parent.tail()
