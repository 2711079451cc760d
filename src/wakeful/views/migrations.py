"""Layer 5. How many objects of a class have had how many of its migrations? Seen from their rows, without waking one."""

from collections import Counter
from typing import NamedTuple

from wakeful.runtime.migrations import decode_number
from wakeful.store.protocol import Query, Store
from wakeful.values.commits import MIGRATIONS_SLOT, Info
from wakeful.values.errors import StoreError
from wakeful.values.ids import ObjectId
from wakeful.views.plain import many
from wakeful.views.view import View

LOOKED_AT = 1_000  # objects of a class, each of which is a small read


class Numbers(NamedTuple):
    """What was found in the first objects of a class, in each store."""

    counts: dict[int, int]  # how many objects have had so many migrations, fewest first
    is_all: bool  # there are no more objects of it

    def newer(self, known: int) -> int:
        """How many have had more than a program has that knows so many."""
        return sum(count for number, count in self.counts.items() if number > known)

    def words(self, known: int) -> str:
        """For people, beside a program that has so many."""
        parts = [f"{many(count, 'object')} {_had(number, known)}" for number, count in self.counts.items()]
        first = "" if self.is_all else f"of the first {sum(self.counts.values()):,}, "
        return first + (", ".join(parts) or "no objects yet")


def _had(number: int, known: int) -> str:
    if number == known:
        return "at the newest"
    return f"at {number}, newer than the program" if number > known else f"at {number}, until they wake"


async def numbers(view: View, cls: str, prefix: str | None = None, limit: int = LOOKED_AT) -> Numbers:
    """How many migrations objects of the class have had, of the first so many in each store."""
    counts: Counter[int] = Counter()
    is_all = True
    for store in view.stores:
        infos = await store.find_objects(Query(cls=cls, key_prefix=prefix, limit=limit + 1))
        is_all = is_all and len(infos) <= limit
        counts.update(await view.together(_number_of(store, info) for info in infos[:limit]))
    return Numbers(dict(sorted(counts.items())), is_all)


async def number_of(store: Store, id: ObjectId) -> int:
    """How many migrations that object has had."""
    space, name = MIGRATIONS_SLOT
    data = (await store.read(id, space, [name])).get(name)
    return 0 if data is None else decode_number(data)


async def _number_of(store: Store, info: Info) -> int:
    try:
        return await number_of(store, info.id)
    except (StoreError, ValueError):
        return 0  # sealed with a key that is not here, or damaged: whoever wakes it is told
