"""Layer 4. Which schedules does a class declare, and how do its objects come to have them?"""

import inspect
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from wakeful.runtime.turn import Turn
from wakeful.schedules.handlers import check_arguments, check_handler, check_missed
from wakeful.schedules.options import check_schedule_name, parse_options, parse_spec_options
from wakeful.schedules.records import Book, Options, Record, encode_struct
from wakeful.schedules.steps import retire
from wakeful.specs.spec import Spec
from wakeful.values.errors import BadHandler, BadOption

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.runtime.registry import ObjectClass

Declared = dict[str, tuple[Spec, Options]]
MARK = "__wakeful_schedules__"  # what `@every…` leaves on a method


def declared_in(cls: type) -> Declared:
    """The schedules that the methods of a class are decorated with, by name; wrong ones are an error here."""
    declared: Declared = {}
    for attr, method in inspect.getmembers_static(cls):
        if isinstance(method, (staticmethod, classmethod)) and hasattr(method.__func__, MARK):
            raise BadHandler(
                f"{cls.__name__}.{attr} is declared with `@every` and can't be a {type(method).__name__}; "
                f"drop `@{type(method).__name__}`",
                code="handler.type",
            )
        for mark in getattr(method, MARK, ()) if inspect.isfunction(method) else ():
            check_handler(cls, attr)
            check_arguments(method, (), {}, what="handler declared with `@every`")
            options = dict(mark.options)
            name = check_schedule_name(options.pop("name", attr))
            if name in declared:
                raise BadOption(
                    f"{cls.__name__} declares two schedules called {name!r}; give one of them name='…'",
                    code="schedule.twice",
                )
            spec = parse_spec_options(mark.spec, options)
            parsed = parse_options(spec, attr, (), {}, options)
            if parsed.on_missed is not None:
                check_missed(cls, parsed.on_missed)
            declared[name] = (spec, parsed)
    for name, (_, parsed) in declared.items():
        check_dependencies(name, parsed.depends_on, {n: o.depends_on for n, (_, o) in declared.items()})
    return declared


def check_dependencies(name: str, depends_on: tuple[str, ...], others: Mapping[str, tuple[str, ...]]) -> None:
    """`BadOption` when a dependency is unknown, or when they go round in a circle."""
    for other in depends_on:
        if other not in others:
            raise BadOption(
                f"schedule {name!r} depends on {other!r}, which is not there; add that one first",
                code="schedule.depends_on",
            )
    path, seen = [name], set()
    ahead = list(depends_on)
    while ahead:
        other = ahead.pop()
        if other == name:
            raise BadOption(f"schedule {name!r} would wait for itself, by way of {path[-1]!r}", code="schedule.circle")
        if other not in seen:
            seen.add(other)
            path.append(other)
            ahead += others.get(other, ())


class Declarations:
    """What this program declares, looked at once per class."""

    def __init__(self, upsert: Callable[..., Any]) -> None:
        self._upsert = upsert
        self._by_class: dict[type, tuple[Declared, bytes]] = {}
        self._by_key: dict[type, Callable[[str], Declared]] = {}

    def check(self, cls: type) -> None:
        """Raise now what would be wrong with the class's declarations later."""
        self._of_class(cls)

    def by_key(self, cls: type, find: Callable[[str], Declared]) -> None:
        """Objects of this class have schedules by their key instead of by their methods."""
        self._by_key[cls] = find

    def are_in(self, known: "ObjectClass") -> bool:
        return known.cls in self._by_key or bool(self._of_class(known.cls)[0])

    def is_orphan(self, activation: "ObjectRuntime", name: str) -> bool:
        """A schedule that was declared once is no more."""
        return name not in self._of(activation)[0] and not self._is_of_another(activation)

    def _is_of_another(self, activation: "ObjectRuntime") -> bool:
        """This program lacks the whole object, and so is older or newer than the one that has it: nothing to judge by."""
        return not activation.node.registry.has(activation.id)

    async def reconcile(self, activation: "ObjectRuntime", turn: Turn) -> None:
        """Bring the object's declared schedules in line with its class: new ones begin, changed ones get a version,
        those that are gone retire, and all others are left alone."""
        if self._is_of_another(activation):
            return
        declared, print_ = self._of(activation)
        book = Book(turn)
        meta = await book.meta()
        if meta.declared == print_:
            return
        now = activation.node.clock.now()
        for name in meta.prints:
            record = None if name in declared else await book.get(name)
            if record is not None and record.is_declared:
                retire(book, turn, name, record, now)
        prints = {name: _fingerprint({name: found}) for name, found in declared.items()}
        for name in _in_order(declared):
            # One that is declared as before stays as it is, though it may have been changed or cancelled at run time.
            if meta.prints.get(name) != prints[name]:
                spec, options = declared[name]
                await self._upsert(turn, name, spec, options, is_declared=True, is_named=True)
        meta = await book.meta()
        meta.declared, meta.prints = print_, prints
        book.put_meta(meta)

    async def retire_orphan(self, turn: Turn, book: Book, name: str, record: Record) -> None:
        """It is due and no longer declared; the object may never be reconciled with a class that declares nothing."""
        retire(book, turn, name, record, turn.fired_at)
        meta = await book.meta()
        meta.declared = b""
        meta.prints.pop(name, None)
        book.put_meta(meta)

    def _of(self, activation: "ObjectRuntime") -> tuple[Declared, bytes]:
        find = self._by_key.get(activation.known.cls)
        if find is not None:
            declared = find(activation.id.key)
            return declared, _fingerprint(declared)
        return self._of_class(activation.known.cls)

    def _of_class(self, cls: type) -> tuple[Declared, bytes]:
        found = self._by_class.get(cls)
        if found is None:
            declared = declared_in(cls)
            found = self._by_class[cls] = (declared, _fingerprint(declared) if declared else b"")
        return found


def _in_order(declared: Declared) -> list[str]:
    """The names, each after those that it depends on; there are no circles."""
    order: dict[str, None] = {}

    def place(name: str) -> None:
        for other in declared[name][1].depends_on:
            if other not in order:
                place(other)
        order[name] = None

    for name in declared:
        place(name)
    return list(order)


def _fingerprint(declared: Declared) -> bytes:
    digest = blake2b(digest_size=12)
    for name, (spec, options) in sorted(declared.items()):
        digest.update(f"{name}\0{spec.text}\0".encode() + encode_struct(options))
    return digest.digest()
