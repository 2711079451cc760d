"""Layer 5. What does somebody else's pickle say, without running any of it?

A pickle is a program that may call whatever it names. Here a small machine of our own reads its opcodes, and the pickle
module's is not asked: containers, times and zones are made of checked parts, the other program's own classes become
`Thing`s, which hold what they were made of and do nothing, and nothing that was there before can be changed. Opcodes,
what they come to when it is written out, and how deeply it is nested are bounded: a few bytes can say a value that
doubles forty times, or keys that all hash alike. Anything else ends the reading, and its name is the reason.
"""

import pickletools
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from wakeful.importers.findings import DEPTH_MAX, bad
from wakeful.values.errors import BadValue

BYTES_MAX = 16 * 1024 * 1024
OPCODES_MAX = 1_000_000
PARTS_MAX = 500_000  # of the value, with everything that is in it twice counted twice
WEIGHT_MAX = 32 * 1024 * 1024  # bytes of text in these
KEY_INT_MAX = 1 << 60  # whole numbers up to here hash to themselves: no two of them alike
INT_BITS_MAX = 4_096  # to write a longer one down takes the square of its length
DECIMAL_MAX = 1_000  # digits, and places before or behind the point


class Thing:
    """An object of a class that is not here: its name, what it was called with, and its state."""

    def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):  # a tuple: of `__dict__` and of slots
            if isinstance(part, dict):
                self.state.update(part)


class _Refused(Exception):
    """What ends the reading: a name, or words."""


