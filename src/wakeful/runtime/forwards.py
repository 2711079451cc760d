"""Layer 3. A turn sends a timer to an object that lives in another store: how does it get there exactly once?

One commit can't reach two stores. So what goes elsewhere is first kept at the sender, as a timer that commits with the
turn and is due at once; its own turn brings what it carries to the other store, under a name that is the same at every
try, and is over when that is there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from wakeful.runtime.errands import Errands
from wakeful.runtime.turn import Turn
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.node import Node

PREFIX = "forward"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Timer)


def routed(node: "Node", sender: ObjectId, timers: list[Timer]) -> list[Timer]:
    """The same timers, but those of other stores as errands of the sender."""
    return [timer if node.home(timer.id) is node else _errand(node, sender, timer) for timer in timers]


def _errand(node: "Node", sender: ObjectId, timer: Timer) -> Timer:
    now = node.clock.now()
    name = f"{PREFIX}:{timer.id.cls}/{timer.id.key}/{timer.name}"
    return Timer(sender, name, now, now, timer.seq, payload=_encoder.encode(timer))


async def add_apart(node: "Node", timers: Sequence[Timer]) -> list[Timer]:
    """Bring timers to the stores that they belong to, all or none in each; what is taken there comes back."""
    by_home: dict[Node, list[Timer]] = {}
    for timer in timers:
        by_home.setdefault(node.home(timer.id), []).append(timer)
    return [taken for home, some in by_home.items() for taken in await home.inserter.add_all(some)]


class Forwards(Errands):
    """The owner of these errands: they need no awake object, and are tried until they succeed."""

    prefix = PREFIX

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "Activation", turn: Turn, timer: Timer) -> bool:
        carried = _decoder.decode(timer.payload or b"")
        # One that is there already came with an earlier try.
        await activation.node.home(carried.id).inserter.add_all([carried])
        return False
