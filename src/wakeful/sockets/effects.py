"""Layer 4. What leaves a turn for its sockets, and when?

Once the turn is on disk, in the order in which it was asked for, and not at all when it never is. What a rolled-back
`storage.transaction()` asked for is taken back with it.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from wakeful.runtime.turn import Turn
    from wakeful.values.ids import ObjectId

SEND, CLOSE, AUTO = "send", "close", "auto"


class Effect(Struct, frozen=True, array_like=True, gc=False):
    """Something for sockets of one object that one gateway holds."""

    kind: str
    cls: str
    key: str
    epoch: int  # of the owner's shard: what an earlier owner sent must not come behind what a later one did
    ids: list[str]  # of the sockets; for AUTO of none, because it is for all of the object's
    message: str | bytes | None = None
    code: int = 0
    reason: str = ""
    auto: tuple[str, str] | None = None
    number: int = 0  # of what AUTO sets: the largest counts, whichever comes last

    @property
    def size(self) -> int:
        """About as many bytes as it takes on its way."""
        return 64 + 24 * len(self.ids) + len(self.message or "")


class Outgoing(list[tuple[str, Effect]]):
    """What one turn sends, by gateway, until it is on disk."""

    def __init__(self, feature: Any, mark: object) -> None:
        super().__init__()
        self._feature = feature
        self.mark = mark  # the savepoint in which it began

    def __call__(self) -> None:
        self._feature.release(self)


def put(turn: "Turn", feature: Any, gateway: str, effect: Effect) -> None:
    """Have that leave with the turn."""
    mark = turn.saved[-1] if turn.saved else None
    last = turn.then[-1] if turn.then else None
    if not isinstance(last, Outgoing) or last.mark is not mark:
        last = Outgoing(feature, mark)
        turn.then = [*turn.then, last]
    last.append((gateway, effect))


def effect(kind: str, turn: "Turn", ids: list[str], **rest: Any) -> Effect:
    id: ObjectId = turn.activation.id
    return Effect(kind, id.cls, id.key, turn.activation.epoch, ids, **rest)
