"""Layer 3. How is this node, in numbers that people and tools read?"""

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.values.ids import RESERVED

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


def status_of(node: "Node") -> dict[str, Any]:
    """What the node says of itself; plain values only."""
    clock, running = node.clock, node.queue.running
    line = node.timer_runs.suspects.summary(running, clock.now())
    in_line = 0 if line is None else line["waiting"]
    return {
        "node": node.name,
        "pid": os.getpid(),
        "state": node.state,
        "down_because": str(node.down_because) if node.down_because else None,
        "store": node.store.url,
        "store_id": node.store.identity,
        "store_ids": [home.store.identity for home in node.all_homes],
        "classes": [name for name in node.registry.names() if not name.startswith(RESERVED)],
        "shards": len(node.epochs),
        "shards_leaving": len(node.ownership.leaving),
        "shards_lost": node.ownership.losses,
        "stood_still": node.membership.standstill.stood(),
        "held_up": node.membership.standstill.held_lately(),
        "is_draining": node.membership.is_draining,
        "lease": node.membership.said_of_lease() if node.is_clustered and not node.is_client else None,
        "clock_offset_ms": clock.offset_ms if isinstance(clock, FollowedClock) else 0,
        "clock_doubt": clock.doubt if isinstance(clock, FollowedClock) else None,
        "outages": node.outage.count,
        "awake": len(node.awake),
        "turns": node.slots.taken,
        "turns_waiting": node.slots.waiting,
        "turns_bound": node.slots.bound,
        "overload": node.overload.status(),
        "timers_in_memory": len(node.queue),
        "timers_running": len(running) - in_line,
        "timers_in_line": in_line,
        "line": line,
        "timers_fired": node.dispatcher.fired,
        "groups": node.committer.groups,
        "commits": node.committer.commits,
        "inserts": node.inserter.timers,
        "calls_sent": node.routes.sent,
        "calls_received": node.routes.received,
        "calls_repeated": node.routes.repeated,
        "unreached": node.routes.contacts.list_unreached(),
        "late": node.routes.contacts.late(),
        "hints_told": node.arrivals.told,
        "hints_heard": node.arrivals.heard,
        "unknown": sorted(node.dispatcher.unknown),
        "migrations": {name: len(known.migrations) for name, known in node.registry.items() if known.migrations},
        "newer": dict(Counter(id.cls for id in node.dispatcher.newer)),
        **{name: feature.counters() for name, feature in node.features.items() if hasattr(feature, "counters")},
    }
