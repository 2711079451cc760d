"""Layer 5. `wakeful call`: one call to an object, through whoever runs the store."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options
from wakeful.cli.failing import UNAVAILABLE, CommandError

if TYPE_CHECKING:
    from wakeful.values.ids import ObjectId


@options.command("call", context_settings={"ignore_unknown_options": True})
@click.argument("cls", metavar="CLASS")
@click.argument("key")
@click.argument("method")
@click.argument("args", metavar="[JSON]...", nargs=-1)
@click.option("--request-key", metavar="TEXT", help="Repeat safely: the first answer is remembered and given again.")
@click.option("--deadline", metavar="LENGTH", help="Give up after this long, like 500ms, 5s, 2m.")
@options.app_option("When no process runs the store: run this program for the length of the call.")
@options.store_option
def call(
    cls: str,
    key: str,
    method: str,
    args: tuple[str, ...],
    request_key: str | None,
    deadline: str | None,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Call METHOD of the object CLASS/KEY and print its answer.

    Each argument is JSON, or plain text if it isn't: 3 is a number, '"3"' and three are texts.
    Options go before the arguments, or the arguments after a --.
    """
    asyncio.run(_call(cls, key, method, args, request_key, deadline, target, url, as_json))


async def _call(
    cls: str,
    key: str,
    method: str,
    args: tuple[str, ...],
    request_key: str | None,
    deadline: str | None,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    from wakeful.cli.plain import plain
    from wakeful.cli.printing import put_json
    from wakeful.values.codec import decode_loosely
    from wakeful.values.ids import ObjectId, check_class, check_key
    from wakeful.values.times import duration_ms

    id = ObjectId(check_class(cls), check_key(cls, key))
    values = tuple(argument(text) for text in args)
    settings = {
        "request_key": request_key,
        "deadline_ms": None if deadline is None else duration_ms(deadline, what="deadline"),
    }
    data = await _live(id, method, values, settings, url, has_app=target is not None)
    answer = (
        decode_loosely(data) if data is not None else await _embedded(id, method, values, settings, url, str(target))
    )
    if as_json or answer is not None:
        put_json(plain(answer))
    elif sys.stdout.isatty():
        click.echo(click.style("done", dim=True))


def argument(text: str) -> Any:
    """JSON if it is, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _live(
    id: "ObjectId", method: str, args: tuple[Any, ...], settings: dict[str, Any], url: str, *, has_app: bool
) -> bytes | None:
    """The answer of the process that runs the store; None when there is none and --app may stand in."""
    from wakeful.cli.finding import connected, reading
    from wakeful.values.errors import StoreError

    shown = ""
    try:
        async with reading(url) as store, connected(store, id) as client:
            shown = store.url  # without its password
            if client is not None:
                return await client.call_raw(id.cls, id.key, method, args, **settings)
    except StoreError as error:
        if not has_app or type(error) is not StoreError:  # a store that does not exist yet is made by --app
            raise
    if not has_app:
        raise CommandError(
            f"no process runs {shown}; start it (wakeful run …), or give --app APP.PY to run it for this call",
            code="owner.none",
            exit_code=UNAVAILABLE,
        )
    return None


async def _embedded(
    id: "ObjectId", method: str, args: tuple[Any, ...], settings: dict[str, Any], url: str, target: str
) -> Any:
    from wakeful.cli.loading import load
    from wakeful.runtime.requests import check_request_key
    from wakeful.transport.messages import failed, raised
    from wakeful.values.errors import WakefulError

    sys.argv = ["wakeful call"]  # what the store tells others about its owner; the URL may hold a password
    program = load(target)
    if settings["request_key"] is not None:
        check_request_key(settings["request_key"])
    async with program.app.run(url) as node:
        try:
            return await node.send(id, method, args, {}, **settings)
        except WakefulError:
            raise
        except Exception as error:
            failure = failed(0, error).failure
            assert failure is not None
            raise raised(failure) from None
