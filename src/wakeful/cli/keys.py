"""Layer 5. `wakeful keys`: with what are values sealed at rest, and is all of it under the newest key?"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, OK, CommandError

Page = Callable[[list[Any] | None, bool], Awaitable[dict[str, Any]]]
Finish = Callable[[], Awaitable[Any]]


@click.group("keys")
def keys() -> None:
    """Seal everything at rest: make keys, change to a newer one, and see what is sealed with which.

    Keys are in $WAKEFUL_KEYS or in the file $WAKEFUL_KEYS_FILE, the newest first.
    """


@options.command("new")
def new(as_json: bool) -> None:
    """Make a key and print it. Put it in front of those that are there; whoever loses all of them loses all values."""
    from wakeful.cli.output import put_json, put_line
    from wakeful.values.seals import key_id, spelled_key

    key = secrets.token_bytes(32)
    if as_json:
        put_json({"key": spelled_key(key), "id": key_id(key).hex()})
    else:
        put_line(spelled_key(key))


@options.command("check")
@options.store_option
def check(url: str, as_json: bool) -> int:
    """Is everything in the store sealed with the newest key, and does it open? Exit code 1 if not."""
    return asyncio.run(_work(url, as_json, is_change=False))


@options.command("rotate")
@options.store_option
def rotate(url: str, as_json: bool) -> int:
    """Seal everything with the newest key, while the program runs; then the older ones can go.

    The program must have been started with the newest key in front. It can be stopped at any time and run again: what is
    done stays done. When all is sealed, values that are not are refused from then on.
    """
    return asyncio.run(_work(url, as_json, is_change=True))


@options.command("mend")
@options.store_option
def mend(url: str, as_json: bool) -> int:
    """Write anew the row that says that the store is sealed, when it is gone (`seal.unchecked`); no process may run.

    Everything is looked through first: one value that is not sealed, or does not open, and nothing is written.
    """
    return asyncio.run(_mend(url, as_json))


for _command in (new, check, rotate, mend):
    keys.add_command(_command)


async def _work(url: str, as_json: bool, *, is_change: bool) -> int:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import actor
    from wakeful.operations.acts import Acts
    from wakeful.system import key_ring

    ring = key_ring()
    ids = [] if ring is None else ring.ids
    async with AsyncExitStack() as stack:
        send, page, finish, is_live = await stack.enter_async_context(_reaching(url))
        await _check_newest(page, ids)
        if is_change:
            is_server = await stack.enter_async_context(_no_moves(url))
            if is_live or not is_server:  # of one of several servers the audit log is in the program's main store
                row = Acts(send, actor()).row("keys.rotate", url_words(url), {"newest": ids[:1]})
                await stack.enter_async_context(row)
            done = await _pass(page, is_change=True, is_shown=not as_json, what="seal")
            left = await _pass(page, is_change=False, is_shown=not as_json, what="check")
            if not left["stale"]:
                await finish()
        else:
            done = {"seen": 0, "stale": 0, "swapped": 0, "shut": 0}
            left = await _pass(page, is_change=False, is_shown=not as_json, what="check")
    answer = {"sealed": done["swapped"], "rows": left["seen"], "left": left["stale"], "shut": left["shut"], "keys": ids}
    if as_json:
        put_json(answer)
    elif not left["stale"]:
        anew = f"{done['swapped']:,} values sealed anew; " if is_change else ""
        put_line(f"{anew}all of {left['seen']:,} rows are under the newest key", "green")
    else:
        why = f", and {left['shut']:,} of them don't open with these keys" if left["shut"] else ""
        remedy = "is a program with other keys writing?" if is_change else "wakeful keys rotate"
        put_line(f"{left['stale']:,} of {left['seen']:,} rows are not under the newest key{why}; {remedy}", "yellow")
    return OK if not left["stale"] else FAILED


async def _mend(url: str, as_json: bool) -> int:
    import uuid

    from wakeful.cli.output import now_ms, put_json, put_line
    from wakeful.security.reserved import sealed_of
    from wakeful.store import key_rotation
    from wakeful.store.sealed_store import CHECK
    from wakeful.system import open_store
    from wakeful.values.ids import shard_of

    store = sealed_of(open_store(url))
    store.is_mending = True
    await store.open(now=now_ms())
    try:
        store.sealing.is_whole = True  # then what is not sealed counts as what does not open

        async def page(place: list[Any] | None, is_change: bool) -> dict[str, Any]:
            checked = await key_rotation.page(store, place, now=now_ms(), is_change=is_change)
            return {
                "place": checked.place,
                "seen": checked.seen,
                "stale": checked.stale,
                "swapped": 0,
                "shut": checked.shut,
            }

        checked = await _pass(page, is_change=False, is_shown=not as_json, what="check")
        if checked["shut"]:
            raise CommandError(
                f"{checked['shut']:,} of {checked['seen']:,} rows are not sealed, or don't open with these keys: somebody else "
                "wrote them, or a key is missing; nothing was done. Restore a backup",
                code="seal.plain",
            )
        name = f"mend-{uuid.uuid4().hex[:8]}"
        await store.release(name, await store.claim(name, [shard_of(CHECK)], now=now_ms()))
    finally:
        await store.close()
    if as_json:
        put_json({"rows": checked["seen"]})
    else:
        put_line(f"all of {checked['seen']:,} rows are sealed, and the store says so again", "green")
    return OK


@asynccontextmanager
async def _no_moves(url: str) -> AsyncIterator[bool]:
    """No slot comes in behind the rotation, from a server that is still under an older key; whether one could."""
    from wakeful.store import open_url
    from wakeful.store.slots import Spreadable

    store = open_url(url)
    if not isinstance(store, Spreadable):
        yield False
        return
    tables = await store.open_slots()
    try:
        is_server = await tables.mark() is not None
        if is_server and not await tables.lock():
            raise CommandError(
                f"`wakeful rebalance` moves slots of {tables.url} now, or they are sealed anew already; try again when it is "
                "through, nothing was done",
                code="spread.busy",
            )
        yield is_server
    finally:
        await tables.close()


async def _check_newest(page: Page, ids: list[str]) -> None:
    """That the program seals with the key that is the newest here: else the older ones would be thrown away too soon."""
    theirs = (await page(None, False)).get("newest")
    if ids and theirs is not None and theirs != ids[0]:
        raise CommandError(
            f"the program seals with key {theirs}, and the newest key here is {ids[0]}; start it anew with that one in "
            "front, keep the older ones behind it, then try again; nothing was done",
            code="keys.newest",
        )


def url_words(url: str) -> str:
    """The store without its password."""
    from wakeful.store import open_url

    return open_url(url).url


async def _pass(page: Page, *, is_change: bool, is_shown: bool, what: str) -> dict[str, int]:
    """Once through everything; what was found."""
    from wakeful.cli.output import pulse

    totals = {"seen": 0, "stale": 0, "swapped": 0, "shut": 0}
    place: list[Any] | None = None
    with pulse(what, is_shown=is_shown) as note:
        while True:
            found = await page(place, is_change)
            totals = {name: count + found[name] for name, count in totals.items()}
            note(f"{what}: {totals['seen']:,} rows, {totals['swapped']:,} sealed")
            place = found["place"]
            if place is None:
                return totals


@asynccontextmanager
async def _reaching(url: str) -> AsyncIterator[tuple[Any, Page, Finish, bool]]:
    """Who does it: the process that runs the store (then the last is true), or we on a store that nobody runs."""
    from wakeful.cli.node_access import connecting
    from wakeful.cli.output import now_ms
    from wakeful.cli.session import bare, live, reading
    from wakeful.security.reserved import page_words, sealed_of
    from wakeful.store import key_rotation
    from wakeful.store.sealed_store import CHECK
    from wakeful.system import open_store

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connecting(await stack.enter_async_context(reading(url)), CHECK))
        if client is not None:
            send = live(client)
            yield (
                send,
                lambda place, change: send(CHECK, "page", (place, change), {}),
                lambda: send(CHECK, "finish", (), {}),
                True,
            )
            return
        await stack.aclose()
        store = sealed_of(open_store(url))
        await store.open(now=now_ms())
        stack.push_async_callback(store.close)

        async def page(place: list[Any] | None, is_change: bool) -> dict[str, Any]:
            found = await key_rotation.page(store, place, now=now_ms(), is_change=is_change)
            return page_words(found, found.place, store)

        yield bare(store), page, lambda: key_rotation.finish(store), False
