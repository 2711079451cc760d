"""Layer 5. `wakeful rebalance`: the slots of a class on several servers move until all have as many, while everything runs."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, cast

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import USAGE, CommandError

if TYPE_CHECKING:
    from wakeful.policy.spread import Move, SpreadMap
    from wakeful.runtime.slot_move import MoveStep
    from wakeful.store.protocol import Store
    from wakeful.store.slots import SlotTables


@options.command("rebalance")
@click.argument("cls", metavar="CLASS")
@options.app_option("The program whose App(stores=…) names the servers of CLASS.")
@click.option(
    "--server", "given", multiple=True, metavar="NAME=URL", help="Instead of --app: each server, the first first."
)
@click.option("--without", multiple=True, metavar="NAME", help="Leave nothing on this server; it can be left out then.")
@click.option("--slots", "most", type=click.IntRange(0), metavar="N", help="Move at most N slots now.")
@click.option("--dry-run", is_flag=True, help="Only say what would be moved.")
def rebalance(
    cls: str,
    target: str | None,
    given: tuple[str, ...],
    without: tuple[str, ...],
    most: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Deal the 256 slots of CLASS evenly over its servers, one after the other, while its program runs.

    A server that was added gets its share, one that is named --without gives all away. What is moved is copied first; only
    for its last changes do calls to it wait. It can be stopped at any time, or killed: call it again and it goes on.
    """
    asyncio.run(_rebalance(cls, _servers_of(cls, target, given), without, most, dry_run, as_json))


def _servers_of(cls: str, target: str | None, given: Sequence[str]) -> dict[str, str]:
    """Names and URLs, from the program or as they were given."""
    if (target is None) != bool(given):
        raise CommandError(
            "say which servers: --app APP.PY, or --server NAME=URL for each", code="usage", exit_code=USAGE
        )
    if target is None:
        parts = [one.partition("=") for one in given]
        wrong = next((name for name, sign, url in parts if not name or not sign or not url), None)
        if wrong is not None or len({name for name, _, _ in parts}) < len(parts):
            raise CommandError("--server is NAME=URL, each name once", code="usage", exit_code=USAGE)
        return {name: url for name, _, url in parts}
    from wakeful.cli.app_loader import load

    places = load(target).app.deployment.places
    servers = places.get(cls)
    if not isinstance(servers, Mapping):
        several = sorted(place for place, kept in places.items() if isinstance(kept, Mapping))
        there = f"; those that have are {', '.join(several)}" if several else ""
        raise CommandError(
            f"{target}: {cls} has not several servers, App(stores={{{cls!r}: {{'a': url, …}}}}){there}",
            code="spread.none",
            exit_code=USAGE,
        )
    return dict(servers)


async def _rebalance(
    cls: str, urls: Mapping[str, str], without: Sequence[str], most: int | None, dry_run: bool, as_json: bool
) -> None:
    from wakeful.cli.output import bar
    from wakeful.policy.spread import plan_moves
    from wakeful.runtime.slot_move import SlotMover

    began = time.monotonic()
    async with _opening(urls) as (stores, tables):
        if not dry_run:
            await _check_nodes(cls, stores)
        known = await _known(cls, tables, dry_run=dry_run)
        names = [name for name in urls if name not in without]
        if unknown := [name for name in without if name not in known.servers]:
            raise CommandError(
                f"{', '.join(unknown)}: no server of {cls}; there are {', '.join(known.servers)}",
                code="spread.server",
                exit_code=USAGE,
            )
        moves = plan_moves(known, names)[:most]
        if dry_run:
            _put_plan(cls, known, moves, as_json)
            return
        total = len(known.moves) + len(known.rests) + len(moves)
        with bar(f"rebalance {cls}", total, is_shown=not as_json) as step:

            async def note(done: "MoveStep") -> None:
                step(done.step == "end")

            mover = SlotMover(tables, uuid.uuid4().hex, sleep=asyncio.sleep, heard=note)
            await mover.take()
            await _check_keys(cls, stores)  # no rotation is under way any more, and none begins
            resumed = await mover.resume()
            for move in moves:
                await mover.move(move)
        _put_done(cls, await mover.known(), len(moves), resumed, round((time.monotonic() - began) * 1000), as_json)


