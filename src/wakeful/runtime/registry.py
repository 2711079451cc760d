"""Layer 3. Which classes does this process know, and which of their methods may be called?"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from wakeful.runtime.shape import check_shape
from wakeful.values.codec import look_in
from wakeful.values.errors import BadInput, BadName, UnknownClass, UnknownMethod
from wakeful.values.ids import ObjectId, check_class

F = TypeVar("F", bound=Callable[..., Any])

# Called by the node, never by people.
LIFECYCLE = frozenset({"alarm", "on_wake", "on_connect", "on_message", "on_close"})


def reader(method: F) -> F:
    """Mark a method that only reads: it runs beside other readers and beside a turn that is waiting.

    >>> from wakeful import App, DurableObject, reader
    >>> app = App()
    >>> @app.object
    ... class Counter(DurableObject):
    ...     @reader
    ...     async def total(self) -> int:
    ...         return await self.storage.get("total", 0)
    >>> async with app.world() as world:
    ...     print(await app.get(Counter, "a").total())
    0
    """
    method.__wakeful_reader__ = True  # type: ignore[attr-defined]
    return method


def internal(method: F) -> F:
    """Mark a public-looking method that callers outside the object may not call.

    >>> from wakeful import App, DurableObject, errors, internal
    >>> app = App()
    >>> @app.object
    ... class Safe(DurableObject):
    ...     @internal
    ...     async def unlock(self) -> None: ...
    >>> async with app.world() as world:
    ...     try:
    ...         await app.get(Safe, "a").unlock()
    ...     except errors.UnknownMethod as error:
    ...         print(error.code)
    method.unknown
    """
    method.__wakeful_internal__ = True  # type: ignore[attr-defined]
    return method


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectClass:
    """A registered class, looked at once."""

    name: str
    cls: type
    readers: frozenset[str]
    methods: frozenset[str]  # callable from outside, readers included
    takes_info: bool | None  # whether `alarm` wants its info; None when there is no `alarm`
    wakes: bool  # has on_wake
    is_plain: bool  # neither on_wake nor a constructor of its own: waking it runs no user code
    state_type: Any  # dataclass or struct, None when the class declares no state
    has_key: Callable[[str], bool] | None = None  # which of its objects this program has; None: all

    def check_method(self, name: str) -> None:
        """`UnknownMethod` unless callers outside may call it, with the reason."""
        if name in self.methods:
            return
        found = inspect.getattr_static(self.cls, name, None)
        if name.startswith("_"):
            reason = "is private (leading underscore)"
        elif found is None:
            close = [method for method in sorted(self.methods) if method[:2] == name[:2]]
            reason = f"does not exist; it has {', '.join(close or sorted(self.methods)) or 'no methods'}"
        elif name in LIFECYCLE:
            reason = "is called by Wakeful, not by callers"
        elif getattr(found, "__wakeful_internal__", False):
            reason = "is @internal"
        elif inspect.isasyncgenfunction(found):
            reason = "is an async generator, and a call has one answer; return a list"
        else:
            reason = "is not an `async def` method of the class"
        raise UnknownMethod(f"{self.name}.{name} {reason}")


class Registry:
    """The classes by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, ObjectClass] = {}
        self._by_class: dict[type, ObjectClass] = {}
        # Of each store in memory and shard, epochs that nodes of this program ended cleanly while it was away.
        self.ended: dict[str, dict[int, list[int]]] = {}

    def add(self, cls: type, name: str | None = None) -> ObjectClass:
        """Register a class under its own name or the one given; a name can be taken once."""
        if not isinstance(cls, type):
            raise BadName(f"@app.object goes on a class, not on {cls!r}", code="name.class")
        found = _inspect(cls, check_class(name or cls.__name__))
        taken = self._by_name.get(found.name)
        if taken and taken.cls is not cls:
            raise BadName(
                f"two classes are called {found.name}: {taken.cls.__module__}.{taken.cls.__qualname__} and "
                f"{cls.__module__}.{cls.__qualname__}; give one name='…'",
                code="name.taken",
            )
        check_shape(cls, found.name)
        self._by_name[found.name] = self._by_class[cls] = found
        _names[cls] = found.name
        look_in(cls.__module__)
        return found

    def named(self, name: str) -> ObjectClass:
        found = self._by_name.get(name)
        if found is None:
            known = sorted(one for one in self._by_name if not one.startswith("wakeful."))  # those are nobody's to name
            raise UnknownClass(
                f"class {name!r} is not registered here; known: {', '.join(known) or 'none'}. "
                "Put @app.object on it and import its module"
            )
        return found

    def any(self, name: str) -> ObjectClass:
        """The class of that name; for one that is not registered here a bare one, enough to put its timers in order."""
        return self._by_name.get(name) or _inspect(_Unknown, name)

    def of_class(self, cls: type) -> ObjectClass:
        found = self._by_class.get(cls)
        if found is None and isinstance(cls, str):
            raise UnknownClass(f"{cls!r} is a name; give the class itself (names are for clients: client.get)")
        if found is None:
            raise UnknownClass(f"{cls!r} is not registered with this app; put @app.object on it")
        return found

    def knows(self, name: str) -> bool:
        return name in self._by_name

    def has(self, id: ObjectId) -> bool:
        """This program can run that very object; one of another version may, when this one can't."""
        found = self._by_name.get(id.cls)
        return found is not None and (found.has_key is None or found.has_key(id.key))

    def names(self) -> list[str]:
        return sorted(self._by_name)


