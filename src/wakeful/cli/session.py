"""Layer 5. How is a store opened by a command: to look, to write, or to have whoever runs it do something?

To look: `reading`, `viewing`. To write where nobody runs it: `opening`, `writing`. Through the process that runs it, or a
program for that long: `ask`, `acting`, `reaching`. What Wakeful keeps for itself: `reaching_reserved`, `acting_on_reserved`.
"""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from wakeful.cli import output
from wakeful.cli.exit_codes import UNAVAILABLE, USAGE, CommandError, one_line
from wakeful.cli.output import now_ms
from wakeful.store.protocol import Store, TableLock, Views
from wakeful.system import open_store
from wakeful.values.errors import StoreDown, WakefulError

if TYPE_CHECKING:
    from wakeful.cli.joined_stores import JoinedStores
    from wakeful.cli.node_access import Peers
    from wakeful.operations.acts import Acts
    from wakeful.runtime.node import Node
    from wakeful.store.postgres.health import LongSession
    from wakeful.transport.control import ControlClient
    from wakeful.values.ids import ObjectId
    from wakeful.views.view import View


@asynccontextmanager
async def joining(url: str) -> "AsyncIterator[JoinedStores | None]":
    """The stores, where several are named, open for looking; None where one is."""
    from wakeful.cli.joined_stores import JoinedStores, parts_of

    if len(urls := parts_of(url)) == 1:
        yield None
        return
    async with AsyncExitStack() as stack:
        yield await JoinedStores.of([await stack.enter_async_context(reading(one)) for one in urls])


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Store]:
    """The store, open for looking at it beside whoever runs it."""
    from wakeful.cli.joined_stores import check_one

    check_one(url)
    if url == "memory:":
        raise CommandError(
            "memory: lives and dies with its process, nobody else can look into it; use sqlite:PATH",
            code="store.memory",
            exit_code=USAGE,
        )
    store = open_store(url)
    try:
        async with naming_locks(store, url):
            await store.open(now=output.now_ms(), readonly=True)
            output.follow(await store.time())
            yield store
    finally:
        await store.close()


@asynccontextmanager
async def viewing(url: str) -> AsyncIterator["View"]:
    """The same, to look through: at the time that the store's own clock shows, or this machine's."""
    from wakeful.views.view import View

    async with joining(url) as joined:
        if joined is not None:
            yield View.of_stores(joined.stores, joined.at, output.now_ms())
            return
        async with reading(url) as store:
            yield View.of_store(store, output.now_ms())


@asynccontextmanager
async def opening(url: str) -> AsyncIterator[Store]:
    """The store, open for writing to it in the place of a process that runs it; `FileOwned` when there is one."""
    async with reading(url):
        pass  # refuses what has no tables, or others; opening it to write would make them
    store = open_store(url)
    try:
        async with naming_locks(store, url):
            await store.open(now=output.now_ms())
            yield store
    finally:
        await store.close()


@asynccontextmanager
async def writing(url: str, *, what: str) -> AsyncIterator[Store]:
    """The store that several nodes share, open for an operator's wish; one of a single process has no use for it."""
    from wakeful.cli.joined_stores import check_one

    check_one(url)
    store = open_store(url)
    if not store.shared:
        raise CommandError(
            f"{what} is for stores that several nodes share; {store.url} has one process, stop that instead",
            code="store.single",
            exit_code=USAGE,
        )
    async with opening(url) as store:
        yield store


# Who is in the way of a command that the store does not answer?

SILENT_S = 3.0  # that a command may take without a word
LOOK_S = 2.0  # for each look: neither waits for a lock


class InTheWay(NamedTuple):
    """Somebody who holds a lock, and what to do."""

    text: str
    remedy: str
    is_awaited: bool  # somebody waits for it now: it is not only there


