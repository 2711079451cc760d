"""Layer 5. Which classes are there: of the program, and in its stores?"""

from typing import Literal, TypedDict

from wakeful.values.ids import RESERVED
from wakeful.views.pages import ViewPage
from wakeful.views.timer_names import own_classes
from wakeful.views.view import View


class PlainMethod(TypedDict):
    """A method of the program."""

    name: str
    is_reader: bool


_OfClass = TypedDict("_OfClass", {"class": str})


class PlainClass(_OfClass):
    """A class in the terms of JSON."""

    is_reserved: bool
    objects: int | None
    timers: int | None
    parked: int | None
    is_known: bool | None
    methods: list[PlainMethod] | None


async def page(view: View, *, reserved: bool = False, has_counts: bool = True) -> ViewPage[PlainClass]:
    """Each class with how many objects, timers and parked timers it has, and its methods where the program is known.

    Without counts each of them is None: counting reads through an index of all rows.
    """
    rows: list[PlainClass] = []
    for name in await names(view, reserved=reserved):
        await view.breathe()
        is_known, methods = methods_of(view, name)
        rows.append(
            {
                "class": name,
                "is_reserved": name.startswith(RESERVED),
                "objects": await _count(view, "objects", name) if has_counts else None,
                "timers": await _count(view, "timers", name) if has_counts else None,
                "parked": await _count(view, "parked", name) if has_counts else None,
                "is_known": is_known,
                "methods": methods,
            }
        )
    return ViewPage(rows, None)


async def _count(view: View, what: Literal["objects", "timers", "parked"], cls: str) -> int:
    with view.beside():
        return sum([await store.count(what, cls=cls) for store in view.stores])


async def names(view: View, *, reserved: bool = False) -> list[str]:
    """All that have objects or are in the program, by name."""
    found = {name for store in view.stores for name in await store.known_classes()}
    if view.running is not None:
        found |= set(view.running.registry.names())
    return sorted(found) if reserved else own_classes(sorted(found))


def methods_of(view: View, name: str) -> tuple[bool | None, list[PlainMethod] | None]:
    """Whether the program has the class, and what callers outside may call; None where it is not known."""
    registry = None if view.running is None else view.running.registry
    if registry is None or name not in registry.names():
        return (None if registry is None else False), None
    known = registry.by_name(name)
    return True, [{"name": one, "is_reader": one in known.readers} for one in known.outside]
