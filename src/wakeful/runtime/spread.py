"""Layer 3. A class on several servers: on which of them does an object live now, and what if it is on its way?

The process has a node for each server. Which slots a server has is in its rows of `shards`, which each of these nodes
reads with every round: so where everything lives is known as soon as it has moved, without asking anybody else. While a
slot is on its way calls and inserts wait, within their deadlines, and go where it arrives.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.object_runtime import NodeRuntime
from wakeful.store.protocol import Guard, Obstacle, ShardRow
from wakeful.values.errors import BadOption, SlotMoved
from wakeful.values.ids import ObjectId, check_class, shard_of
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.policy.spread import SpreadMap

N = TypeVar("N")
WAIT_MAX_MS = 100  # between two looks at where a slot is that is on its way
_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def check_servers(place: object, servers: Mapping[Any, object]) -> None:
    """`BadOption` unless this is a class with servers that have names."""
    if not isinstance(place, str) or place.endswith("/"):
        raise BadOption(
            f"stores={place!r}: a class is spread over several servers, not a beginning of keys; give its name",
            code="stores.spread",
        )
    check_class(place)
    wrong = [name for name in servers if not isinstance(name, str) or not _SERVER.fullmatch(name)]
    if wrong or not servers:
        raise BadOption(
            f"stores={{{place!r}: …}}: {wrong[0]!r} is no name of a server; "
            if wrong
            else f"stores={{{place!r}: {{}}}}: no server; "
            "give {'a': url, 'b': url}, with names of small letters, digits, '-' and '_', which stay what they are",
            code="stores.spread",
        )


class ClassSpread(Generic[N]):
    """The nodes of this process for the servers of one class."""

    def __init__(self, cls: str, servers: Mapping[str, N], known: "SpreadMap") -> None:
        self.cls = cls
        self.names = list(servers)
        self.nodes = list(servers.values())
        # A server that this program does not name has nothing, or it would not have been let in.
        self._at = [self.names.index(server) if server in servers else 0 for server in known.slots]
        self._terms = list(known.terms)
        self._away: list[set[int]] = [set() for _ in self.nodes]

    def of(self, id: ObjectId) -> N:
        """The node of the server that has the object's slot, or had it last."""
        return self.nodes[self._at[shard_of(id)]]

    def note(self, node: N, owners: Sequence[ShardRow]) -> None:
        """What that server says of its slots."""
        index = self.nodes.index(node)
        self._away[index] = {row.shard for row in owners if row.is_away}
        for row in owners:
            if not row.is_away and row.term > self._terms[row.shard]:
                self._at[row.shard], self._terms[row.shard] = index, row.term

    def refusal(self, id: ObjectId) -> SlotMoved | None:
        """Why nobody has the object now, when it is on its way."""
        slot = shard_of(id)
        at = self._at[slot]
        if slot not in self._away[at]:
            return None
        return SlotMoved(
            f"{id} is on its way from server {self.names[at]} of {self.cls} to another (slot {slot}); try again. Should it "
            f"stay so: `wakeful rebalance {self.cls}` ends a move that was cut off, and a server that was added since this "
            f"process started (it knows {', '.join(self.names)}) wants it started anew",
            slots=(slot,),
        )

    async def add(self, node: NodeRuntime, timer: Timer, guard: Guard | None) -> Obstacle | None:
        """Bring one timer of the class to disk, or what is in the way."""
        until, tries = node.clock.now() + node.limits.call_deadline_ms, 0
        while True:
            home = node.home(timer.id)
            left_ms = max(1, until - node.clock.now())
            try:
                return await home.inserter.add(timer, guard, until=home.clock.now() + left_ms)
            except SlotMoved as error:
                tries += 1
                await wait_for(node, error, tries, until)

    async def bring(self, node: NodeRuntime, timers: Sequence[Timer], guards: Mapping[int, Guard]) -> list[Obstacle]:
        """Bring timers of the class to disk, all or none on each server; what is in the way there comes back."""
        obstacles: list[Obstacle] = []
        left = list(range(len(timers)))
        until, tries = node.clock.now() + node.limits.call_deadline_ms, 0
        while left:
            by_home: dict[NodeRuntime, list[int]] = {}
            for place in left:
                by_home.setdefault(node.home(timers[place].id), []).append(place)
            for home, places in by_home.items():
                own = {n: guards[place] for n, place in enumerate(places) if place in guards}
                left_ms = max(1, until - node.clock.now())
                try:
                    met = await home.inserter.add_all(
                        [timers[place] for place in places], own, until=home.clock.now() + left_ms
                    )
                except SlotMoved as error:
                    failure = error
                    continue
                obstacles += [replace(one, index=places[one.index]) for one in met]
                left = [place for place in left if place not in set(places)]
            if left:
                tries += 1
                await wait_for(node, failure, tries, until)
        return obstacles


async def wait_for(node: NodeRuntime, failure: SlotMoved, tries: int, until: int) -> None:
    """A moment, until the slot may be where it is going; the failure itself once there is no more time."""
    delay_ms = min(WAIT_MAX_MS, platform_delay_ms(tries, node.dice.random()))
    if node.clock.now() + delay_ms >= until:
        raise failure
    await node.clock.sleep(delay_ms)
