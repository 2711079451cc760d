"""Layer 5. `wakeful history`, `wakeful restore`: what was an object, and how does it become that again?"""

import asyncio

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import one_line


@options.command("history")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@options.limit_option(20)
@options.store_option
def history(cls: str, key: str, limit: int, url: str, as_json: bool) -> None:
    """List the points that the object CLASS/KEY can go back to, newest first: when, by what, and what changed."""
    asyncio.run(_history(cls, key, limit, url, as_json))


async def _history(cls: str, key: str, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import clock_time, put_json, put_line, put_table
    from wakeful.cli.session import viewing
    from wakeful.history.images import time_of
    from wakeful.values.ids import ObjectId
    from wakeful.views import history as points

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        await info_of(view, id)
        since = await points.begins(view.store_of(id), id)
        page = await points.page(view, id, limit)
    if as_json:
        put_json({"begins": since, "rows": page.rows})
        return
    if since is None:
        put_line(f'{id} has no history: its class has no history = "30d", or nothing was committed since', "dim")
        return
    rows = []
    for point in page.rows:
        by = f"{point['by']} (by {point['caller']})" if point["caller"] else point["by"]
        by = f"{by}, back to {point['restored_to']}" if point["restored_to"] else by
        changed = one_line(points.words(point["changed"]))
        rows.append((clock_time(time_of(point["bookmark"])), point["bookmark"], one_line(by), changed))
    put_table(["at", "bookmark", "~by", "~changed"], rows)
    if page.cursor is not None:
        put_line("there are more; -n shows them", "dim")
    begun = time_of(since)
    put_line(f"it can go back to {clock_time(begun)}" if begun else "it can go back to when there was nothing", "dim")


@options.command("restore")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.option(
    "--to", required=True, metavar="TIME|BOOKMARK", help="A time with its offset, or a point of wakeful history."
)
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--no-timers", is_flag=True, help="Leave alarm, schedules and delays as they are.")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def restore(
    cls: str, key: str, to: str, dry_run: bool, no_timers: bool, target: str | None, url: str, as_json: bool
) -> None:
    """Have the object CLASS/KEY be as it was; its owner does it, without waking it. Leaves an audit row.

    Rows, state, database and timers go back; jobs, the ledger and sockets stay. It says with which bookmark that is undone.
    """
    asyncio.run(_restore(cls, key, to, dry_run, not no_timers, target, url, as_json))


async def _restore(
    cls: str, key: str, to: str, is_dry: bool, timers: bool, target: str | None, url: str, as_json: bool
) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.session import acting, viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views import history as points

    id, mark = ObjectId(cls, key), points.mark_of(to)
    async with viewing(url) as view:
        await info_of(view, id)
        planned = await points.preview(view, id, mark, timers=timers)
    before = None
    if not is_dry:
        async with acting(url, target, what="restore", id=id) as acts:
            before = await acts.restore(id, mark, timers=timers)
    if as_json:
        put_json({"dry_run": is_dry, "before": before, **planned})
        return
    changed = one_line(points.words(planned["changed"]))
    least = "at least " if planned["is_cut"] else ""
    verb = "would be" if is_dry else "was" if planned["points"] == 1 else "were"
    undone = f"{least}{many(planned['points'], 'commit')} {verb} undone: {changed}"
    put_line(one_line(f"{id}: {undone}"), "" if is_dry else "green")
    if planned["leaves_nothing"]:
        put_line(f"that is before there was anything of it: nothing {'would be' if is_dry else 'is'} left", "yellow")
    if before is not None:
        put_line(f"to undo this: --to {before}", "dim")