class _Global:
    """A name of the pickle's: what is made of it when it is called."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name = name
        self.make = make


# what may be made, of which parts


def _zone(key: str = "UTC", *rest: Any) -> ZoneInfo:
    if not isinstance(key, str) or len(key) > 255:
        raise _Refused("a zone without a name")
    return ZoneInfo(key)


def _attribute(owner: Any, name: Any) -> _Global:
    """All that is ever asked for in this way is how a zone is unpickled."""
    if isinstance(owner, _Global) and owner.name == "zoneinfo.ZoneInfo" and name == "_unpickle":
        return owner
    raise _Refused(f"getattr(…, {str(name)[:40]!r})")


def _encode(text: Any, name: Any = "latin1") -> bytes:
    """How old pickles write bytes."""
    if name != "latin1" or not isinstance(text, str):
        raise _Refused(f"text in {str(name)[:40]}")
    return text.encode("latin1")


def _set(items: Any = ()) -> set[Any]:
    return {_key(one) for one in _items(items)}


def _bytearray(data: Any = b"", *encoding: Any) -> bytearray:
    """Of bytes; of a number it would have that many."""
    if isinstance(data, str) and encoding == ("latin-1",):
        data = data.encode("latin1")
    if not isinstance(data, bytes):
        raise _Refused("a bytearray of something else than bytes")
    return bytearray(data)


def _bytes() -> bytes:
    """How old pickles write none at all."""
    return b""


def _mapping(items: Any = ()) -> dict[Any, Any]:
    found = {}
    for pair in items.items() if isinstance(items, dict) else _items(items):
        name, value = _items(pair)
        found[_key(name)] = value
    return found


def _decimal(text: Any = "0") -> Decimal:
    if not isinstance(text, str) or len(text) > DECIMAL_MAX:
        raise _Refused("a Decimal that is no short text")
    found = Decimal(text)
    if found.is_finite() and abs(found.adjusted()) > DECIMAL_MAX:
        raise _Refused(f"a Decimal of more than {DECIMAL_MAX:,} places")
    return found


def _uuid() -> UUID:
    """A blank: what it is comes as its state."""
    found = object.__new__(UUID)
    _fill_uuid(found, {"int": 0})
    return found


def _fill_uuid(blank: UUID, state: Any) -> None:
    number = state.get("int") if isinstance(state, dict) else None
    if type(number) is not int or not 0 <= number < 1 << 128:
        raise _Refused("a UUID that is no number")
    object.__setattr__(blank, "int", number)
    object.__setattr__(blank, "is_safe", SafeUUID.unknown)


def _items(value: Any) -> Any:
    if not isinstance(value, list | tuple | set | frozenset):
        raise _Refused(f"items of a {type(value).__name__}")
    return value


def _key(value: Any) -> Any:
    """What may be a key or in a set: whose hash is cheap, and nobody can make many of that hash alike."""
    if type(value) is int and -KEY_INT_MAX < value < KEY_INT_MAX:
        return value
    if value is None or isinstance(value, str | bytes | bool | float):
        return value
    raise _Refused(f"a key, or a part of a set, that is a {type(value).__name__}")


_MADE: dict[str, Callable[..., Any]] = {
    "builtins.getattr": _attribute,
    "builtins.set": _set,
    "builtins.frozenset": lambda items=(): frozenset(_set(items)),
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _bytes,
    "collections.OrderedDict": _mapping,
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "decimal.Decimal": _decimal,
    "uuid.UUID": _uuid,
    "zoneinfo.ZoneInfo": _zone,
    "zoneinfo.ZoneInfo._unpickle": _zone,
    "pytz._UTC": _zone,
    "pytz._p": _zone,
    "_codecs.encode": _encode,
}
_MADE |= {
    f"__builtin__.{name[9:]}": made for name, made in _MADE.items() if name.startswith("builtins.")
}  # of old ones

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PLAIN = {  # opcodes whose argument is the value
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple}
_COUNTS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """The stack of a pickle and what it remembers; every opcode has a bound of its own."""

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = allowed
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        """The value that is left when it ends."""
        for count, (opcode, arg, _) in enumerate(pickletools.genops(data)):
            if count >= OPCODES_MAX:
                raise _Refused(f"more than {OPCODES_MAX:,} steps")
            if opcode.name == "STOP":
                break
            self._do(opcode.name, arg)
        [value] = self._stack
        return value

    def _do(self, name: str, arg: Any) -> None:
        stack = self._stack
        if name in _PLAIN:
            if type(arg) is int and arg.bit_length() > INT_BITS_MAX:
                raise _Refused(f"a number of more than {INT_BITS_MAX:,} bits")
            stack.append(arg)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[arg] = self._top()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[arg])
        elif name in _COUNTS:
            parts = [self._pop() for _ in range(_COUNTS[name])]
            stack.append(tuple(parts[::-1]))
        else:
            rule = _RULES.get(name)
            if rule is None:
                raise _Refused("something outside of the file" if "PERS" in name or "EXT" in name else f"a step {name}")
            rule(self, arg)

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise _Refused("nothing where something should be")
        return self._stack[-1]

    def _pop(self) -> Any:
        value = self._top()
        self._stack.pop()
        return value

    def _pop_mark(self) -> list[Any]:
        """What was put there since the last mark, which goes with it."""
        stack = self._stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise _Refused("an end without a beginning")
        found = stack[at + 1 :]
        del stack[at:]
        return found

    def _push_named(self, module: Any, name: Any) -> None:
        full = f"{module}.{name}"
        if full in _MADE:
            self._stack.append(_Global(full, _MADE[full]))
        elif any(full.startswith(prefix) for prefix in self._allowed):
            self._stack.append(_Global(full, lambda *args, **kwargs: Thing(full, *args, **kwargs)))
        else:
            raise _Refused(full)

    def _call(self, made: Any, args: Any, kwargs: Any = None) -> None:
        if not isinstance(made, _Global) or not isinstance(args, tuple | list):
            raise _Refused("a call of what can't be called")
        self._stack.append(made.make(*args, **(kwargs or {})))

    # one rule for each other opcode

    def do_pop(self, arg: Any) -> None:
        self._stack.pop()

    def do_pop_mark(self, arg: Any) -> None:
        self._pop_mark()

    def do_global(self, arg: str) -> None:
        self._push_named(*arg.split(" ", 1))

    def do_stack_global(self, arg: Any) -> None:
        name, module = self._pop(), self._pop()
        self._push_named(module, name)

    def do_reduce(self, arg: Any) -> None:
        args, made = self._pop(), self._pop()
        self._call(made, args)

    def do_newobj_ex(self, arg: Any) -> None:
        kwargs, args, made = self._pop(), self._pop(), self._pop()
        self._call(made, args, kwargs)

    def do_inst(self, arg: str) -> None:
        args = self._pop_mark()
        self._push_named(*arg.split(" ", 1))
        self._call(self._pop(), args)

    def do_obj(self, arg: Any) -> None:
        made, *args = self._pop_mark()
        self._call(made, args)

    def do_build(self, arg: Any) -> None:
        """Only what this pickle has made takes a state: nothing of ours, nor of Python's."""
        state, made = self._pop(), self._top()
        if isinstance(made, Thing):
            made.__setstate__(state)
        elif isinstance(made, UUID):
            _fill_uuid(made, state)
        else:
            raise _Refused(f"a state for a {type(made).__name__}")

    def do_append(self, arg: Any) -> None:
        self._extend([self._pop()])

    def _extend(self, values: list[Any]) -> None:
        found = self._top()
        if type(found) is not list:
            raise _Refused(f"items for a {type(found).__name__}")
        found += values

    def do_additems(self, arg: Any) -> None:
        values, found = self._pop_mark(), self._top()
        if type(found) is not set:
            raise _Refused(f"items for a {type(found).__name__}")
        found.update(map(_key, values))

    def do_setitem(self, arg: Any) -> None:
        value, name = self._pop(), self._pop()
        self._assign([name, value])

    def _assign(self, pairs: list[Any]) -> None:
        found = self._top()
        if type(found) is not dict:
            raise _Refused(f"items for a {type(found).__name__}")
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            found[_key(name)] = value

    def do_dict(self, arg: Any) -> None:
        pairs = self._pop_mark()
        self._stack.append({})
        self._assign(pairs)


