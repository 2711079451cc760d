"""Layer 5. `wakeful queues`: how many wait and run in each, what it holds to; pausing one, and resuming it."""

import asyncio

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, OK, one_line


@click.group("queues", cls=options.ListingGroup)
def queues() -> None:
    """What jobs and workflows go through so that no more run at once, or in a stretch of time.

    Without a subcommand it lists. All take --store and --json.
    """


@options.command("list")
@options.store_option
def listing(url: str, as_json: bool) -> None:
    """Queues, with what waits and runs in each."""
    asyncio.run(_list(url, as_json))


async def _list(url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line, put_table
    from wakeful.cli.session import viewing
    from wakeful.views.queues import limits_words, rows

    async with viewing(url) as view:
        page = await rows(view)
    if as_json:
        put_json({"queues": page})
    elif not page:
        put_line("no queues; there is one when a job has gone through it: schedule(…, queue=Queue(…))", "dim")
    else:
        cells = []
        for row in page:
            state = "paused" if row["paused_at"] else "open"
            note = (
                row["note"] if row["paused_at"] else f"the next may go at {row['opens_at']}" if row["opens_at"] else ""
            )
            counts = (str(row["running"]), str(row["waiting"]), row["oldest_at"] or "", str(row["admitted"]))
            cells.append((row["name"], state, *counts, limits_words(row), one_line(note)))
        put_table(["queue", "state", "running", "waiting", "since", "let go", "limits", "…note"], cells)


@options.command("pause")
@click.argument("name", metavar="NAME")
@click.option("--note", metavar="TEXT", default="", help="Why, for those who look.")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def pausing(name: str, note: str, target: str | None, url: str, as_json: bool) -> int:
    """Let nobody in the queue NAME go until it is resumed; who runs goes on. Exit code 1 if it was paused already."""
    return asyncio.run(_act(name, note, target, url, as_json))


@options.command("resume")
@click.argument("name", metavar="NAME")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def resuming(name: str, target: str | None, url: str, as_json: bool) -> int:
    """Let those that wait in the queue NAME go again. Exit code 1 if it was not paused."""
    return asyncio.run(_act(name, None, target, url, as_json))


async def _act(name: str, note: str | None, target: str | None, url: str, as_json: bool) -> int:
    """A note pauses it, None resumes it."""
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting

    async with acting(url, target, what="queues") as acts:
        is_done = await (acts.resume_queue(name) if note is None else acts.pause_queue(name, note))
    said = "resumed" if note is None else "paused"
    if as_json:
        put_json({"queue": name, said: is_done})
    elif is_done:
        put_line(one_line(f"{name} is {said}"), "green")
    else:
        put_line(one_line(f"{name} was {'not paused' if note is None else 'paused already'}"), "yellow")
    return OK if is_done else FAILED


for _command in (listing, pausing, resuming):
    queues.add_command(_command)
