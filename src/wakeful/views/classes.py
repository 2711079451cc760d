"""Layer 5. Which classes are there: of the program, and in its stores?"""

from typing import Any

from wakeful.values.ids import RESERVED
from wakeful.views.pages import ViewPage
from wakeful.views.timer_names import own_classes
from wakeful.views.view import View


async def page(view: View, *, reserved: bool = False, has_counts: bool = True) -> ViewPage:
    """Each class with how many objects, timers and parked timers it has, and its methods where the program is known.

    Without counts each of them is None: counting reads through an index of all rows.
    """
    rows = []
    for name in await names(view, reserved=reserved):
        await view.breathe()
        row: dict[str, Any] = {"class": name, "is_reserved": name.startswith(RESERVED)}
        for what in ("objects", "timers", "parked"):
            with view.beside():
                counts = [await store.count(what, cls=name) for store in view.stores] if has_counts else None
            row[what] = None if counts is None else sum(counts)
        rows.append(row | methods_of(view, name))
    return ViewPage(rows, None)


async def names(view: View, *, reserved: bool = False) -> list[str]:
    """All that have objects or are in the program, by name."""
    found = {name for store in view.stores for name in await store.known_classes()}
    if view.running is not None:
        found |= set(view.running.registry.names())
    return sorted(found) if reserved else own_classes(sorted(found))


def methods_of(view: View, name: str) -> dict[str, Any]:
    """What callers outside may call; None where the program is not known, or has no such class."""
    registry = None if view.running is None else view.running.registry
    if registry is None or name not in registry.names():
        return {"is_known": None if registry is None else False, "methods": None}
    known = registry.by_name(name)
    methods = [{"name": one, "is_reader": one in known.readers} for one in sorted(known.methods)]
    return {"is_known": True, "methods": methods}
