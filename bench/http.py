"""How many writing calls a second does the HTTP server bear, and do timers stay on time beside it?

`http.write.64`: 64 callers in another process, each answer durable. `http.lateness.…p99`: alarms at a steady rate
meanwhile, alone, beside slow clients, and beside a flood of a thousand connections.
"""

import asyncio
import json
import sys
import time

from bench.measures import Measure, percentile
from bench.places import ROOT
from bench.program import CLASS, make_app, now_ms, timers
from bench.sizes import Sizes
from wakeful.runtime.node import Node
from wakeful.server import serving

CALLERS = 64
SECONDS = 6.0
ALARMS_S = 200  # timers a second, beside everything
FLOOD = 1_000
SLOW = 256
AHEAD_MS = 1_500


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """Everything on one store, one after the other."""
    late: list[float] = []
    app, _ = make_app(lambda due_ms: late.append(time.time() * 1000 - due_ms))
    found: list[Measure] = []
    async with app.run(url) as node, serving(app, node, "127.0.0.1:0") as server:
        used = time.process_time()
        said = await ask_callers(server.port, "callers", CALLERS, SECONDS)
        used = time.process_time() - used
        note = f"p50 {said['p50_ms']:.1f} ms, p99 {said['p99_ms']:.1f} ms, {said['statuses']}, client {said['client_cpu_s']:.1f} s CPU"
        found.append(Measure("http.write.64", said["rate"], "/s", note, used / max(1.0, said["rate"] * SECONDS) * 1e6))
        for name, kind, count in (
            ("alone", "", 0),
            ("callers", "callers", CALLERS),
            ("slow", "slow", SLOW),
            ("flood", "flood", FLOOD),
        ):
            late.clear()
            await _arm(node, name)
            said = await ask_callers(server.port, kind, count, SECONDS) if kind else await _rest()
            async with asyncio.timeout(30):
                while len(late) < ALARMS_S * SECONDS:  # noqa: ASYNC110 - the node owes benchmarks no event
                    await asyncio.sleep(0.05)
            note = f"p50 {percentile(late, 0.5):.1f} ms, worst {max(late):.1f} ms of {len(late)}; {_short(said)}"
            found.append(Measure(f"http.lateness.{name}", percentile(late, 0.99), "ms", note))
    return found


async def _arm(node: Node, name: str) -> None:
    """Alarms from soon on, at a steady rate, for as long as the clients are there."""
    first = now_ms() + AHEAD_MS
    some = list(timers(int(ALARMS_S * SECONDS), lambda n: first + n * 1000 // ALARMS_S, prefix=f"{name}-"))
    assert some[0].id.cls == CLASS
    await node.add_timers(some)


async def _rest() -> dict[str, object]:
    await asyncio.sleep(SECONDS + AHEAD_MS / 1000)
    return {}


async def ask_callers(port: int, kind: str, count: int, seconds: float) -> dict:  # type: ignore[type-arg]
    """What clients of that kind, in a process of their own, saw."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.http_callers",
        str(port),
        kind,
        str(count),
        str(seconds),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return dict(json.loads(said))


def _short(said: dict[str, object]) -> str:
    parts = [f"{said['rate']:,.0f} requests/s"] if "rate" in said else []
    return ", ".join(parts + [f"{name} {said[name]}" for name in ("statuses", "lost", "closed", "of") if name in said])
