"""Layer 5. `wakeful forget`: everything of an object, or of a whole tenant, goes for good."""

import asyncio
from typing import TYPE_CHECKING

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import OK

if TYPE_CHECKING:
    from wakeful.operations.forgets import Holdings, ObjectChoice


@options.command("forget")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=known_names.keys)
@click.option("--prefix", metavar="TEXT", help="All objects, of CLASS or of all classes, whose keys begin like that.")
@click.option("--yes", is_flag=True, help="With --prefix: do it without asking.")
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def forget(
    cls: str | None,
    key: str | None,
    prefix: str | None,
    yes: bool,
    dry_run: bool,
    target: str | None,
    url: str,
    as_json: bool,
) -> int:
    """Forget the object CLASS/KEY, or a whole tenant: --prefix acme/

    Rows, database, timers, jobs, machine and children, sockets, ledger, what is parked, remembered answers, its name.
    It can't be brought back. The audit log says who did it, and has no key in it. Cut off half-way, run it again.
    """
    from wakeful.operations.forgets import ObjectChoice

    choice = ObjectChoice(cls, key, prefix).check()
    return asyncio.run(_forget(choice, yes, dry_run, target, url, as_json))


async def _forget(choice: "ObjectChoice", yes: bool, dry_run: bool, target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.known_names import instead
    from wakeful.cli.node_access import connecting
    from wakeful.cli.output import confirm, many, put_json, put_line
    from wakeful.cli.session import acting, viewing
    from wakeful.operations.forgets import tally

    async with viewing(url) as view:
        held = await tally(view.stores, choice, view.now())
        hint = "" if as_json or held["objects"] else await instead(view, choice.cls, choice.key)
        # Of what is gone a run that was cut off may have left the name in the audit log, which only a process takes out.
        is_tried = held["objects"] > 0 or target is not None
        if not is_tried and not dry_run:
            async with connecting(view.stores[0]) as client:
                is_tried = client is not None
    count = 0
    if is_tried and not dry_run:
        if held["objects"] and choice.prefix is not None and not yes:
            confirm(f"forget {many(held['objects'], 'object')}", can_ask=not as_json)
        async with acting(url, target, what="forget") as acts:
            count = await acts.forget(choice)
    if as_json:
        put_json({"dry_run": dry_run, "forgotten": count, "held": held})
    elif not held["objects"]:
        put_line(f"there is nothing like that{hint}", "dim")
    else:
        put_line("would forget" if dry_run else f"forgot {many(count, 'object')}", "" if dry_run else "green")
        _put_held(held)
    return OK


def _put_held(held: "Holdings") -> None:
    from wakeful.cli.output import put_line

    words = {
        "objects": ("object", "objects"),
        "rows": ("row or page", "rows and pages"),
        "bytes": ("byte", "bytes"),
        "timers": ("timer or job", "timers and jobs"),
        "runs": ("ledger row", "ledger rows"),
    }
    for name, number in held.items():
        one, more = words.get(name, (name, name))
        put_line(f"  {number:>12,}  {one if number == 1 else more}")
