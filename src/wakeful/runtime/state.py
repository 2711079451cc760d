"""Layer 3. How does a typed value live across turns without anyone saving it?"""

from typing import TYPE_CHECKING, Any

from wakeful.logic.limits import check_value_size
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.codec import decode, encode, fields_of, rebuild
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.errors import BadOption, BadValue, TurnOver

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation

STATE_SLOT: Slot = (SYSTEM, "state")


class State:
    """The object's declared state: decoded once, encoded at the end of each turn that touched it.

    It does not hold its activation, which holds it: a circle would keep a sleeping object in memory until the next
    full collection.
    """

    __slots__ = ("_base", "_data", "_type", "_value")

    def __init__(self, kind: Any) -> None:
        self._type = kind
        self._data: bytes | None = None  # as of the last turn that ended well
        self._value: Any = None  # the live value, None when it must be decoded anew
        self._base: bytes | None = None  # the live value as it was when no turn had changed it yet

    def load(self, data: bytes | None) -> None:
        """The object wakes: this is what is on disk."""
        self._data = data
        self._value = None

    def get(self, activation: "Activation") -> Any:
        turn = self._turn(activation)
        if turn.is_reader:
            # A copy: the running turn may be changing the live value and may still fail.
            if turn.state_copy is None:
                turn.state_copy = self._decoded()
            return turn.state_copy
        turn.state_used = True
        if self._value is None:
            self._value = self._decoded()
            self._base = encode(fields_of(self._value))  # not what is on disk: that may be of another version
        return self._value

    def set(self, activation: "Activation", value: Any) -> None:
        turn = self._turn(activation)
        turn.check_writable()
        if not isinstance(value, self._type):
            raise BadValue(
                f"{activation.id}: state must be a {self._type.__name__}, not {type(value).__name__}",
                code="state.type",
            )
        turn.state_used = True
        if self._value is None:
            self._base = self._data
        self._value = value

    def collect(self, turn: Turn) -> None:
        """Put the state among the turn's writes if it changed."""
        if not turn.state_used or turn.is_reader or self._value is None:
            return  # None: a savepoint that first touched it was undone, so nothing changed
        try:
            data = encode(fields_of(self._value))
        except BadValue as error:
            raise BadValue(f"{turn.activation.id}: state: {error.message}", code=error.code) from None
        if data != turn.writes.get(STATE_SLOT, self._base):
            check_value_size("state", len(data))
            turn.writes[STATE_SLOT] = data

    def adopt(self, data: bytes | None) -> None:
        """A turn that changed it ended well, or came to a durable point."""
        self._data = self._base = data

    def has_changed(self, turn: Turn) -> bool:
        """The turn, which is being undone, has changed it."""
        try:
            return not turn.is_reader and self._value is not None and encode(fields_of(self._value)) != self._base
        except BadValue:
            return True  # into something that can't be saved

    def forget(self) -> None:
        """The turn failed: what is right is what the last good one left."""
        self._value = None

    def snapshot(self, turn: Turn) -> bytes | None:
        """The live value as bytes, None when this turn has not touched it."""
        return encode(fields_of(self._value)) if turn.state_used and self._value is not None else None

    def restore(self, snapshot: bytes | None) -> None:
        """Back to what it was when the snapshot was taken."""
        self._value = None if snapshot is None else rebuild(self._type, decode(snapshot))

    def _decoded(self) -> Any:
        return self._type() if self._data is None else rebuild(self._type, decode(self._data))

    def _turn(self, activation: "Activation") -> Turn:
        if self._type is None:
            raise BadOption(
                f"{activation.id.cls} declares no state; add `state: YourDataclass` to the class",
                code="state.none",
            )
        turn = CURRENT.get()
        if turn is None or turn.activation is not activation:
            raise TurnOver(f"{activation.id}: state is for code that runs in a turn of this very object")
        turn.check_open()
        return turn