@asynccontextmanager
async def _opening(urls: Mapping[str, str]) -> AsyncIterator[tuple[dict[str, "Store"], dict[str, "SlotTables"]]]:
    from wakeful.cli.session import opening
    from wakeful.store import open_url
    from wakeful.store.slots import Spreadable

    async with AsyncExitStack() as stack:
        stores, tables = {}, {}
        for name, url in urls.items():
            made = open_url(url)
            if not isinstance(made, Spreadable):
                raise CommandError(
                    f"{made.url}: a class is spread over PostgreSQL servers only; give postgresql://…",
                    code="spread.store",
                    exit_code=USAGE,
                )
            stores[name] = await stack.enter_async_context(opening(url))
            tables[name] = await cast("Spreadable", made).open_slots()
            stack.push_async_callback(tables[name].close)
        yield stores, tables


async def _known(cls: str, tables: Mapping[str, "SlotTables"], *, dry_run: bool) -> "SpreadMap":
    """The map, with servers that were added; a look makes none."""
    from wakeful.policy.spread import with_servers
    from wakeful.runtime.spread_map import read_map, settle

    known = await read_map(next(iter(tables.values())))
    if known is None:
        raise CommandError(
            f"no program has spread {cls} over these servers yet; start it first (wakeful run …), its first server first",
            code="spread.none",
        )
    if dry_run:
        return with_servers(known, list(tables))
    return await settle(tables, lambda: known.id)


async def _check_nodes(cls: str, stores: Mapping[str, "Store"]) -> None:
    """Whoever runs on one server runs on all, or it would not find what is moved."""
    from wakeful.cli.output import now_ms
    from wakeful.views.nodes import members

    alive = {
        name: {one.row.node: one.row.about for one in (await members(store, now_ms())).alive}
        for name, store in stores.items()
    }
    everyone = {node: about for nodes in alive.values() for node, about in nodes.items()}
    for name, nodes in alive.items():
        if missing := sorted(everyone.keys() - nodes.keys()):
            raise CommandError(
                f"node {missing[0]} ({everyone[missing[0]]}) does not run on server {name} of {cls}, so it would not find "
                "what is moved there; start every process anew with the program that names this server, then rebalance",
                code="spread.nodes",
            )


async def _check_keys(cls: str, stores: Mapping[str, "Store"]) -> None:
    """What a server takes and needs holds for what is moved there: it is moved as it is, sealed or not."""
    from wakeful.store.sealed_store import SealedStore

    found = {
        name: await store.sealed_with() if isinstance(store, SealedStore) else ("", False)
        for name, store in stores.items()
    }
    if len(set(found.values())) > 1:
        words = [f"{name} {_sealing_words(*sealing)}" for name, sealing in found.items()]
        raise CommandError(
            f"the servers of {cls} are not sealed alike: {'; '.join(words)}. What is moved goes as it is, so run `wakeful keys "
            "rotate --store URL` for each server first, then rebalance",
            code="spread.keys",
        )


def _sealing_words(key: str, is_whole: bool) -> str:
    return "needs no key" if not key else f"has everything under key {key}" if is_whole else f"has some under key {key}"


def _put_plan(cls: str, known: "SpreadMap", moves: Sequence["Move"], as_json: bool) -> None:
    from wakeful.cli.output import many, put_json, put_line, put_table

    counts = known.counts()
    after = {name: counts[name] + sum((one.target == name) - (one.source == name) for one in moves) for name in counts}
    if as_json:
        plain = [{"slot": one.slot, "from": one.source, "to": one.target} for one in moves]
        put_json(
            {
                "class": cls,
                "servers": counts,
                "after": after,
                "moves": plain,
                "begun": len(known.moves) + len(known.rests),
            }
        )
        return
    put_table(["server", ">slots", ">after"], [(name, counts[name], after[name]) for name in counts])
    if begun := len(known.moves) + len(known.rests):
        put_line(f"{many(begun, 'move')} of a rebalance that did not end would be ended first", "yellow")
    put_line(f"{many(len(moves), 'slot')} would move", "dim")


def _put_done(cls: str, known: "SpreadMap", moved: int, resumed: int, took_ms: int, as_json: bool) -> None:
    from wakeful.cli.output import length, many, put_json, put_line, put_table

    if as_json:
        put_json({"class": cls, "moved": moved, "resumed": resumed, "servers": known.counts(), "took_ms": took_ms})
        return
    put_table(["server", ">slots"], list(known.counts().items()))
    more = f", and {many(resumed, 'move')} that others had begun" if resumed else ""
    put_line(f"moved {many(moved, 'slot')} of {cls}{more} in {length(took_ms)}", "green")
