"""Layer 3. Which classes does this process know, and which of their methods may be called?"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from wakeful.runtime.migrations import ObjectMigration, read_migrations
from wakeful.values.codec import look_in
from wakeful.values.errors import BadHandler, BadInput, BadName, BadTime, UnknownClass, UnknownMethod
from wakeful.values.ids import ObjectId, check_class
from wakeful.values.times import duration_ms

# What is wrong with a class, before any object of it lives?
#
# Each of these would otherwise be found by the first caller, far from the line that is to blame.

# What Wakeful calls, and with what besides self.
HOOKS = {
    "on_wake": (),
    "on_connect": ("socket", "request"),
    "on_message": ("socket", "message"),
    "on_close": ("socket", "code", "reason", "was_clean"),
}
OWN = "__wakeful_names__"  # of a base class of ours: what its objects have under these names
PLAIN = "__wakeful_plain__"  # and what they may give it that is not awaited
HISTORY = "__wakeful_history__"  # `history` of a class that may have a method of that name
DECLARED = "__wakeful_schedules__"  # what `@every…` leaves on a method


def check_shape(cls: type, name: str) -> None:
    """`BadInput` or `BadHandler` for what could never work."""
    for hook, given in HOOKS.items():
        _check_hook(cls, name, hook, given)
    for attr, found in _methods(cls):
        if getattr(found, "__wakeful_reader__", False) and not inspect.iscoroutinefunction(found):
            raise BadInput(f"{name}.{attr} is a @reader and must be `async def`, and return", code="class.reader")
    _check_names(cls, name)
    _check_declared(cls, name)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for attr in dir(cls):
        found = inspect.getattr_static(cls, attr)
        if inspect.isfunction(found):
            yield attr, found


def _check_hook(cls: type, name: str, hook: str, given: tuple[str, ...]) -> None:
    function = inspect.getattr_static(cls, hook, None)
    if function is None:
        return
    if not inspect.iscoroutinefunction(function):
        raise BadInput(f"{name}.{hook} must be `async def`", code="class.hook")
    try:
        inspect.signature(function).bind(None, *given)
    except TypeError:
        raise BadInput(f"{name}.{hook} must take ({', '.join(('self', *given))})", code="class.hook") from None


def _check_names(cls: type, name: str) -> None:
    """A method may not hide what our base class has under its name; one that hands on to it hides nothing."""
    below: list[type] = []
    for base in cls.__mro__:
        for own in base.__dict__.get(OWN, ()):
            hiding = [one.__dict__[own] for one in below if inspect.isroutine(one.__dict__.get(own))]
            if not all(_hands_on(one, base) for one in hiding):
                raise BadInput(
                    f"{name}.{own} hides the {own!r} of {base.__name__}, which its objects need; call it something else",
                    code="class.name",
                )
        for plain in base.__dict__.get(PLAIN, ()):
            if inspect.iscoroutinefunction(inspect.getattr_static(cls, plain)):
                raise BadInput(f"{name}.{plain} must be `def`: its answer is not awaited", code="class.plain")
        below.append(base)


def _hands_on(method: Any, base: type) -> bool:
    """It calls what it hides, with super() or by the name of the class; whatever decorators are around it."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    names = () if code is None else (*code.co_freevars, *code.co_names)
    return inspect.iscoroutinefunction(method) and ("__class__" in names or base.__name__ in names)


def _check_declared(cls: type, name: str) -> None:
    for attr, found in _methods(cls):
        above = [base for base in cls.__mro__ if hasattr(base.__dict__.get(attr), DECLARED)]
        if above and not hasattr(found, DECLARED):
            raise BadHandler(
                f"{name}.{attr} replaces one that {above[0].__name__} declares with @every, and has no schedule itself; "
                f"put the decorator on it too, or write `{attr} = None` and call yours something else",
                code="handler.declared",
            )


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


