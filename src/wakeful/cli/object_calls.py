"""Layer 5. Who does what a command asks of an object: the process that runs the store, or a program for that long?"""

import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.cli.exit_codes import UNAVAILABLE, CommandError

if TYPE_CHECKING:
    from wakeful.cli.peers import Peers
    from wakeful.operations.acts import Acts
    from wakeful.runtime.node import Node
    from wakeful.store.protocol import Store
    from wakeful.transport.control import ControlClient
    from wakeful.values.ids import ObjectId

Send = Callable[..., Coroutine[Any, Any, Any]]  # (id, method, args, kwargs, **settings)


class Reached(NamedTuple):
    """A way to every object of a store: `send` brings calls there."""

    send: Send
    store: "Store"
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

    return Acts(reached.send, actor(), stores=[reached.store])


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
    from wakeful.cli.node_access import connected
    from wakeful.cli.store_session import reading
    from wakeful.values.errors import StoreError

    shown, is_reached = url, False
    try:
        async with reading(url) as store, connected(store, id) as client:
            shown = store.url  # without its password
            if client is not None:
                is_reached = True
                yield Reached(live(client), store)
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

    sys.argv = [f"wakeful {what}"]  # what the store tells others about its owner; the URL may hold a password
    program = load(target)
    async with program.app.run(url) as node:
        yield Reached(_embedded(node), node.store, is_ours=True)


def live(client: "ControlClient | Peers") -> Send:
    from wakeful.values.codec import decode_loosely

    async def send(id: "ObjectId", method: str, args: tuple[Any, ...], kwargs: dict[str, Any], **settings: Any) -> Any:
        return decode_loosely(await client.call_raw(id.cls, id.key, method, args, kwargs, **settings))

    return send


def _embedded(node: "Node") -> Send:
    from wakeful.runtime.calls import check_request_key
    from wakeful.transport.messages import failed, raised
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
            raise raised(failure) from None

    return send
