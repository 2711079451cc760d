"""Layer 5. `wakeful calls`: what is under way on all nodes, since when, waiting for what; and stopping one."""

import asyncio
from typing import Any

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import FAILED, OK, one_line


@click.group("calls", cls=options.ListingGroup)
def calls() -> None:
    """Calls and turns of due timers that are under way: list them, or cancel one that hangs.

    Without a subcommand it lists. All take --store and --json.
    """


@options.command("list")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=known_names.keys)
@options.limit_option(50)
@options.store_option
def listing(cls: str | None, key: str | None, limit: int, url: str, as_json: bool) -> None:
    """What the nodes are doing, of CLASS or of the object CLASS/KEY if given; those at it for longest first."""
    asyncio.run(_list(cls, key, limit, url, as_json))


async def _list(cls: str | None, key: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.node_access import connecting
    from wakeful.cli.output import now_ms, put_json, put_line
    from wakeful.cli.session import live, reading
    from wakeful.operations.call_looks import LIST
    from wakeful.security.audit import LOG
    from wakeful.views.view import View

    answer: dict[str, Any] = {"rows": [], "mute": []}
    hint = ""
    async with reading(url) as store, connecting(store, LOG) as client:
        if client is not None:
            answer = await live(client)(LOG, LIST, (limit, cls, key), {})
        if not answer["rows"] and not as_json:
            hint = await known_names.instead(View.of_store(store, now_ms()), cls, key)
    if as_json:
        put_json({"calls": answer["rows"], "mute": answer["mute"]})
        return
    if client is None:
        put_line("no process runs this store, so nothing is under way", "dim")
    elif not answer["rows"]:
        put_line(one_line(f"nothing is under way{f' of {cls}' if hint else ''}{hint}"), "dim")
    else:
        _put(answer["rows"])
    if answer["mute"]:
        put_line(
            one_line(f"no answer from {', '.join(answer['mute'])}: what is under way there is not shown"), "yellow"
        )


def _put(rows: list[dict[str, Any]]) -> None:
    from wakeful.cli.output import length, put_table

    cells = []
    for row in rows:
        what = row["words"] if row["kind"] == "call" else f"{row['words']} ({row['kind']})"
        state = row["state"] if row["is_awaited"] else f"{row['state']}, caller gone"
        place = f"{row['class']}/{row['key']}"
        cells.append(
            (
                row["id"] or "",
                place,
                what,
                state,
                length(row["for_ms"]),
                row["waits_for"],
                row["caller"] or "",
                row["node"],
            )
        )
    put_table(["id", "object", "call", "state", "for", "…waits for", "?from", "?node"], cells)


@options.command("cancel")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@options.store_option
def cancelling(ids: tuple[str, ...], url: str, as_json: bool) -> int:
    """Cancel calls that are under way: what each wrote is undone, as by a deadline, and its caller is told.

    The turn of a due timer counts as a failed attempt. Exit code 1 if one of them had ended.
    """
    return asyncio.run(_cancel(ids, url, as_json))


async def _cancel(ids: tuple[str, ...], url: str, as_json: bool) -> int:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting
    from wakeful.values.errors import Conflict
    from wakeful.views.calls import parse_call_id

    parsed = [parse_call_id(id) for id in ids]  # all of them make sense, or nothing is done
    answers: list[dict[str, Any]] = []
    async with acting(url, None, what="cancel", id=parsed[0][0]) as acts:
        for id in ids:
            try:
                answers.append({"id": id, "cancelled": True, "method": await acts.cancel_call(id), "problem": None})
            except Conflict as error:
                answers.append({"id": id, "cancelled": False, "method": None, "problem": error.message})
    if as_json:
        put_json(answers)
    else:
        for one in answers:
            text = "cancelled: it is being undone, and its caller is told" if one["cancelled"] else str(one["problem"])
            put_line(one_line(f"{one['id']}  {text}"), "green" if one["cancelled"] else "yellow")
    return OK if all(one["cancelled"] for one in answers) else FAILED


calls.add_command(listing)
calls.add_command(cancelling)
