"""How are several node processes on one store started, asked and stopped by a benchmark?

A member is a process of its own. It reads commands from its standard input, a line each, and answers each with a
line of JSON. When its input ends it stops gracefully.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.jobs import due, lead_ms, schedule_all
from bench.measures import rate
from bench.places import ROOT
from bench.program import CLASS, Bench, Countdown, committed, make_app
from wakeful import App, ObjectId
from wakeful.runtime.node import Node
from wakeful.values.ids import SHARDS, shard_of

SETTLE_S = 30
LISTEN, SECRET = "127.0.0.1:0", "of the benchmark"  # as between machines, but for the wire


class Member:
    """The other end of a member process."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "bench.one", "member", "--store", url]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.answer()

    def tell(self, verb: str, *args: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, *args]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"a member ended with {self._process.wait()}")
        return json.loads(line)

    def ask(self, verb: str, *args: object) -> Any:
        self.tell(verb, *args)
        return self.answer()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def members(url: str, count: int) -> Iterator[list[Member]]:
    """So many, each with its share of the shards."""
    found: list[Member] = []
    try:
        for _ in range(count):
            found.append(Member(url))
        _settle(found)
        yield found
    finally:
        for member in found:
            member.stop()


def _settle(some: Sequence[Member]) -> None:
    """Wait until every shard is owned, and evenly."""
    until = time.monotonic() + SETTLE_S
    while True:
        owned = [member.ask("owned") for member in some]
        if sum(owned) == SHARDS and max(owned) - min(owned) <= 1:
            return
        if time.monotonic() > until:
            raise AssertionError(f"after {SETTLE_S} s the members own {owned} of {SHARDS} shards")
        time.sleep(0.1)


async def member(url: str, count: int) -> None:
    """Be one: a node, and its answers to the commands below."""
    countdown = Countdown(1 << 60)
    app, cls = make_app(countdown.heard)
    async with app.run(url, listen=LISTEN, secret=SECRET) as node:
        _say("up")
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            verb, *args = json.loads(line)
            _say(await _do(verb, args, app, cls, node, countdown))


async def _do(verb: str, args: list[Any], app: App, cls: type[Bench], node: Node, countdown: Countdown) -> Any:
    if verb == "owned":
        return len(node.epochs)
    if verb == "make":
        return await _make(app, cls, *args)
    if verb == "schedule":
        [count, at_ms, prefix] = args
        await schedule_all(app, due(app, cls, count, at_ms, prefix=prefix))
        return True
    if verb == "lead":
        return await lead_ms(app, cls, *args)
    if verb == "ran":
        return len(countdown.late_ms)
    if verb == "committed":
        await committed(node)
        return time.time()
    if verb == "used":
        return time.process_time()
    if verb == "calls":
        return await _calls(app, cls, node, *args)
    raise ValueError(verb)


async def _make(app: App, cls: type[Bench], count: int, prefix: str) -> bool:
    async def one(number: int) -> None:
        await app.get(cls, f"{prefix}{number}").add()

    await rate("make", count, 256, one)
    return True


async def _calls(
    app: App, cls: type[Bench], node: Node, method: str, count: int, objects: int, callers: int
) -> tuple[float, float]:
    """Calls a second to objects that others own, and this process's time for each in µs."""
    keys = []
    number = 0
    while len(keys) < objects:
        if shard_of(ObjectId(CLASS, f"x{number}")) not in node.epochs:
            keys.append(f"x{number}")
        number += 1
    stubs = [app.get(cls, key) for key in keys]

    async def one(number: int) -> None:
        await getattr(stubs[number % objects], method)()

    await rate("warm", max(objects, callers), callers, one)
    measure = await rate("cluster.calls", count, callers, one)
    return measure.value, measure.cpu_us


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)
