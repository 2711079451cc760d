"""How many instructions does one operation take? `python -m bench.instructions`

Time does not repeat on a busy machine; instructions do, to about one in a hundred. Each work runs twice in a process of its own
under valgrind, with different counts: the difference of the two is what the operations took, without start and stop.

What was counted by commit is in bench/instructions.md. `--check` ends with 1 when something takes 2 % more than the newest row
there, `--keep` adds a row, `--against OTHER/src` compares with another checkout instead.
"""

import argparse
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, nullcontext
from datetime import date
from pathlib import Path

from bench import counted
from bench.chart_step import NEXT, flat
from bench.measures import rate
from bench.options import names
from bench.places import postgres_place, postgres_server
from bench.program import DAY_MS, Bench, Countdown, committed, fall_asleep, make_app, now_ms, run_loop
from wakeful import App, JobSpec
from wakeful.chart import Chart, start, step
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


async def _alarms(app: App, cls: type[Bench], node: Node, count: int) -> None:
    due_at = now_ms() + 365 * DAY_MS
    await rate("alarms", count, 64, lambda number: app.get(cls, f"s{number}").arm(due_at))


async def _wakes(app: App, cls: type[Bench], node: Node, count: int) -> None:
    await rate("make", count, 64, lambda number: app.get(cls, f"w{number}").add())
    await fall_asleep(node)
    await rate("wakes", count, 64, lambda number: app.get(cls, f"w{number}").look())


async def _chart(app: App, cls: type[Bench], node: Node, count: int) -> None:
    chart = Chart.of(flat())
    snapshot = json.loads(json.dumps(start(chart)[0]))
    for _ in range(count):
        step(chart, snapshot, NEXT, 0)


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
    "64 alarms": _alarms,
    "wake of 64": _wakes,
    "chart step": _chart,
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
# What is kept by commit: of how a program spends its day, and quick enough to be counted with every `make bench`.
KEPT = ("64 alarms", "write", "read", "job", "job with its run", "wake of 64", "chart step")
STORES = ("memory", "sqlite", "postgres")
STORELESS = ("chart step",)


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


class Counter:
    """Counts under valgrind, with the stores that this needs."""

    def __init__(self, server: str | None) -> None:
        self._server = server

    def count(self, work: str, store: str, source: Path) -> int:
        """Instructions of one operation, with the library that lies in `source`."""
        return (self._total(work, store, source, MANY) - self._total(work, store, source, FEW)) // (MANY - FEW)

    def _total(self, work: str, store: str, source: Path, times: int) -> int:
        with ExitStack() as stack:
            url = "memory:"
            if store == "sqlite":
                url = f"sqlite:{stack.enter_context(tempfile.TemporaryDirectory())}/counted.db"
            elif store == "postgres":
                url = stack.enter_context(postgres_place(self._server or ""))
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


def main() -> int:
    options = _options()
    if options.do:
        run_loop(do(options.do, options.url, options.times))
        return 0
    if shutil.which("valgrind") is None:
        print(
            "instructions are not counted: there is no valgrind here (as root: apt install valgrind)", file=sys.stderr
        )
        return 0 if options.check else 2
    is_slower = False
    with postgres_server() if "postgres" in options.stores else nullcontext() as server:
        counter = Counter(server)
        for store in options.stores:
            works = [work for work in options.only if work not in STORELESS or store == "memory"]
            if options.against:
                _compare(counter, store, works, options.against)
            else:
                is_slower |= _check(counter, store, works, keeps=options.keep)
    return 1 if is_slower and options.check else 0


def _compare(counter: Counter, store: str, works: list[str], against: Path) -> None:
    for work in works:
        now, before = counter.count(work, store, ROOT / "src"), counter.count(work, store, against)
        print(f"{store:9}{work:26}{now:12,}   before {before:12,}   {now / before - 1:+.1%}", flush=True)


def _check(counter: Counter, store: str, works: list[str], *, keeps: bool) -> bool:
    """Print each beside the newest row of the store; whether something became slower."""
    rows = counted.read(counted.PAGE.read_text()).get(store, [])
    verdicts = []
    for verdict in counted.judge(store, works, rows[0] if rows else None, counter.count):
        print(verdict, flush=True)
        verdicts.append(verdict)
    if keeps:
        row = counted.Row(_commit(), f"{date.today()}", counted.build(), {one.work: one.now for one in verdicts})
        counted.PAGE.write_text(counted.write(counted.PAGE.read_text(), store, row))
    return any(one.is_slower for one in verdicts)


def _commit() -> str:
    """What stands in the tree, which has no changes of its own in what is counted."""
    changed = git("status", "--porcelain", "--", "src", "bench/*.py")
    if changed:
        raise SystemExit(f"error: a row is of a commit, and the tree has changes:\n{changed}")
    return git("rev-parse", "HEAD")[:12]


def git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 if something takes 2 %% more than before")
    parser.add_argument("--keep", action="store_true", help="add what was counted to bench/instructions.md")
    parser.add_argument("--against", type=Path, help="the src of another checkout, to compare with instead")
    parser.add_argument("--stores", type=names(STORES), default=STORES, help=",".join(STORES))
    parser.add_argument("--only", type=names(WORKS), default=KEPT, metavar="WORK,…", help=", ".join(WORKS))
    parser.add_argument("--do", choices=WORKS, help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