_RULES: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, arg: None,
    "FRAME": lambda machine, arg: None,
    "MARK": lambda machine, arg: machine._stack.append(_MARK),
    "POP": _Machine.do_pop,
    "POP_MARK": _Machine.do_pop_mark,
    "DUP": lambda machine, arg: machine._stack.append(machine._top()),
    "LIST": lambda machine, arg: machine._stack.append(machine._pop_mark()),
    "TUPLE": lambda machine, arg: machine._stack.append(tuple(machine._pop_mark())),
    "FROZENSET": lambda machine, arg: machine._stack.append(frozenset(map(_key, machine._pop_mark()))),
    "DICT": _Machine.do_dict,
    "APPEND": _Machine.do_append,
    "APPENDS": lambda machine, arg: machine._extend(machine._pop_mark()),
    "SETITEM": _Machine.do_setitem,
    "SETITEMS": lambda machine, arg: machine._assign(machine._pop_mark()),
    "ADDITEMS": _Machine.do_additems,
    "GLOBAL": _Machine.do_global,
    "STACK_GLOBAL": _Machine.do_stack_global,
    "REDUCE": _Machine.do_reduce,
    "NEWOBJ": _Machine.do_reduce,
    "NEWOBJ_EX": _Machine.do_newobj_ex,
    "INST": _Machine.do_inst,
    "OBJ": _Machine.do_obj,
    "BUILD": _Machine.do_build,
}


def _weigh(value: Any) -> None:
    """That somebody who walks over it, and does not know that a part has been there before, comes to an end."""
    weight, parts, level = 0, 0, [value]
    for _ in range(DEPTH_MAX):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, str | bytes | bytearray):
                weight += len(part)
            elif isinstance(part, list | tuple | set | frozenset):
                inner += part
            elif isinstance(part, dict):
                inner += part
                inner += part.values()
            elif isinstance(part, Thing):
                inner += [part.args, part.kwargs, part.state]
            elif isinstance(part, _Global):
                raise _Refused(part.name)
            if len(inner) > PARTS_MAX:
                break
        parts += len(inner)
        if weight > WEIGHT_MAX or parts > PARTS_MAX:
            raise _Refused("far more than it is long: the same parts again and again")
        if not inner:
            return
        level = inner
    raise _Refused(f"parts nested more than {DEPTH_MAX} deep")


def read(data: bytes, path: str, allowed: Collection[str]) -> Any:
    """The value; `BadValue` names what it holds that is neither plain data nor begins like one of those allowed."""
    if len(data) > BYTES_MAX:
        raise bad(path, f"it has {len(data):,} bytes; {BYTES_MAX:,} is the most")
    try:
        value = _Machine(allowed).run(data)
        _weigh(value)
        return value
    except _Refused as error:
        what = str(error)[:200]
        is_name = "." in what and " " not in what
        raise bad(path, f"it holds {what}{', which is no plain data' if is_name else ''}") from None
    except BadValue:
        raise
    except Exception as error:  # a damaged one can fail in any way
        raise bad(path, f"it can't be read: {type(error).__name__}: {str(error)[:200]}") from None
