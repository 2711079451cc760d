"""Layer 5. What was meant by a name that there is not?"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.looking.view import View
    from wakeful.values.commits import Info
    from wakeful.values.ids import ObjectId

KEYS_LOOKED_AT = 500
MEANT_MAX = 3
ALIKE_MIN = 0.6


def meant(word: str, words: Iterable[str]) -> str:
    """`, did you mean 'x' or 'y'?`, or nothing when nothing is like it."""
    known, folded = list(words), word.casefold()
    alike = {one: SequenceMatcher(None, folded, one.casefold()).ratio() for one in known}
    found = sorted((one for one in known if alike[one] >= ALIKE_MIN), key=lambda one: -alike[one])
    found += [one for one in known if len(word) > 1 and one.startswith(word) and one not in found]
    return f", did you mean {' or '.join(map(repr, found[:MEANT_MAX]))}?" if found else ""


async def info_of(view: "View", id: "ObjectId") -> "Info":
    """That the object is there; `UnknownObject` with what was perhaps meant when it is not."""
    from wakeful.looking.classes import names
    from wakeful.store.protocol import Query
    from wakeful.values.errors import UnknownObject

    try:
        return await view.info(id)
    except UnknownObject:
        known = await names(view, reserved=True)
        if id.cls not in known:
            hint = meant(id.cls, known) or f"; there are {', '.join(known[:10]) or 'none yet'}"
            raise UnknownObject(
                f"there is no object of a class {id.cls!r} in {view.stores[0].url}{hint}", code="object.unknown"
            ) from None
        query = Query(cls=id.cls, key_prefix=id.key[:1] or None, limit=KEYS_LOOKED_AT)
        keys = [info.id.key for info in await view.store_of(id).find_objects(query)]
        hint = meant(id.key, keys) or f"; wakeful ls {id.cls} shows which there are"
        raise UnknownObject(f"there is no object {id}{hint}", code="object.unknown") from None


@asynccontextmanager
async def guessed(view: "View", id: "ObjectId", name: str) -> AsyncIterator[None]:
    """When it turns out that the object has no schedule of that name: what was perhaps meant."""
    from wakeful.schedules.reading import records_of
    from wakeful.values.errors import UnknownSchedule

    try:
        yield
    except UnknownSchedule as error:
        hint = meant(name, await records_of(view.store_of(id), id))
        raise UnknownSchedule(f"{error.message}{hint}", code=error.code) from None
