"""Layer 5. Which names are there: those that a shell offers to complete, and what was meant by one that there is not?

Those in the store, if it can be read soon; nothing is woken.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from wakeful.values.commits import Info
    from wakeful.values.ids import ObjectId
    from wakeful.views.view import View


COMPLETE = "_WAKEFUL_COMPLETE"  # the variable that the scripts of `wakeful completion` set
PATIENCE_S = 1.0  # of somebody who pressed TAB
NAMES_MAX = 100

Look = Callable[["View", click.Context, str], Awaitable[list[str]]]
Offer = Callable[[click.Context, click.Parameter, str], list[str]]


def names(look: Look) -> Offer:
    """For `shell_complete=`: names that begin like that."""

    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        import asyncio

        try:
            found = asyncio.run(asyncio.wait_for(_look_up(look, ctx, incomplete), PATIENCE_S))
        except Exception:  # whatever it is, a TAB is no place to say it
            return []
        return [name for name in found if name.startswith(incomplete) and name.isprintable()]

    return offer


async def _look_up(look: Look, ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.cli.session import viewing
    from wakeful.system import default_store

    async with viewing(ctx.params.get("url") or default_store()) as view:
        return await look(view, ctx, incomplete)


async def _classes(view: "View", ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.views.classes import names

    return await names(view, reserved=incomplete.startswith("w"))


async def _keys(view: "View", ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.store.protocol import Query

    query = Query(cls=ctx.params.get("cls"), key_prefix=incomplete or None, limit=NAMES_MAX)
    return [info.id.key for store in view.stores for info in await store.find_objects(query)]


async def _schedules(view: "View", ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.schedules.queries import records_of
    from wakeful.values.ids import ObjectId

    id = ObjectId(ctx.params["cls"], ctx.params["key"])
    return list(await records_of(view.store_of(id), id))[:NAMES_MAX]


async def _nodes(view: "View", ctx: click.Context, incomplete: str) -> list[str]:
    return [row.node for store in view.stores for row in await store.nodes()]


async def _parked(view: "View", ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.store.protocol import Query

    return [str(row.number) for store in view.stores for row in await store.find_parked(Query(limit=NAMES_MAX))]


async def _jobs(view: "View", ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.views.jobs import page

    return [row["id"] for row in (await page(view, limit=NAMES_MAX)).rows]


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Files, which the shell knows better."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


classes, keys, schedules, nodes, parked, jobs = map(names, (_classes, _keys, _schedules, _nodes, _parked, _jobs))


# What was meant by a name that there is not?

KEYS_LOOKED_AT = 500
MEANT_MAX = 3
ALIKE_MIN = 0.6


def meant(word: str, words: Iterable[str]) -> str:
    """`, did you mean 'x' or 'y'?`, or nothing when nothing is like it."""
    from difflib import SequenceMatcher

    known, folded = list(words), word.casefold()
    alike = {one: SequenceMatcher(None, folded, one.casefold()).ratio() for one in known}
    found = sorted((one for one in known if alike[one] >= ALIKE_MIN), key=lambda one: -alike[one])
    found += [one for one in known if len(word) > 1 and one.startswith(word) and one not in found]
    return f", did you mean {' or '.join(map(repr, found[:MEANT_MAX]))}?" if found else ""


async def info_of(view: "View", id: "ObjectId") -> "Info":
    """That the object is there; `UnknownObject` with what was perhaps meant when it is not."""
    from wakeful.values.errors import UnknownObject

    try:
        return await view.info(id)
    except UnknownObject:
        hint = await _class_meant(view, id.cls)
        if hint is not None:
            raise UnknownObject(
                f"there is no object of a class {id.cls!r} in {view.stores[0].url}{hint or '; there are none yet'}",
                code="object.unknown",
            ) from None
        raise UnknownObject(f"there is no object {id}{await _key_meant(view, id)}", code="object.unknown") from None


async def instead(view: "View", cls: str | None, key: str | None = None) -> str:
    """For a list that turned out empty: what was perhaps meant, when there is no such class or object.

    Nothing when there is, or when the store has no classes that could have been meant.
    """
    from wakeful.values.errors import UnknownObject
    from wakeful.values.ids import ObjectId

    if cls is None:
        return ""
    hint = await _class_meant(view, cls)
    if hint is not None or key is None:
        return hint or ""
    id = ObjectId(cls, key)
    try:
        await view.info(id)
    except UnknownObject:
        return await _key_meant(view, id)
    return ""


async def _class_meant(view: "View", cls: str) -> str | None:
    """None when the store has the class; else which it has, or nothing when it has none."""
    from wakeful.views.classes import names
    from wakeful.views.timer_names import own_classes

    known = await names(view, reserved=True)
    if cls in known:
        return None
    own = own_classes(known)
    return meant(cls, known) or (f"; there are {', '.join(own[:10])}" if own else "")


async def _key_meant(view: "View", id: "ObjectId") -> str:
    from wakeful.store.protocol import Query

    query = Query(cls=id.cls, key_prefix=id.key[:1] or None, limit=KEYS_LOOKED_AT)
    keys = [info.id.key for info in await view.store_of(id).find_objects(query)]
    return meant(id.key, keys) or f"; wakeful ls {id.cls} shows which there are"


@asynccontextmanager
async def guessing(view: "View", id: "ObjectId", name: str) -> AsyncIterator[None]:
    """When it turns out that the object has no schedule of that name: what was perhaps meant."""
    from wakeful.schedules.queries import records_of
    from wakeful.values.errors import UnknownSchedule

    try:
        yield
    except UnknownSchedule as error:
        hint = meant(name, await records_of(view.store_of(id), id))
        raise UnknownSchedule(f"{error.message}{hint}", code=error.code) from None
