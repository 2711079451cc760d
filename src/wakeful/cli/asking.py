"""Layer 5. Who does what a command asks of an object: the process that runs the store, or a program for that long?"""

import sys
from typing import TYPE_CHECKING, Any

from wakeful.cli.failing import UNAVAILABLE, CommandError

if TYPE_CHECKING:
    from wakeful.values.ids import ObjectId


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
    from wakeful.values.codec import decode_loosely

    data = await _live(id, method, args, kwargs, settings or {}, url, has_app=target is not None, what=what)
    if data is not None:
        return decode_loosely(data)
    return await _embedded(id, method, args, kwargs, settings or {}, url, str(target), what=what)


async def _live(
    id: "ObjectId",
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: dict[str, Any],
    url: str,
    *,
    has_app: bool,
    what: str,
) -> bytes | None:
    """The answer of the process that runs the store; None when there is none and --app may stand in."""
    from wakeful.cli.finding import reading
    from wakeful.cli.reaching import connected
    from wakeful.values.errors import StoreError

    shown = ""
    try:
        async with reading(url) as store, connected(store, id) as client:
            shown = store.url  # without its password
            if client is not None:
                return await client.call_raw(id.cls, id.key, method, args, kwargs, **settings)
    except StoreError as error:
        if not has_app or type(error) is not StoreError:  # a store that does not exist yet is made by --app
            raise
    if not has_app:
        raise CommandError(
            f"no process runs {shown}; start it (wakeful run …), or give --app APP.PY to run it for this {what}",
            code="owner.none",
            exit_code=UNAVAILABLE,
        )
    return None


async def _embedded(
    id: "ObjectId",
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: dict[str, Any],
    url: str,
    target: str,
    *,
    what: str,
) -> Any:
    from wakeful.cli.loading import load
    from wakeful.runtime.requests import check_request_key
    from wakeful.transport.messages import failed, raised
    from wakeful.values.errors import WakefulError

    sys.argv = [f"wakeful {what}"]  # what the store tells others about its owner; the URL may hold a password
    program = load(target)
    if settings.get("request_key") is not None:
        check_request_key(settings["request_key"])
    async with program.app.run(url) as node:
        try:
            return await node.send(id, method, args, kwargs, **settings)
        except WakefulError:
            raise
        except Exception as error:
            failure = failed(0, error).failure
            assert failure is not None
            raise raised(failure) from None
