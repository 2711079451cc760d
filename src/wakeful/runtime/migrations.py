"""Layer 3. Which migrations does a class declare, and how many of them has an object had?

`migrations = [...]` on a class: functions of the object, and SQL texts. Each runs once for each object, in order. How
many an object has had is a row beside its own, in the commit of what they did.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wakeful.values.codec import decode, encode
from wakeful.values.commits import MIGRATIONS_SLOT, Slot
from wakeful.values.errors import BadInput, ObjectTooNew, Undecodable
from wakeful.values.ids import ObjectId

ATTRIBUTE = "migrations"
TEXT_CHARS_MAX = 60  # of an SQL text, where one is named


class ObjectMigration(NamedTuple):
    """One of a class's migrations: a function of the object, or an SQL text."""

    number: int  # from 1 on, as it is counted with the object
    step: str | Callable[[Any], Any]

    @property
    def name(self) -> str:
        """What it is called in errors: the function's name, or how the text begins."""
        if not isinstance(self.step, str):
            return self.step.__name__
        text = " ".join(self.step.split())
        return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"


def read_migrations(cls: type, name: str) -> tuple[ObjectMigration, ...]:
    """The migrations of a class; `BadInput` names the first that can't be one."""
    steps = getattr(cls, ATTRIBUTE, ())
    if inspect.isfunction(steps) and steps.__name__ == ATTRIBUTE:
        return ()  # a method that happens to be called so, as one of a class of Cloudflare's may be
    if not isinstance(steps, list | tuple):
        raise _bad(name, f"must be a list of functions and SQL texts, not {type(steps).__name__}")
    migrations = tuple(ObjectMigration(number, step) for number, step in enumerate(steps, 1))
    names: dict[Any, int] = {}
    for migration in migrations:
        _check(migration, name)
        key = migration.step if isinstance(migration.step, str) else migration.step.__name__
        first = names.setdefault(key, migration.number)
        if first != migration.number:
            raise _bad(name, f"has {migration.name!r} twice, as number {first} and {migration.number}; each runs once")
    return migrations


def _check(migration: ObjectMigration, name: str) -> None:
    """What could never run, or could not be named in an error."""
    number, step = migration
    if isinstance(step, str):
        if not step.strip():
            raise _bad(name, f"number {number} is an empty text")
        return
    if not inspect.isfunction(step) or step.__name__ == "<lambda>":
        raise _bad(
            name, f"number {number} is {step!r}; give a function with a name (`def` or `async def`) or an SQL text"
        )
    if inspect.isasyncgenfunction(step) or inspect.isgeneratorfunction(step):
        raise _bad(name, f"number {number}, {step.__name__}, is a generator, which nobody would run to its end")
    try:
        inspect.signature(step).bind(None)
    except TypeError:
        raise _bad(name, f"number {number}, {step.__name__}, must take the object alone: (self)") from None


def _bad(name: str, what: str) -> BadInput:
    return BadInput(f"{name}.{ATTRIBUTE} {what}", code="class.migrations")


# How many an object has had


def number_in(rows: Mapping[Slot, bytes]) -> int:
    """How many migrations the object of these rows has had; 0 when nobody counted any."""
    data = rows.get(MIGRATIONS_SLOT)
    return 0 if data is None else decode_number(data)


def decode_number(data: bytes) -> int:
    """The number in the row; `Undecodable` when it is none."""
    number = decode(data)
    if type(number) is not int or number < 0:
        raise Undecodable(f"the number of migrations is stored as {number!r}", code="value.damaged")
    return number


def encode_number(number: int) -> bytes:
    """The row."""
    return encode(number)


def check_number(id: ObjectId, done: int, known: Sequence[ObjectMigration]) -> None:
    """`ObjectTooNew` when the object has had more migrations than the program has."""
    if done > len(known):
        raise ObjectTooNew(
            f"{id} has had {done} migrations, and this program has {len(known)} for {id.cls}: a newer program wrote it, "
            "and nothing was touched; finish the roll-out, so that a node of the newer program owns it, or go back to that "
            "program"
        )
