"""One work, once, in this process: `python -m bench.one WORK --store URL --json`."""

import argparse
import gc
import importlib
import inspect
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from bench import profiling
from bench.measures import Measure
from bench.program import run_loop
from bench.sizes import FORMS, Sizes
from wakeful.cli.program import COLLECT_EVERY

WORKS = (
    "schedule", "fire", "lateness", "jobs", "job_lateness", "cron", "next_run", "chart_step", "many", "calls", "wake",
    "scale", "machines", "recovery", "cluster", "million", "http", "fair", "telemetry", "sql", "workers",
    "workflows",
)  # fmt: skip
PEERS = (
    "apscheduler", "huey", "dbos", "pgqueuer", "procrastinate", "cronsim", "croniter", "python_statemachine",
    "transitions", "workerd",
)  # fmt: skip

# Helper processes of a work, as module and function: they take a count and report in their own way.
ROLES = {
    "fill": ("scale", "fill"),
    "start": ("scale", "start"),
    "fill_schedules": ("many", "fill"),
    "start_schedules": ("many", "start"),
    "fill_machines": ("machines", "fill"),
    "start_machines": ("machines", "start"),
    "victim": ("recovery", "victim"),
    "heir": ("recovery", "heir"),
    "flow_victim": ("workflows", "victim"),
    "flow_heir": ("workflows", "heir"),
    "member": ("members", "member"),
    "fill_million": ("million", "fill"),
    "run_million": ("million", "run_filled"),
}


def run(name: str, url: str, sizes: Sizes) -> list[Measure]:
    """Do the work. A peer that has no event loop of its own is not given one."""
    module = "bench.peers." + name.removeprefix("peer:") if name.startswith("peer:") else f"bench.{name}"
    work: Callable[[str, Sizes], Any] = importlib.import_module(module).run
    return list(_loop(work(url, sizes)) if inspect.iscoroutinefunction(work) else work(url, sizes))


def main() -> None:
    options = _options()
    if options.work in ROLES:
        module, name = ROLES[options.work]
        _loop(getattr(importlib.import_module(f"bench.{module}"), name)(options.store, options.count))
        return
    sizes = FORMS[options.form].but(options.size)
    if options.profile:
        profiling.start()
    measures = run(options.work, options.store, sizes)
    if options.json:
        sys.stdout.write(msgspec.json.encode(measures).decode() + "\n")
    else:
        for measure in measures:
            print(f"{measure.name:24} {measure.value:14,.1f} {measure.unit:6} {measure.note}")
    profiling.show(options.profile)


def _loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """As `wakeful run` does it: what is loaded is left out of full collections, and uvloop where present."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
    return run_loop(coroutine)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.one", description=__doc__)
    names = [*WORKS, "machine", *[f"peer:{peer}" for peer in PEERS], *ROLES]
    parser.add_argument("work", choices=names)
    parser.add_argument(
        "--store", required=True, help="memory:, sqlite:PATH or postgresql://… of a store that is empty"
    )
    parser.add_argument("--form", choices=sorted(FORMS), default="short")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N", help="change a count of the form")
    parser.add_argument("--count", type=int, default=0, help="for the helper roles")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", type=int, default=0, metavar="LINES", help="print what cost most by own time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
