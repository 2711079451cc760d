"""How much slower is the HTTP server for a neighbour while somebody else floods it?

Two tokens, clients in processes of their own. One caller of the neighbour's writes, waits a little, writes again: alone,
then beside 64 callers of the other token, round by round, so that a slow minute of the machine falls on both.
`fair.flood` is its p99 under the flood, `fair.ratio` how many times its p99 alone that is.
"""

import asyncio
import json
import os
import sys

from msgspec import to_builtins

from bench.measures import Measure, median, percentile
from bench.places import ROOT
from bench.program import make_app, now_ms
from bench.sizes import Sizes
from wakeful.runtime.node import Node
from wakeful.security.tokens import ALL, PREFIX, Token, new_secret
from wakeful.server import serving

FLOOD = 64


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """The rounds on one store."""
    app, _ = make_app()
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    rates: list[float] = []
    async with app.run(url) as node, serving(app, node, "127.0.0.1:0") as server:
        neighbour, other = await _token(node, "neighbour"), await _token(node, "flood")
        await _ask(server.port, "neighbour", 1, 1.0, neighbour)  # everything is warm
        for _ in range(sizes.fair_rounds):
            alone.append(_took(await _ask(server.port, "neighbour", 1, sizes.fair_s, neighbour)))
            flood = asyncio.ensure_future(_ask(server.port, "callers", FLOOD, sizes.fair_s + 1.0, other))
            await asyncio.sleep(0.5)
            beside.append(_took(await _ask(server.port, "neighbour", 1, sizes.fair_s, neighbour)))
            rates.append((await flood)["rate"])
    ratios = [percentile(two, 0.99) / percentile(one, 0.99) for one, two in zip(alone, beside, strict=True)]
    note = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    return [
        _measure("fair.alone", alone, ""),
        _measure("fair.flood", beside, f"; the flood gets {median(rates):,.0f}/s"),
        Measure("fair.ratio", median(ratios), "times", f"p99 under the flood / p99 alone; round by round {note}"),
    ]


def _measure(name: str, rounds: list[list[float]], more: str) -> Measure:
    p50 = median(percentile(one, 0.5) for one in rounds)
    p99 = median(percentile(one, 0.99) for one in rounds)
    return Measure(
        name, p99, "ms", f"p50 {p50:.1f} ms, worst {max(map(max, rounds)):.1f} ms of {sum(map(len, rounds))}{more}"
    )


def _took(said: dict) -> list[float]:  # type: ignore[type-arg]
    if set(said["statuses"]) != {"200"}:
        raise AssertionError(f"the neighbour was answered {said['statuses']}")
    return [float(one) for one in said["took_ms"]]


async def _token(node: Node, name: str) -> str:
    text, id, hashed = new_secret(PREFIX, os.urandom)
    token = Token(id=id, name=name, hash=hashed, scopes=("call",), created_at=now_ms(), created_by="bench")
    await node.send(ALL, "create", (to_builtins(token),), {})
    return text


async def _ask(port: int, kind: str, count: int, seconds: float, token: str) -> dict:  # type: ignore[type-arg]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.http_callers", str(port), kind, str(count), str(seconds), token,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    return dict(json.loads(said))
