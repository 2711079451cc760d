"""Layer 5. `wakeful webhooks`: who is told of what happens, does it arrive, and a secret for a new one."""

import asyncio
from typing import TYPE_CHECKING

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, OK, one_line

if TYPE_CHECKING:
    from wakeful.views.webhooks import PlainWebhook

SHOWN = 5  # deliveries of each


@click.group("webhooks", cls=options.ListingGroup)
def webhooks() -> None:
    """Who hears of what is parked, failed, missed, late or away: webhooks, and handlers of the program.

    They are declared in the program (app.webhook, app.on). Without a subcommand it lists. All take --json.
    """


@options.command("list")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def listing(target: str | None, url: str, as_json: bool) -> None:
    """Webhooks and handlers, with their latest deliveries."""
    asyncio.run(_list(target, url, as_json))


async def _list(target: str | None, url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import reaching
    from wakeful.views.webhooks import rows

    async with reaching(url, target, what="webhooks") as reached:
        told = await rows(reached.send)
    if as_json:
        put_json(told)
    elif not told:
        put_line("nobody is told of anything; the program says app.webhook(…) or @app.on(…)", "dim")
    else:
        _put(told)


def _put(found: "list[PlainWebhook]") -> None:
    from wakeful.cli.output import length, put_line, put_table

    cells = [
        (
            row["name"],
            row["url"] or "a function",
            ", ".join(row["on"]),
            "/".join(part for part in (row["class"], row["prefix"]) if part) or "all",
            length(row["at_most_ms"]) if row["at_most_ms"] else "each",
        )
        for row in found
    ]
    put_table(["name", "…where to", "hears of", "objects", "at most"], cells)
    for row in found:
        for one in row["deliveries"][:SHOWN]:
            said = "delivered" if one["verdict"] == "run" else one["error"] or one["verdict"]
            text = f"{row['name']}  {one['at']}  attempt {one['attempt']}  {said}"
            put_line(one_line(text), "dim" if one["verdict"] == "run" else "yellow")


@options.command("test")
@click.argument("name", metavar="NAME")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def testing(name: str, target: str | None, url: str, as_json: bool) -> int:
    """Have the program send a test to the webhook NAME, once, and say what came back. Exit code 1 if it was not taken."""
    return asyncio.run(_test(name, target, url, as_json))


async def _test(name: str, target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting

    async with acting(url, target, what="webhooks") as acts:
        answer = await acts.test_webhook(name)
    if as_json:
        put_json(answer)
    elif answer["ok"]:
        put_line(f"taken: it answered {answer['status']}", "green")
    else:
        put_line(one_line(f"not taken: {answer['error']}"), "red")
    return OK if answer["ok"] else FAILED


@options.command("secret")
def secret(as_json: bool) -> None:
    """Make a secret and print it: for the program, and for whoever receives its webhooks."""
    from wakeful.cli.output import put_json, put_line
    from wakeful.webhooks import new_secret

    made = new_secret()
    if as_json:
        put_json({"secret": made})
    else:
        put_line(made)


for _command in (listing, testing, secret):
    webhooks.add_command(_command)
