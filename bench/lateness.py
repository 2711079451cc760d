"""At a steady rate beside many that wait, how late does each alarm start?"""

import asyncio
import time
from collections import deque
from typing import Any

from bench.measures import Measure, median, percentile
from bench.program import (
    DAY_MS,
    Countdown,
    check_fired,
    check_not_early,
    committed,
    fill_closed,
    make_app,
    now_ms,
    timers,
)
from bench.sizes import Sizes
from wakeful.runtime.node import Node
from wakeful.values.timers import Timer

LEAD_MS = 1_000  # the node must be up before the first is due


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`lateness.p50`, `.p99`, `.max`: the handler's start minus the due time, one object each.

    Of these, `lateness.handed.*` until the dispatcher has handed the timer out, which is when the event loop came to it,
    and `lateness.woken.*` from then on: its object is read, and its turn begins. `lateness.timer.*` are as many bare
    timers of the event loop at the same rate, in the same process: `beside` them all, and right after.
    """
    count = sizes.lateness_rate * sizes.lateness_s
    tomorrow = now_ms() + DAY_MS
    await fill_closed(url, list(timers(sizes.lateness_pending, lambda number: tomorrow + number, prefix="p")))
    first = now_ms() + LEAD_MS + sizes.lateness_pending // 150
    some = list(timers(count, lambda number: first + number * 1000 // sizes.lateness_rate, prefix="l"))
    await fill_closed(url, some)
    countdown = Stages(count)
    app, _ = make_app(countdown.heard)
    async with app.run(url) as node:
        countdown.watch(node)
        if now_ms() > first:
            raise AssertionError("the node was not up before the first was due")
        await asyncio.sleep(first / 1000 - time.time())
        used = time.process_time()
        beside = asyncio.create_task(_ring(count, sizes.lateness_rate))
        await countdown.all_started.wait()
        share = (time.process_time() - used) / sizes.lateness_s
        await committed(node)
        await check_fired(node, count)
        near = await beside
        bare = await _ring(count, sizes.lateness_rate)
    late = countdown.late_ms
    check_not_early(node, late)
    note = f"{sizes.lateness_rate}/s beside {sizes.lateness_pending:,} pending, {share:.0%} of a core"
    timer_note = f"{sizes.lateness_rate}/s, loop.call_at"
    return [
        *_parts("lateness", late, note),
        *_parts("lateness.handed", countdown.handed_ms, "due, until it is handed out"),
        *_parts("lateness.woken", countdown.woken_ms, "handed out, until its handler starts"),
        *_parts("lateness.timer", bare, timer_note),
        *_parts("lateness.timer.beside", near, f"{timer_note}, while those ran"),
    ]


class Stages(Countdown):
    """Where the time goes between the due time and the start."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.handed_ms: list[float] = []
        self.woken_ms: list[float] = []
        self._handed_at: dict[int, deque[float]] = {}  # by the due time; those of one instant start in this order

    def watch(self, node: Node) -> None:
        """See what it hands out."""
        hand_out = node.dispatcher.hand_out

        def watched(timer: Timer, **more: Any) -> bool:
            at_ms = time.time() * 1000
            self.handed_ms.append(at_ms - timer.due_at)
            self._handed_at.setdefault(timer.due_at, deque()).append(at_ms)
            return hand_out(timer, **more)

        node.dispatcher.hand_out = watched  # type: ignore[method-assign]

    def heard(self, due_ms: float) -> None:
        self.woken_ms.append(time.time() * 1000 - self._handed_at[round(due_ms)].popleft())
        super().heard(due_ms)


async def _ring(count: int, rate: int) -> list[float]:
    """By how much each of so many timers of the loop itself is late, in milliseconds."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    done = loop.create_future()

    def ring(at: float) -> None:
        late.append((loop.time() - at) * 1000)
        if len(late) == count:
            done.set_result(None)

    first = loop.time() + 0.1
    for number in range(count):
        at = first + number / rate
        loop.call_at(at, ring, at)
    await done
    return late


def _parts(name: str, late: list[float], note: str) -> list[Measure]:
    parts = {"p50": median(late), "p99": percentile(late, 0.99), "max": max(late)}
    return [Measure(f"{name}.{part}", value, "ms", note) for part, value in parts.items()]
