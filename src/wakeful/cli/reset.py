"""Layer 5. `wakeful reset`: a machine that is over begins anew."""

import asyncio
import json

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import USAGE, CommandError


@options.command("reset")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.option("--input", "given", metavar="JSON", help="What it begins with.")
@click.option("--force", is_flag=True, help="Also while it is active.")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def reset(cls: str, key: str, given: str | None, force: bool, target: str | None, url: str, as_json: bool) -> None:
    """Have the machine CLASS/KEY begin anew when it is done, failed or stopped. Leaves an audit row.

    Its delays are taken back and what it started is stopped; storage, state and database stay as they are.
    """
    try:
        input = None if given is None else json.loads(given)
    except ValueError as error:
        raise CommandError(f"--input is no JSON: {error}", code="option.input", exit_code=USAGE) from None
    asyncio.run(_reset(cls, key, input, force, target, url, as_json))


async def _reset(cls: str, key: str, input: object, force: bool, target: str | None, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting, viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views.machines import kept_of, plain_machine

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        await info_of(view, id)
    async with acting(url, target, what="reset", id=id) as acts:
        await acts.reset(id, input, force=force)
    async with viewing(url) as view:
        kept = await kept_of(view.store_of(id), id)
    assert kept is not None
    begun = plain_machine(kept)
    if as_json:
        put_json({"class": cls, "key": key, "value": begun["value"], "status": begun["status"]})
    else:
        put_line(f"{id} begins anew, in {json.dumps(begun['value'], ensure_ascii=False)}", "green")
