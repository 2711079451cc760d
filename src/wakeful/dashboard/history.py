"""Layer 5. How many timers fired in each second of the last minutes, and how late?

Read from the counters of this process every other second, in a ring: it costs next to nothing and needs no store.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.dashboard.words import instant
from wakeful.values.errors import WakefulError
from wakeful.values.metrics import LATENESS_MS
from wakeful.views import ledger
from wakeful.views.view import View

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

EVERY_MS = 2_000
KEPT = 600  # twenty minutes
LEDGER_ROWS = 2_000

Sample = dict[str, Any]


class Sums(NamedTuple):
    """The counters of the process at one moment."""

    at: int
    fired: int
    turns: int
    failed: int
    lateness: list[int]  # how many in each bucket


class History:
    """The samples of one process; they go on for as long as its node runs."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self._node: Node | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, node: "Node") -> None:
        """Sample this node from now on; asked with every page, and cheap."""
        if node is not self._node:
            self._node = node
            self.samples.clear()
            self._task = asyncio.get_running_loop().create_task(self._sample(node))
            node.keep(self._task)

    async def _sample(self, node: "Node") -> None:
        before = read(node)
        with suppress(WakefulError):  # a store that can't be read now: the charts begin empty
            self.samples.extend(await samples_before(node, before.at))
        while not node.is_dead and node is self._node:
            await node.clock.sleep(EVERY_MS)
            now = read(node)
            self.samples.append(between(before, now))
            before = now


def read(node: "Node") -> Sums:
    """What the nodes of this process have counted so far."""
    buckets = [0] * (len(LATENESS_MS) + 1)
    turns = failed = 0
    for home in node.all_homes:
        turns += home.committer.commits
        for (_, verdict), counter in home.meter.runs.items():
            failed += counter.value if verdict == "failed" else 0
        for _, histogram in home.meter.lateness.items():
            buckets = [a + b for a, b in zip(buckets, histogram.counts, strict=True)]
    return Sums(node.clock.now(), sum(buckets), turns, failed, buckets)


async def samples_before(node: "Node", now: int) -> list[Sample]:
    """What the ledger tells of the minutes before, so that charts don't begin empty; as far back as it tells all."""
    entries = await ledger.page(View.of_node(node), limit=LEDGER_ROWS)
    is_shared = any(home.store.shared for home in node.all_homes)  # others write there as well, and this is of one node
    slots: dict[int, list[ledger.PlainEntry]] = {}
    kept = Counter[tuple[str, str, str]]()
    # Of a busy hour the page has only the end, and of a busy timer the ledger.
    slot, whole = KEPT - 1, KEPT
    for row in entries.rows:
        ago_ms = now - (instant(row["fired_at"]) or 0)
        slot = ago_ms // EVERY_MS
        name = (row["class"], row["key"], row["timer"])
        kept[name] += 1
        if kept[name] == node.limits.ledger_keep:
            whole = min(whole, slot)
        is_ours = row["verdict"] in ("run", "failed") and (not is_shared or row["node"] == node.name)
        if is_ours and ago_ms > 0 and slot < KEPT:
            slots.setdefault(slot, []).append(row)
    if entries.cursor is not None:
        whole = min(whole, slot)
    return [_sample(now - slot * EVERY_MS, slots.get(slot, [])) for slot in range(whole - 1, -1, -1)]


def _sample(at: int, rows: list[ledger.PlainEntry]) -> Sample:
    late = sorted(max(0, row["lateness_ms"]) for row in rows)
    return {
        "t": at / 1_000,
        "fired": len(rows) * 1_000 / EVERY_MS,
        "turns": None,
        "failed": sum(row["verdict"] == "failed" for row in rows) * 1_000 / EVERY_MS,
        "p50": late[len(late) // 2] if late else None,
        "p99": late[len(late) * 99 // 100] if late else None,
    }


def between(before: Sums, now: Sums) -> Sample:
    """What happened from one to the other: rates a second, and lateness in milliseconds (None: nothing fired)."""
    seconds = max(0.001, (now.at - before.at) / 1_000)
    buckets = [b - a for a, b in zip(before.lateness, now.lateness, strict=True)]
    return {
        "t": now.at / 1_000,
        "fired": round((now.fired - before.fired) / seconds, 2),
        "turns": round((now.turns - before.turns) / seconds, 2),
        "failed": round((now.failed - before.failed) / seconds, 2),
        "p50": share(LATENESS_MS, buckets, 0.5),
        "p99": share(LATENESS_MS, buckets, 0.99),
    }


def share(bounds: Sequence[int], counts: Sequence[int], part: float) -> float | None:
    """What that part of all were at most, as straight lines within the buckets tell; None when there were none."""
    wanted = part * sum(counts)
    if not wanted:
        return None
    low = 0
    for bound, count in zip(bounds, counts, strict=False):
        if count and wanted <= count:
            return round(low + (bound - low) * wanted / count, 2)
        wanted -= count
        low = bound
    return float(bounds[-1])
