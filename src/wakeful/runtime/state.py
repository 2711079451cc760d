"""Layer 3. How does a typed value live across turns without anyone saving it?"""

from collections.abc import Iterator, MutableMapping
from typing import Any

from wakeful.policy.limits import check_value_size
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.turn import CURRENT, Turn, running_turn
from wakeful.values.codec import (
    Rest,
    Shelf,
    decode_fields,
    encode_fields,
    join_fields,
    names_in,
    read_field,
    unknown_fields,
    unread_fields,
)
from wakeful.values.commits import STATE_SLOT
from wakeful.values.errors import BadOption, BadValue, TurnOver, Undecodable, Unfit
from wakeful.values.ids import ObjectId
from wakeful.values.type_fit import fits, made_up, misfit


class State:
    """The object's declared state: decoded once, encoded at the end of each turn that touched it.

    Fields on disk that its type does not have were written by another version of the program. They belong to the
    object, whatever value is assigned, and go out again as they came in.

    It does not hold its activation, which holds it: a circle would keep a sleeping object in memory until the next
    full collection.
    """

    __slots__ = ("_base", "_data", "_loan", "_rest", "_shelf", "_type", "_value")

    def __init__(self, kind: Any) -> None:
        self._type = kind
        self._data: bytes | None = None  # as of the last turn that ended well
        self._value: Any = None  # the live value, None when it must be decoded anew
        self._base: bytes | None = None  # the live value as it was when no turn had changed it yet
        self._rest: Rest = {}  # what is on disk and its type does not know
        self._shelf: Shelf | None = None  # holds the parts of the live value that carry such fields
        self._loan: Shelf | None = None  # of the turn that put such parts of its own in: the next one decodes it anew

    def load(self, data: bytes | None) -> None:
        """The object wakes: this is what is on disk."""
        self._data = data
        self._value = None

    def get(self, activation: ObjectRuntime) -> Any:
        turn = self._turn(activation)
        if turn.is_reader:
            # A copy: the running turn may be changing the live value and may still fail.
            if turn.state_copy is None:
                turn.state_copy = self._decode(activation.id, self._data)[0]
            return turn.state_copy
        turn.state_used = True
        if self._loan is not None and self._loan is not turn.shelf:
            self._loan = self._value = None
        if self._value is None:
            return self._make(activation.id, turn.shelf)
        return self._value

    def _make(self, id: ObjectId, shelf: Shelf | None) -> Any:
        """The live value, of what is stored."""
        self._become(id, self._data, shelf)
        if (made := made_up(self._type)) and (self._data is None or not made <= names_in(self._data)):
            self._base = (
                None  # what was made up for it (an id, a time) is nowhere yet, and must not be another next time
            )
        else:
            self._base = encode_fields(self._value, self._rest)  # not what is on disk: that may be another version's
        return self._value

    def set(self, activation: ObjectRuntime, value: Any) -> None:
        turn = self._turn(activation)
        turn.check_writable()
        if not isinstance(value, self._type):
            raise BadValue(
                f"{activation.id}: state must be a {self._type.__name__}, not {type(value).__name__}",
                code="state.type",
            )
        turn.state_used = True
        if self._loan is not turn.shelf:
            self._loan = None  # it was about the value that goes: else the next look would take this one for that
        if self._value is None:
            self._base = self._data
            self._rest = {} if self._data is None else unknown_fields(self._type, self._data)
        self._value = value

    def raw(self, activation: ObjectRuntime) -> "RawState":
        raise BadOption(
            f"{activation.id}: ctx.raw_state is for the functions in `migrations`; everywhere else use self.state",
            code="state.raw",
        )

    def collect(self, turn: Turn) -> None:
        """Put the state among the turn's writes if it changed."""
        if not turn.state_used or turn.is_reader or self._value is None:
            return  # None: a savepoint that first touched it was undone, so nothing changed
        try:
            data = encode_fields(self._value, self._rest)
        except BadValue as error:
            raise BadValue(f"{turn.activation.id}: state: {error.message}", code=error.code) from None
        if data != turn.writes.get(STATE_SLOT, self._base):
            check_value_size("state", len(data))
            self._check_fit(turn)
            if turn.shelf is not self._shelf:
                self._loan = turn.shelf
            turn.writes[STATE_SLOT] = data

    def adopt(self, data: bytes | None) -> None:
        """A turn that changed it ended well, or came to a durable point."""
        self._data = self._base = data

    def has_changed(self, turn: Turn) -> bool:
        """The turn, which is being undone, has changed it."""
        try:
            return (
                not turn.is_reader and self._value is not None and encode_fields(self._value, self._rest) != self._base
            )
        except BadValue:
            return True  # into something that can't be saved

    def forget(self) -> None:
        """The turn failed: what is right is what the last good one left."""
        self._value = None

    def snapshot(self) -> bytes | None:
        """The live value as bytes, None when there is none."""
        return None if self._value is None else encode_fields(self._value, self._rest)

    def restore(self, id: ObjectId, snapshot: bytes | None, shelf: Shelf | None) -> None:
        """Back to what it was when the snapshot was taken; None: no turn had touched it."""
        if snapshot is None:
            self._value = None
        else:
            self._become(id, snapshot, shelf)

    def _become(self, id: ObjectId, data: bytes | None, shelf: Shelf | None) -> None:
        self._value, self._rest = self._decode(id, data)
        self._shelf = shelf

    def _decode(self, id: ObjectId, data: bytes | None) -> tuple[Any, Rest]:
        if data is None:
            return self._type(), {}
        try:
            value, rest = decode_fields(self._type, data)
        except Undecodable as error:
            raise type(error)(f"{id}: state: {error.message}", code=error.code) from None
        if not fits(value) and (wrong := misfit(value)) is not None:
            raise Unfit(
                f"{id}: state.{wrong.path} is stored as {wrong.stored}, and {self._type.__name__} wants "
                f"{wrong.wanted}; what is stored was left as it is. Go back to the program that wrote it, or give the "
                "field a name of its own",
                **wrong._asdict(),
            )
        return value, rest

    def _check_fit(self, turn: Turn) -> None:
        """Refuse what could not be read again, while the turn that made it can still be undone."""
        if not fits(self._value) and (wrong := misfit(self._value)) is not None:
            raise BadValue(
                f"{turn.activation.id}: state.{wrong.path} would be stored as {wrong.stored}, and "
                f"{self._type.__name__} wants {wrong.wanted}",
                code="state.fit",
            )

    def _turn(self, activation: ObjectRuntime) -> Turn:
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


