"""What does it cost to be many? `python -m bench.many_nodes`

Processes on a real PostgreSQL, as many as fit, and more of them in a simulated world: what each has to say to the
database and to the others while nothing happens, and what happens when one of them dies. The page that says what follows
from it is docs/many-nodes.md.
"""

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bench.members import Member, members
from bench.places import ask, postgres_place, postgres_server
from wakeful import App, DurableObject
from wakeful.runtime.node import Node
from wakeful.testing import World
from wakeful.values.ids import SHARDS

QUIET_S = 20
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Quiet(NamedTuple):
    """So many nodes that do nothing, by the second."""

    nodes: int
    connections: int
    commits: float  # transactions of the database
    server: float  # seconds of processor of the database
    node: float  # and of each node
    resident_mb: float  # of each node


def measure_quiet(server: str, count: int) -> Quiet:
    """Real processes on a database of their own."""
    with postgres_place(server) as url, members(url, count) as some:
        time.sleep(2)
        began, before = time.monotonic(), _look(url, some)
        time.sleep(QUIET_S)
        took, after = time.monotonic() - began, _look(url, some)
        pids = [member._process.pid for member in some]
        resident = sum(map(_resident_mb, pids)) / count
    commits, processor, node = ((now - then) / took for now, then in zip(after[1:], before[1:], strict=True))
    return Quiet(count, after[0], commits, processor, node / count, resident)


def _look(url: str, some: Iterable[Member]) -> tuple[int, int, float, float]:
    """Connections, transactions so far, processor seconds so far of the server and of all nodes."""
    mine = "datname = current_database()"
    pids = ask(url, f"SELECT array_agg(pid) FROM pg_stat_activity WHERE {mine} AND pid <> pg_backend_pid()")
    commits = ask(url, f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE {mine}")
    return len(pids), commits, sum(map(_processor_s, pids)), sum(member.ask("used") for member in some)


def _processor_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S


def _resident_mb(pid: int) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


# a world of many


class Crowd(NamedTuple):
    """So many nodes of a world: what each asks of the store in a second while nothing happens, and what a death is."""

    nodes: int
    verbs: dict[str, float]
    rows: float  # that each reads in a second
    processor_s: float  # of all of them for a second of theirs, in this process
    found_ms: int  # from a death until every shard has an owner
    death: dict[str, int]  # what all of them asked of the store until then


class _Asked:
    """Counts what nodes ask of their stores."""

    VERBS = ("nodes", "owners", "join", "time", "claim", "release", "tell", "timers", "leave")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.verbs: Counter[str] = Counter()
        self.rows = 0
        for node in nodes:
            for verb in self.VERBS:
                self._watch(node.store, verb)

    def _watch(self, store: Any, verb: str) -> None:
        inner = getattr(store, verb)

        async def asked(*args: Any, **options: Any) -> Any:
            self.verbs[verb] += 1
            answer = await inner(*args, **options)
            if verb in ("nodes", "owners"):
                self.rows += len(answer)
            return answer

        setattr(store, verb, asked)


async def live_through(count: int) -> Crowd:
    """A world of so many nodes, quiet for a while; then one of them dies."""
    app = App()
    app.object(type("Cell", (DurableObject,), {}))
    async with app.world(nodes=count) as world:
        await world.advance(seconds=5)
        some = [member.node for member in world.members if member.node is not None]
        asked, began = _Asked(some), time.process_time()
        await world.advance(seconds=10)
        used = time.process_time() - began
        verbs = {verb: number / count / 10 for verb, number in asked.verbs.items()}
        rows = asked.rows / count / 10
        asked.verbs.clear()
        world.members[0].kill()
        found_ms = await _wait_for_owners(world)
        return Crowd(count, verbs, rows, used / 10, found_ms, dict(asked.verbs))


async def _wait_for_owners(world: World) -> int:
    began = world.warp.now()
    while sum(len(member.node.epochs) for member in world.members if member.node is not None) < SHARDS:
        await world.advance(milliseconds=10)
    return world.warp.now() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", default="1,2,4,8", help="numbers of processes")
    parser.add_argument("--simulated", default="2,8,32,100", help="numbers of nodes in a world")
    wanted = parser.parse_args()
    with postgres_server() as server:
        for count in _numbers(wanted.real):
            quiet = measure_quiet(server, count)
            print(
                f"{count:4} real: {quiet.connections} connections, {quiet.commits:.1f} transactions/s, "
                f"{1000 * quiet.server:.1f} ms/s of the server, {1000 * quiet.node:.1f} ms/s of each node, "
                f"{quiet.resident_mb:.0f} MB each"
            )
    for count in _numbers(wanted.simulated):
        crowd = asyncio.run(live_through(count))
        verbs = ", ".join(f"{verb} {number:.2f}" for verb, number in sorted(crowd.verbs.items()))
        print(f"{count:4} simulated: each asks {verbs} a second and reads {crowd.rows:,.0f} rows")
        print(f"     one dies: owned again after {crowd.found_ms} ms, by {crowd.death}")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


if __name__ == "__main__":
    main()
