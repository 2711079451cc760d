"""Workflows: how many of ten steps a second with 64 under way, and how soon do a thousand go on after kill -9?"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from bench.children import spawn, told_by
from bench.measures import Measure, rate
from bench.places import fresh_beside
from bench.sizes import Sizes
from wakeful import App, Limits, Step, Workflow

STEPS = 10
CALLERS = 64
WAIT_S = 60
Work = Callable[[int], Awaitable[int]]


async def one(number: int) -> int:
    """A step that does nothing, which the peers' do as well."""
    return number


def make_app(work: Work = one) -> tuple[App, type[Workflow]]:
    """An app with one workflow, whose steps call this."""
    app = App(limits=Limits(call_deadline_ms=WAIT_S * 1000), idle="10m")
    return app, add_flow(app, work)


def add_flow(app: App, work: Work = one) -> type[Workflow]:
    """The workflow that is measured."""

    @app.object
    class Flow(Workflow):
        async def run(self, step: Step) -> int:
            return sum([await step("work", work, number) for number in range(STEPS)])

    return Flow


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`workflows.64`, and `workflows.recovery`: from the start of a process until the last of a thousand has ended."""
    app, cls = make_app()

    async def whole(number: int) -> None:
        flow = app.get(cls, f"w{number}")
        await flow.start()
        if await flow.result() != STEPS * (STEPS - 1) // 2:
            raise AssertionError("a workflow came to something else")

    async with app.run(url):
        await rate("warm", CALLERS, CALLERS, lambda number: whole(-1 - number))
        measure = await rate(f"workflows.{CALLERS}", sizes.flow_count, CALLERS, whole, note=f"of {STEPS} steps")
    place = fresh_beside(url, "resumed")
    return [measure, *await asyncio.to_thread(_recover, place, sizes.flow_recovery_count)]


def _recover(url: str, count: int) -> list[Measure]:
    with spawn("flow_victim", url, count) as victim:
        told_by(victim)
        victim.kill()
        victim.wait()
    began = time.time()
    with spawn("flow_heir", url, count) as heir:
        told = told_by(heir)
        heir.wait(WAIT_S)
    note = f"{count:,} under way, with two of {STEPS} steps to go"
    cpu_us = told["cpu_s"] / count * 1e6
    return [
        Measure("workflows.recovery", told["done_at"] - began, "s", note + ", Python's own start included", cpu_us),
        Measure("workflows.recovery.node", told["done_at"] - told["began_at"], "s", note, cpu_us),
    ]


async def victim(url: str, count: int) -> None:
    """Start them all, say so when each is at its last step but one, and wait to be killed."""
    left, all_there = count, asyncio.Event()

    async def work(number: int) -> int:
        nonlocal left
        if number == STEPS - 2:
            left -= 1
            if not left:
                all_there.set()
            await asyncio.sleep(WAIT_S)
        return number

    app, cls = make_app(work)
    async with app.run(url):
        await rate("start", count, CALLERS, lambda number: app.get(cls, f"w{number}").start())
        await all_there.wait()
        print(json.dumps({"under_way": count}), flush=True)
        await asyncio.sleep(WAIT_S)


async def heir(url: str, count: int) -> None:
    """Bring them to their end."""
    app, cls = make_app()
    began_at = time.time()
    async with app.run(url):
        found = await asyncio.gather(*[app.get(cls, f"w{number}").result() for number in range(count)])
        done_at = time.time()
    if found != [STEPS * (STEPS - 1) // 2] * count:
        raise AssertionError("a workflow came to something else")
    print(json.dumps({"began_at": began_at, "done_at": done_at, "cpu_s": time.process_time()}), flush=True)