def for_operators(way: str) -> Callable[[F], F]:
    """Mark a method that the program may call, and callers outside it only in this way: it asks more of them, and is audited."""

    def mark(method: F) -> F:
        method.__wakeful_operators__ = way  # type: ignore[attr-defined]
        return method

    return mark


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
    migrations: tuple[ObjectMigration, ...] = ()  # each of which an object of it has had, or gets when it wakes
    is_gated: bool = False  # its events are no turns, see beside.py
    history_ms: int = 0  # for how long undo images of its objects' commits are kept; 0: there are none

    def check_method(self, name: str) -> None:
        """`UnknownMethod` unless callers outside may call it, with the reason."""
        if name in self.methods:
            return
        member = inspect.getattr_static(self.cls, name, None)
        if name.startswith("_"):
            reason = "is private (leading underscore)"
        elif member is None:
            close = [method for method in sorted(self.methods) if method[:2] == name[:2]]
            reason = f"does not exist; it has {', '.join(close or sorted(self.methods)) or 'no methods'}"
        elif name in LIFECYCLE:
            reason = "is called by Wakeful, not by callers"
        elif getattr(member, "__wakeful_internal__", False):
            reason = "is @internal"
        elif inspect.isasyncgenfunction(member):
            reason = "is an async generator, and a call has one answer; return a list"
        else:
            reason = (
                "is not an `async def` method of the class; a plain `def` is called in a thread with @in_thread on it"
            )
        raise UnknownMethod(f"{self.name}.{name} {reason}")

    def check_outside(self, name: str) -> None:
        """`UnknownMethod` unless callers outside the program may call it, with the reason."""
        self.check_method(name)
        way = self._way(name)
        if way is not None:
            raise UnknownMethod(
                f"{self.name}.{name} is for the program's own code and for operators: {way}", code="method.operators"
            )

    @property
    def outside(self) -> list[str]:
        """The methods that callers outside the program may call, by name."""
        return sorted(name for name in self.methods if self._way(name) is None)

    def _way(self, name: str) -> str | None:
        """By which operators reach what others outside may not call."""
        way: str | None = getattr(getattr(self.cls, name), "__wakeful_operators__", None)
        return way


class Registry:
    """The classes by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, ObjectClass] = {}
        self._by_class: dict[type, ObjectClass] = {}
        # Of each store in memory and shard, epochs that nodes of this program ended cleanly while it was away.
        self.ended: dict[str, dict[int, list[int]]] = {}

    def add(self, cls: type, name: str | None = None) -> ObjectClass:
        """Register a class under its own name or the one given; a name can be taken once, or again at a prompt."""
        if not isinstance(cls, type):
            raise BadName(f"@app.object goes on a class, not on {cls!r}", code="name.class")
        known = _inspect(cls, check_class(name or cls.__name__))
        taken = self._by_name.get(known.name)
        if taken and taken.cls is not cls and not is_rewritten(taken.cls, cls):
            raise BadName(
                f"two classes are called {known.name}: {taken.cls.__module__}.{taken.cls.__qualname__} and "
                f"{cls.__module__}.{cls.__qualname__}; give one name='…'",
                code="name.taken",
            )
        check_shape(cls, known.name)
        self._by_name[known.name] = self._by_class[cls] = known
        _names[cls] = known.name
        look_in(cls.__module__)
        return known

    def by_name(self, name: str) -> ObjectClass:
        cls = self._by_name.get(name)
        if cls is None:
            known = sorted(one for one in self._by_name if not one.startswith("wakeful."))  # those are nobody's to name
            raise UnknownClass(
                f"class {name!r} is not registered here; known: {', '.join(known) or 'none'}. "
                "Put @app.object on it and import its module"
            )
        return cls

    def any(self, name: str) -> ObjectClass:
        """The class of that name; for one that is not registered here a bare one, enough to put its timers in order."""
        return self._by_name.get(name) or _inspect(_Unknown, name)

    def of_class(self, cls: type) -> ObjectClass:
        found = self._by_class.get(cls)
        if found is None and isinstance(cls, str):  # type: ignore[unreachable]
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

    def items(self) -> list[tuple[str, ObjectClass]]:
        return sorted(self._by_name.items())


def is_rewritten(before: Any, after: Any) -> bool:
    """The same class or function once more, written at a prompt, or in a cell of a notebook that is run again."""
    module = after.__module__
    is_same = (before.__module__, before.__qualname__) == (module, after.__qualname__)
    is_prompt = module == "__main__" and hasattr(sys, "ps1")  # what prompts set, IPython's too
    return is_same and (is_prompt or getattr(sys.modules.get(module), "__file__", None) is None)


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
    migrations = read_migrations(cls, name)
    steps = [migration.step for migration in migrations]  # nobody's to call, wherever they stand
    for attr in dir(cls):
        member = inspect.getattr_static(cls, attr)
        if attr.startswith("_") or attr in LIFECYCLE or not inspect.iscoroutinefunction(member):
            continue
        if getattr(member, "__wakeful_internal__", False) or getattr(member, "__wakeful_own__", False):
            continue
        if member in steps:
            continue
        methods.add(attr)
        if getattr(member, "__wakeful_reader__", False):
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
        is_gated=getattr(cls, "__wakeful_gated__", False),
        migrations=migrations,
        history_ms=_history_ms(cls, name),
    )


def _history_ms(cls: type, name: str) -> int:
    found = inspect.getattr_static(cls, HISTORY, None) or inspect.getattr_static(cls, "history", None)
    if found is None or inspect.isroutine(found) or isinstance(found, property):
        return 0  # a method that happens to be called so
    try:
        return duration_ms(found, what=f"{name}.history")
    except BadTime as error:
        raise BadInput(
            f'{error.message}; it says for how long the objects can be as they were: "30d"', code="class.history"
        ) from None


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