NO_STATE = State(None)  # of all objects whose class declares none


# How does a migration see the state, before it is decoded as what its class says today?


class RawState(MutableMapping[str, Any]):
    """The stored fields of the state by name, whatever its class says today: what a migration leaves here is stored.

    A field is decoded when somebody looks at it; those at which nobody looks go out as they came in.
    """

    __slots__ = ("_is_touched", "_read", "_unread", "stored")

    def __init__(self, data: bytes | None) -> None:
        self.stored = data
        self.go_back(None)

    def go_back(self, snapshot: bytes | None) -> None:
        """To what it was when the snapshot was taken; None: to what is stored."""
        data = self.stored if snapshot is None else snapshot
        self._unread: Rest = {} if data is None else unread_fields(data)
        self._read: dict[str, Any] = {}  # or written
        self._is_touched = snapshot is not None

    def __getitem__(self, name: str) -> Any:
        if name in self._unread:
            self._is_touched = True  # it may be changed in place
            self._read[name] = read_field(self._unread[name])
            del self._unread[name]
        return self._read[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._is_touched = True
        self._unread.pop(name, None)
        self._read[name] = value

    def __delitem__(self, name: str) -> None:
        self._is_touched = True
        del (self._unread if name in self._unread else self._read)[name]

    def __contains__(self, name: object) -> bool:
        return name in self._unread or name in self._read

    def __iter__(self) -> Iterator[str]:
        return iter([*self._unread, *self._read])

    def __len__(self) -> int:
        return len(self._unread) + len(self._read)

    def __repr__(self) -> str:
        return f"<raw state: {', '.join(self) or 'nothing is stored'}>"

    def snapshot(self) -> bytes:
        return join_fields(self._read, self._unread)

    def encode(self) -> bytes | None:
        """The row to be: as it was when nobody looked, None when there is nothing to keep."""
        if not self._is_touched:
            return self.stored
        if not self:
            return None
        data = self.snapshot()
        check_value_size("state", len(data))
        return data


class UnmigratedState(State):
    """Stands for the state while the object is being migrated: there are its stored fields, and nothing typed."""

    __slots__ = ("_raw",)

    def __init__(self, raw: RawState) -> None:
        super().__init__(None)
        self._raw = raw

    def raw(self, activation: ObjectRuntime) -> RawState:
        running_turn(activation, "raw_state").state_used = True
        return self._raw

    def get(self, activation: ObjectRuntime) -> Any:
        raise BadOption(
            f"{activation.id}: state is typed by the class of today, and this object is just being migrated; use "
            "ctx.raw_state, its stored fields by name",
            code="state.migration",
        )

    def set(self, activation: ObjectRuntime, value: Any) -> None:
        self.get(activation)

    def collect(self, turn: Turn) -> None:
        """Somebody wants a durable point, in the middle of a migration."""
        raise BadOption(
            f"{turn.activation.id}: ctx.commit() in a migration would keep half of it; it commits with the turn",
            code="turn.migration",
        )

    def has_changed(self, turn: Turn) -> bool:
        return False  # there is nothing in memory yet that could hold it

    def snapshot(self) -> bytes | None:
        return self._raw.snapshot()

    def restore(self, id: ObjectId, snapshot: bytes | None, shelf: Shelf | None) -> None:
        self._raw.go_back(snapshot)
