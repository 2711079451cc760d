"""Layer 5. Which timers run now, and which wait because processes died while they ran?

By what the store has: a start note of the present owner's epoch is of one that runs, and one of an epoch before it was
left by a process that died. Those are tried a few at a time, or alone, and later ones of their objects wait for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wakeful.policy.retry import CRASHES_MAX
from wakeful.store.protocol import Query, Store
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer
from wakeful.views.nodes import state_of
from wakeful.views.timer_names import timer_words

HEAD = 1_000  # timers that are looked at in search of the one that is tried: it was due before most others


@dataclass
class Line:
    """Those that run, and why others wait, of the timers that were asked about."""

    running: set[Timer] = field(default_factory=set)
    waits: dict[Timer, str] = field(default_factory=dict)
    tried: dict[str, Timer] = field(default_factory=dict)  # by node: the one that those in its line wait for
    owners: dict[Timer, str] = field(default_factory=dict)  # the nodes in whose lines they wait


async def line_of(store: Store, timers: Sequence[Timer], now: int, *, is_named: bool = True) -> Line:
    """How these stand; not `is_named`: without saying which one they wait for, to somebody who may not know."""
    line = Line()
    if not any(timer.started for timer in timers):
        return line
    owners = {row.shard: (row.owner, row.epoch) for row in await store.owners() if row.owner is not None}
    time = await store.time()
    # In a store of one process the lock says who lives, and a lease nothing.
    rows = await store.nodes() if store.shared else []
    gone = {row.node for row in rows if state_of(row, now if time is None else time) == "gone"}

    def owner_of(timer: Timer) -> str | None:
        return owners.get(shard_of(timer.id), (None, 0))[0]

    def is_running(timer: Timer) -> bool:
        owner, epoch = owners.get(shard_of(timer.id), (None, 0))
        return timer.started == epoch and owner is not None and owner not in gone

    died = [timer for timer in timers if timer.started and not is_running(timer)]
    line.running = {timer for timer in timers if timer.started and is_running(timer)}
    if not died:
        return line
    for timer in sorted(await store.find_timers(Query(limit=HEAD)), key=lambda one: -one.crashes):
        owner = owner_of(timer)
        if owner is not None and timer.crashes and timer.started and is_running(timer):
            line.tried.setdefault(owner, timer)
    first: dict[ObjectId, Timer] = {}
    for timer in died:
        owner = owner_of(timer)
        lives = owner is not None and owner not in gone
        line.waits[timer] = _words(timer, line.tried.get(owner or ""), is_named=is_named) if lives else _death(timer)
        if lives and owner is not None:
            line.owners[timer] = owner
        if timer.id not in first or timer.sort_key < first[timer.id].sort_key:
            first[timer.id] = timer
    for timer in timers:
        before = first.get(timer.id)
        if before is not None and before.sort_key < timer.sort_key and timer not in line.waits and timer.due_at <= now:
            line.waits[timer] = f"behind {timer_words(before)} of its object"
            line.running.discard(timer)
            if before in line.owners:
                line.owners[timer] = line.owners[before]
    return line


def _death(timer: Timer) -> str:
    often = {1: "", 2: " twice"}.get(timer.crashes + 1, f" {timer.crashes + 1} times")
    return f"its process died{often} while it ran or waited"


def _words(timer: Timer, tried: Timer | None, *, is_named: bool) -> str:
    deaths = timer.crashes + 1
    if deaths >= CRASHES_MAX:
        return f"{_death(timer)}: it is about to be parked"
    how = "tried one at a time" if deaths == CRASHES_MAX - 1 else "tried a few at a time"
    who = "" if tried is None else f", behind {tried.id} {timer_words(tried)}" if is_named else ", behind another"
    return f"{_death(timer)}: {how}{who}"
