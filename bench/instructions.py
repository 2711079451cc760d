"""How many instructions does one operation take? `python -m bench.instructions --against OTHER/src`

Time does not repeat on a busy machine; instructions do, to about one in a hundred. Each work runs twice in a process of its own
under valgrind, with different counts: the difference of the two is what the operations took, without start and stop.
"""

import argparse
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.measures import rate
from bench.program import Bench, Countdown, committed, fall_asleep, make_app, now_ms, run_loop
from wakeful import App, JobSpec
from wakeful.runtime.node import Node

ROOT = Path(__file__).resolve().parent.parent
FEW, MANY = 100, 400
WARM = 50
_TOTAL = re.compile(r"I\s+refs:\s+([\d,]+)")

Work = Callable[[App, type[Bench], Node, int], Awaitable[object]]


async def _write(app: App, cls: type[Bench], node: Node, count: int) -> None:
    for _ in range(count):
        await app.get(cls, "a").add()


async def _read(app: App, cls: type[Bench], node: Node, count: int) -> None:
    for _ in range(count):
        await app.get(cls, "a").look()


async def _writers(app: App, cls: type[Bench], node: Node, count: int) -> None:
    await rate("writers", count, 64, lambda number: app.get(cls, f"a{number % 64}").add())


async def _job(app: App, cls: type[Bench], node: Node, count: int) -> None:
    for number in range(count):
        await app.jobs.schedule(app.get(cls, f"j{number}").job, 0, after="365d")


async def _schedulers(app: App, cls: type[Bench], node: Node, count: int) -> None:
    await rate("jobs", count, 64, lambda n: app.jobs.schedule(app.get(cls, f"j{n}").job, 0, after="365d"))


async def _jobs(app: App, cls: type[Bench], node: Node, count: int) -> None:
    await app.jobs.schedule_many([JobSpec(app.get(cls, f"j{n}").job, (0,), after="365d") for n in range(count)])


async def _keyed(app: App, cls: type[Bench], node: Node, count: int) -> None:
    jobs = [JobSpec(app.get(cls, f"j{n}").job, (0,), after="365d", key=f"k{n}") for n in range(count)]
    await app.jobs.schedule_many(jobs)


async def _fire(app: App, cls: type[Bench], node: Node, count: int) -> None:
    countdown = Countdown(count)
    cls.heard = staticmethod(countdown.heard)
    await app.jobs.schedule_many([JobSpec(app.get(cls, f"f{n}").job, (now_ms(),), after="0s") for n in range(count)])
    await countdown.all_started.wait()
    await committed(node)


# What has a database; loaded only when it is asked for, because trees from before there were any are counted as well.


async def _insert(app: App, cls: type[Bench], node: Node, count: int) -> None:
    from bench.sql import FILL, Shop

    await app.get(Shop, "a").make(FILL)
    for _ in range(count):
        await app.get(Shop, "a").more()


async def _pages(app: App, cls: type[Bench], node: Node, count: int) -> None:
    from bench.sql import Shop

    for number in range(count):
        await app.get(Shop, "b").put(number)


def _wake(key: str, method: str) -> Work:
    async def work(app: App, cls: type[Bench], node: Node, count: int) -> None:
        from bench.sql import FILL, Shop

        await (app.get(Shop, key).small(0) if key == "plain" else app.get(Shop, key).make(FILL))
        for _ in range(count):
            await fall_asleep(node)
            await getattr(app.get(Shop, key), method)()

    return work


WORKS: dict[str, Work] = {
    "write": _write,
    "read": _read,
    "64 writers": _writers,
    "job": _job,
    "64 schedulers": _schedulers,
    "schedule_many": _jobs,
    "schedule_many keyed": _keyed,
    "job with its run": _fire,
}


async def _flow(app: App, cls: type[Bench], node: Node, count: int) -> None:
    """Ten steps each; of the class that `do` has made for it."""
    flow = app.deployment.registry.by_name("Flow").cls
    first = int(await app.get(cls, "flows").look())
    await app.get(cls, "flows").add()
    for number in range(count):
        started = app.get(flow, f"{first}-{number}")
        await started.start()
        await started.result()


OF_FLOWS: dict[str, Work] = {"workflow of ten steps": _flow}
OF_SHOP: dict[str, Work] = {
    "INSERT": _insert,
    "put of its pages": _pages,
    "wake": _wake("plain", "idle"),
    "wake with 20 KiB of SQL": _wake("sql", "idle"),
    "wake and its first query": _wake("query", "point"),
}
WORKS |= OF_SHOP | OF_FLOWS


async def do(work: str, url: str, count: int) -> None:
    """The work so many times, after a few that wake and compile what it needs.

    Without collections: one looks through all that was ever loaded, and falls into one of the two counts by chance.
    """
    gc.disable()
    app, cls = make_app()
    if work in OF_SHOP:
        from bench.sql import Shop

        app.object(Shop)
    if work in OF_FLOWS:
        from bench.workflows import add_flow

        add_flow(app)
    async with app.run(url) as node:
        await WORKS[work](app, cls, node, WARM)
        if count:
            await WORKS[work](app, cls, node, count)


def count(work: str, store: str, source: Path) -> int:
    """Instructions of one operation, with the library that lies in `source`."""
    return (_total(work, store, source, MANY) - _total(work, store, source, FEW)) // (MANY - FEW)


def _total(work: str, store: str, source: Path, times: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/counted.db" if store == "sqlite" else "memory:"
        command = [
            *("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"),
            *(sys.executable, "-m", "bench.instructions", "--do", work, "--times", str(times), "--url", url),
        ]
        env = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    total = _TOTAL.search(done.stderr)
    if done.returncode or total is None:
        raise RuntimeError(f"{work} on {store} with {source}: {done.stderr[-2000:]}")
    return int(total[1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the src of another checkout, to compare with")
    parser.add_argument("--stores", default="memory,sqlite")
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--do", choices=WORKS, help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.do:
        run_loop(do(options.do, options.url, options.times))
        return
    for store in options.stores.split(","):
        for work in options.only.split(","):
            now = count(work, store, ROOT / "src")
            line = f"{store:8}{work:26}{now:12,}"
            if options.against:
                before = count(work, store, options.against)
                line += f"   before {before:12,}   {now / before - 1:+.1%}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
