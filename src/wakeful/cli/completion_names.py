"""Layer 5. Which names does a shell offer to complete? Those in the store, if it can be read soon; nothing is woken."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
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
            found = asyncio.run(asyncio.wait_for(_looked(look, ctx, incomplete), PATIENCE_S))
        except Exception:  # whatever it is, a TAB is no place to say it
            return []
        return [name for name in found if name.startswith(incomplete) and name.isprintable()]

    return offer


async def _looked(look: Look, ctx: click.Context, incomplete: str) -> list[str]:
    from wakeful.cli.store_session import viewing
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