async def in_the_way(store: Store, url: str) -> InTheWay | None:
    """The session that holds a table of ours, with its age and query; None when there is none, or nobody can say.

    The table of migrations, which only an opening needs, is no table that nodes watch: of that only the session is known.
    """
    from wakeful.cli.checkups import sessions
    from wakeful.runtime.lock_watch import remedy as ending
    from wakeful.runtime.lock_watch import words

    lock = await _lock(store)
    found = await _sessions(url)
    holders = [one for one in found if (one.pid == lock.pid if lock else one.touches and not one.is_waiting)]
    if not holders and lock is None:
        return None
    is_awaited = lock is not None or any(holders[0].pid in one.blockers for one in found)
    text, remedy = "", "" if lock is None else ending(lock)
    if holders:
        finding = sessions(holders[:1], 0)[0]
        text, remedy = f"{finding.text} ({finding.evidence})" if finding.evidence else finding.text, finding.remedy
    return InTheWay(": ".join(filter(None, [words(lock) if lock else "", text])), remedy, is_awaited)


@asynccontextmanager
async def naming_locks(store: Store, url: str) -> AsyncIterator[None]:
    """While the block waits, and in its `StoreDown`, it is said who is in the way, when somebody is."""
    telling = asyncio.ensure_future(_tell(store, url)) if store.shared else None
    try:
        yield
    except StoreDown as error:
        found = await in_the_way(store, url) if store.shared else None
        if found is None:
            raise
        raise StoreDown(f"{error.message}, because {found.text}; {found.remedy}", code=error.code) from error
    finally:
        if telling is not None:
            telling.cancel()


async def _tell(store: Store, url: str) -> None:
    """One line for who wonders why nothing comes; on stderr, where it is in nobody's way."""
    found = None
    while found is None:
        await asyncio.sleep(SILENT_S)
        found = await in_the_way(store, url)
    print(one_line(f"waiting: {found.text}; {found.remedy}"), file=sys.stderr, flush=True)


async def _lock(store: Views) -> TableLock | None:
    with suppress(TimeoutError, WakefulError):
        async with asyncio.timeout(LOOK_S):
            return next(iter(await store.locks()), None)
    return None


async def _sessions(url: str) -> "list[LongSession]":
    from wakeful.store.postgres.health import health
    from wakeful.store.postgres.url import parse_url

    with suppress(TimeoutError, WakefulError):
        async with asyncio.timeout(LOOK_S):
            return (await health(parse_url(url))).sessions or []
    return []


# Who does what a command asks of an object: the process that runs the store, or a program for that long?

Send = Callable[..., Coroutine[Any, Any, Any]]  # (id, method, args, kwargs, **settings)


class Reached(NamedTuple):
    """A way to every object of the stores: `send` brings calls there."""

    send: Send
    stores: "list[Store]"
    at: "Callable[[ObjectId], Store]"  # which of them an object lives in
    is_ours: bool = False  # a program that runs only for as long as this command


async def ask(
    id: "ObjectId",
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    url: str,
    target: str | None,
    what: str,
    settings: dict[str, Any] | None = None,
) -> Any:
    """The answer of a method of the object, or of an operation like `schedules.pause`."""
    async with reaching(url, target, what=what, id=id) as reached:
        return await reached.send(id, method, args, kwargs, **(settings or {}))


@asynccontextmanager
async def acting(url: str, target: str | None, *, what: str, id: "ObjectId | None" = None) -> AsyncIterator["Acts"]:
    """An operator's hand, for as long as the block lasts; each act leaves an audit row."""
    async with reaching(url, target, what=what, id=id) as reached:
        yield hand(reached)


def hand(reached: Reached) -> "Acts":
    """What an operator does through it, in the name of whoever runs this command."""
    from wakeful.operations.acts import Acts

    return Acts(reached.send, actor(), stores=reached.stores)


def actor() -> str:
    """Who runs this command: `cli:USER@HOST`."""
    import getpass
    import os
    import platform

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have them
        user = str(os.getuid())
    return f"cli:{user}@{platform.node()}"