_names: WeakKeyDictionary[type, str] = WeakKeyDictionary()  # under which a class was registered last


def name_of(cls: type | str) -> str:
    """The name of a class for those who reach its objects over a wire: the one it is registered under, else its own."""
    return cls if isinstance(cls, str) else _names.get(cls, cls.__name__)


def looked_at(cls: type) -> ObjectClass:
    """A class that is registered elsewhere, for a stub of its objects."""
    return _inspect(cls, check_class(name_of(cls)))


class _Unknown:
    """Stands for a class that this program does not have; it is never woken."""


def _inspect(cls: type, name: str) -> ObjectClass:
    methods, readers = set(), set()
    for attr in dir(cls):
        found = inspect.getattr_static(cls, attr)
        if attr.startswith("_") or attr in LIFECYCLE or not inspect.iscoroutinefunction(found):
            continue
        if getattr(found, "__wakeful_internal__", False) or getattr(found, "__wakeful_own__", False):
            continue
        methods.add(attr)
        if getattr(found, "__wakeful_reader__", False):
            readers.add(attr)
    readers.update(getattr(cls, "__wakeful_reader_operations__", ()))  # a feature's, which callers can't name
    wakes = _has_hook(cls, name, "on_wake")
    return ObjectClass(
        name=name,
        cls=cls,
        readers=frozenset(readers),
        methods=frozenset(methods),
        takes_info=_takes_info(cls, name),
        wakes=wakes,
        is_plain=not wakes and getattr(inspect.getattr_static(cls, "__init__"), "__wakeful_own__", False),
        state_type=_state_type(cls, name),
        has_key=getattr(cls, "__wakeful_has_key__", None),
    )


def _has_hook(cls: type, name: str, hook: str) -> bool:
    found = inspect.getattr_static(cls, hook, None)
    if found is None:
        return False
    if not inspect.iscoroutinefunction(found):
        raise BadInput(f"{name}.{hook} must be `async def`", code="class.hook")
    return True


def _takes_info(cls: type, name: str) -> bool | None:
    if not _has_hook(cls, name, "alarm"):
        return None
    count = len(inspect.signature(inspect.getattr_static(cls, "alarm")).parameters)
    if count not in (1, 2):
        raise BadInput(f"{name}.alarm takes (self) or (self, info), not {count} parameters", code="class.hook")
    return count == 2


def _state_type(cls: type, name: str) -> Any:
    if not any("state" in inspect.get_annotations(base) for base in cls.__mro__):
        return None
    hint = get_type_hints(cls)["state"]
    if hint is Any:
        return None
    if not (isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, msgspec.Struct))):
        raise BadInput(f"{name}.state must be a dataclass or msgspec.Struct, not {hint!r}", code="class.state")
    try:
        hint()
    except TypeError as error:
        raise BadInput(
            f"{name}.state: {hint.__name__}() must work without arguments: {error}", code="class.state"
        ) from None
    return hint
