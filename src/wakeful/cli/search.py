"""Layer 5. `wakeful search`: what is there of that name?"""

import asyncio

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, OK


@options.command("search")
@click.argument("text")
@options.limit_option(20)
@options.store_option
def search(text: str, limit: int, url: str, as_json: bool) -> int:
    """Find classes, objects, schedules, jobs, parked timers and nodes by TEXT: a name, its beginning, or a part of it.

    At most N of each kind. Exit code 1 if there is nothing.
    """
    return asyncio.run(_search(text, limit, url, as_json))


async def _search(text: str, limit: int, url: str, as_json: bool) -> int:
    from wakeful.cli.output import put_json, put_line, put_table
    from wakeful.cli.session import viewing
    from wakeful.views.search import find

    async with viewing(url) as view:
        hits = await find(view, text, limit)
    if as_json:
        put_json(hits)
    elif hits:
        put_table(["kind", "~name"], [(hit["kind"], hit["title"]) for hit in hits])
    else:
        put_line("nothing is called like that", "dim")
    return OK if hits else FAILED
