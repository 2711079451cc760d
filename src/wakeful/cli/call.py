"""Layer 5. `wakeful call`: one call to an object, through whoever runs the store."""

import asyncio
import json
import shlex
import sys
from typing import Any

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import INTERRUPTED, OK, is_plain, one_line


@options.command("call", context_settings={"ignore_unknown_options": True})
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.argument("method")
@click.argument("args", metavar="[ARGUMENT]...", nargs=-1)
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
) -> int:
    """Call METHOD of the object CLASS/KEY and print its answer.

    Each argument becomes what the method's annotation says: a time is 2030-01-01T09:00:00+00:00, a length 5m or 300, a
    dataclass JSON. Where there is none it is JSON, or plain text if it isn't: 3 is a number, '"3"' and three are texts.
    Options go before the arguments, or the arguments after a --.
    """
    sent: list[str] = []
    try:
        asyncio.run(_call(cls, key, method, args, request_key, deadline, target, url, as_json, sent))
    except KeyboardInterrupt:
        nothing = f"interrupted before {cls}/{key} was called; nothing was done"
        said = _no_answer(cls, key, has_key=request_key is not None) if sent else nothing
        print(one_line(said), file=sys.stderr, flush=True)
        return INTERRUPTED
    return OK


def _no_answer(cls: str, key: str, *, has_key: bool) -> str:
    """What can be said of a call that nobody waits for any more: a turn that has begun is not broken off."""
    again = "the same call with the same --request-key has its answer" if has_key else "it has no --request-key"
    return (
        f"interrupted: {cls}/{key} was called, and if its turn has begun it goes on to its end; "
        f"`wakeful show {cls} {shlex.quote(key)}` shows what came of it ({again})"
    )


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
    sent: list[str],
) -> None:
    from wakeful.cli.output import put_json
    from wakeful.cli.session import reaching
    from wakeful.operations.text_calls import CALL
    from wakeful.sql.feature import WRITE
    from wakeful.values.ids import ObjectId, check_class, check_key
    from wakeful.values.times import duration_ms
    from wakeful.views.plain import plain

    if method == WRITE:
        raise click.UsageError(f"{WRITE} is for wakeful sql --write, which leaves an audit row")
    id = ObjectId(check_class(cls), check_key(cls, key))
    settings = {
        "request_key": request_key,
        "deadline_ms": None if deadline is None else duration_ms(deadline, what="deadline"),
    }
    async with reaching(url, target, what="call", id=id) as reached:
        sent.append(method)
        if "." in method:  # an operation of Wakeful's, which has no annotations of the program's
            answer = await reached.send(id, method, tuple(argument(text) for text in args), {}, **settings)
        else:
            answer = await reached.send(id, CALL, (method, args), {}, **settings)
    if as_json or answer is not None:
        put_json(plain(answer))
    elif sys.stdout.isatty():
        click.echo("done" if is_plain() else click.style("done", dim=True))


def argument(text: str) -> Any:
    """JSON if it is, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
