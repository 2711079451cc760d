"""What do more nodes on one PostgreSQL bring, and what does a call from one node to another cost?"""

import asyncio
import time

import psutil

from bench.measures import Measure
from bench.members import Member, members
from bench.places import ask, fresh_beside
from bench.program import now_ms
from bench.sizes import Sizes
from wakeful.store.postgres.url import parse_url

OBJECTS = 1_000


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`cluster.fire.N`: jobs committed a second by N nodes, all due at one instant; `cluster.calls.*` between two."""
    if not url.startswith("postgres"):
        raise AssertionError("several nodes need a store that they can share: PostgreSQL")
    return await asyncio.to_thread(_run, url, sizes)


def _run(url: str, sizes: Sizes) -> list[Measure]:
    measures = []
    for count in sizes.cluster_nodes:
        measures.append(_fire(fresh_beside(url, f"nodes{count}"), count, sizes.cluster_jobs))
    return measures + _calls(fresh_beside(url, "calls"), sizes.cluster_calls)


def _fire(url: str, nodes: int, count: int) -> Measure:
    with members(url, nodes) as some:
        some[0].ask("make", count, "f")
        lead = some[0].ask("lead", count)
        due_at = now_ms() + lead
        some[0].ask("schedule", count, due_at, "f")
        if now_ms() > due_at - 200:
            raise AssertionError("scheduling took longer than planned: the machine is too busy to measure this now")
        time.sleep(max(0.0, due_at / 1000 - time.time() - 0.05))
        began, used, machine = time.monotonic(), _used(some), _busy_s()
        while _sum(some, "ran") < count:
            time.sleep(0.02)
        length = max(_all(some, "committed")) - due_at / 1000
        window, used, machine = time.monotonic() - began, _used(some) - used, _busy_s() - machine
        ran = _all(some, "ran")
    _check(url, count)
    cores = psutil.cpu_count() or 1
    note = (
        f"{count:,} at one instant, {' + '.join(f'{part:,}' for part in ran)} ran; {machine / window / cores:.0%} of "
        f"{cores} cores busy: nodes {used / window:.1f}, PostgreSQL and the rest {(machine - used) / window:.1f}"
    )
    return Measure(f"cluster.fire.{nodes}", count / length, "/s", note, used / count * 1e6)


def _calls(url: str, count: int) -> list[Measure]:
    """One of two nodes calls objects of the other; both ends share this machine."""
    measures = []
    with members(url, 2) as (caller, callee):
        for verb, method, callers in (("read", "look", 64), ("read", "look", 1), ("write", "add", 64)):
            each = count if callers > 1 else max(1, count // 10)
            used = callee.ask("used")
            value, cpu_us = caller.ask("calls", method, each, min(OBJECTS, each), callers)
            used = callee.ask("used") - used
            note = f"the caller's processor time {cpu_us:.0f} µs each, the callee's {used / each * 1e6:.0f} µs"
            measures.append(Measure(f"cluster.{verb}.{callers}", value, "/s", note, cpu_us))
    return measures


def _all(some: list[Member], verb: str) -> list[float]:
    """Ask all at once, then hear all."""
    for member in some:
        member.tell(verb)
    return [member.answer() for member in some]


def _sum(some: list[Member], verb: str) -> float:
    return sum(_all(some, verb))


def _used(some: list[Member]) -> float:
    return _sum(some, "used")


def _busy_s() -> float:
    """Seconds that all cores together have worked since the machine started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _check(url: str, count: int) -> None:
    """None lost, none doubled."""
    target = parse_url(url)
    entries = ask(target.dsn, f'SELECT count(*) FROM "{target.schema}".ledger')
    runs = ask(target.dsn, f'SELECT count(DISTINCT run_id) FROM "{target.schema}".ledger')
    if (entries, runs) != (count, count):
        raise AssertionError(f"{count} were due, {entries} runs of {runs} jobs are in the ledger")