@asynccontextmanager
async def reaching(url: str, target: str | None, *, what: str, id: "ObjectId | None" = None) -> AsyncIterator[Reached]:
    """A way to the store's objects, the owner of this one first; `CommandError` when no process runs it and no --app."""
    from wakeful.cli.joined_stores import check_one
    from wakeful.cli.node_access import connecting
    from wakeful.values.errors import StoreError

    shown, is_reached = url, False
    try:
        async with AsyncExitStack() as stack:
            joined = await stack.enter_async_context(joining(url))
            store = await stack.enter_async_context(reading(url)) if joined is None else cast("Store", joined)
            client = await stack.enter_async_context(connecting(store, id))
            shown = store.url  # without its password
            if client is not None:
                is_reached = True
                if joined is None:
                    yield Reached(live(client), [store], lambda _: store)
                else:
                    yield Reached(live(client), joined.stores, joined.at)
                return
    except StoreError as error:
        if is_reached or target is None or type(error) is not StoreError:
            raise
        # A store that does not exist yet is made by --app.
    if target is None:
        raise CommandError(
            f"no process runs {shown}; start it (wakeful run …), or give --app APP.PY to run it for this {what}",
            code="owner.none",
            exit_code=UNAVAILABLE,
        )
    from wakeful.cli.app_loader import load

    check_one(url)
    sys.argv = [f"wakeful {what}"]  # what the store tells others about its owner; the URL may hold a password
    program = load(target)
    async with program.app.run(url) as node:
        yield Reached(
            _within(node), [home.store for home in node.all_homes], lambda one: node.home(one).store, is_ours=True
        )


def live(client: "ControlClient | Peers") -> Send:
    from wakeful.values.codec import decode_loosely

    async def send(id: "ObjectId", method: str, args: tuple[Any, ...], kwargs: dict[str, Any], **settings: Any) -> Any:
        return decode_loosely(await client.call_raw(id.cls, id.key, method, args, kwargs, **settings))

    return send


def _within(node: "Node") -> Send:
    from wakeful.runtime.calls import check_request_key
    from wakeful.transport.messages import error_of, failed
    from wakeful.values.errors import WakefulError

    async def send(id: "ObjectId", method: str, args: tuple[Any, ...], kwargs: dict[str, Any], **settings: Any) -> Any:
        if settings.get("request_key") is not None:
            check_request_key(settings["request_key"])
        try:
            return await node.send(id, method, args, kwargs, **settings)
        except WakefulError:
            raise
        except Exception as error:
            failure = failed(0, error).failure
            assert failure is not None
            raise error_of(failure) from None

    return send


# How does a command reach what Wakeful keeps for itself, and leave a row of what it did?
#
# Through the process that runs the store; without one, the command does on the store what the object would have done.


def bare(store: "Store") -> "Send":
    """Calls of the reserved objects on a store that no process runs, open for writing."""
    from wakeful.security.reserved import Bare

    return Bare(store, f"command-{uuid.uuid4().hex[:8]}", now_ms).send


@asynccontextmanager
async def reaching_reserved(url: str, *, makes: bool = False) -> AsyncIterator["Send"]:
    """Something that brings calls to the reserved objects. `makes`: also in a store that is not there yet."""
    from wakeful.cli.node_access import connecting
    from wakeful.security.audit import LOG
    from wakeful.system import open_store
    from wakeful.values.errors import SchemaTooOld, StoreError

    async with AsyncExitStack() as stack:
        client = None
        try:
            client = await stack.enter_async_context(connecting(await stack.enter_async_context(reading(url)), LOG))
        except StoreError as error:
            # A database without tables is as old as can be; opening it makes them, and refuses what is old in earnest.
            if not makes or type(error) not in (StoreError, SchemaTooOld):
                raise
        if client is not None:
            yield live(client)
            return
        await stack.aclose()
        store = open_store(url)
        await store.open(now=now_ms())
        stack.push_async_callback(store.close)
        yield bare(store)


@asynccontextmanager
async def acting_on_reserved(url: str, *, makes: bool = False) -> AsyncIterator["Acts"]:
    """An operator's hand for what the reserved objects keep."""
    from wakeful.operations.acts import Acts

    async with reaching_reserved(url, makes=makes) as send:
        yield Acts(send, actor())
