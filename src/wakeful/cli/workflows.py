"""Layer 5. `wakeful workflow`: how does a workflow stand, and what can be done to it?"""

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import USAGE, CommandError, one_line

if TYPE_CHECKING:
    from wakeful.views.workflows import PlainWorkflow

F = TypeVar("F", bound=Callable[..., Any])
SHOWN = 200  # steps
_app_option = options.app_option("When no process runs the store: run this program for the length of the command.")


@click.group("workflow")
def workflow() -> None:
    """List workflows, show one and its steps; start, send, pause, resume, cancel, retry, restart and fork one. All take --json."""


def _workflow_arguments(function: F) -> F:
    function = click.argument("key", shell_complete=known_names.keys)(function)
    return click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)(function)


@options.command("show")
@_workflow_arguments
@options.limit_option(SHOWN)
@options.store_option
def show(cls: str, key: str, limit: int, url: str, as_json: bool) -> None:
    """How the workflow CLASS/KEY stands, and its last steps. Doesn't wake it."""
    asyncio.run(_show(cls, key, limit, url, as_json))


@options.command("ls")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.option(
    "--state", metavar="STATE", help="running, sleeping, waiting, queued, paused, parked, done, failed or cancelled."
)
@click.option("--prefix", metavar="TEXT", help="Only keys that begin like that (case matters).")
@click.option("--after", metavar="CURSOR", help="Where the last page ended: its `next`.")
@options.limit_option(50)
@options.store_option
def listing(
    cls: str | None, state: str | None, prefix: str | None, after: str | None, limit: int, url: str, as_json: bool
) -> None:
    """List workflows by class and key, without waking them."""
    asyncio.run(_list(cls, state, prefix, after, limit, url, as_json))


async def _list(
    cls: str | None, state: str | None, prefix: str | None, after: str | None, limit: int, url: str, as_json: bool
) -> None:
    from wakeful.cli.output import put_json, put_line, put_table
    from wakeful.cli.session import viewing
    from wakeful.views.workflows import page

    async with viewing(url) as view:
        listed = await page(view, cls, state, limit, after, prefix=prefix)
    if as_json:
        put_json({"workflows": listed.rows, "next": listed.cursor})
        return
    if listed.rows:
        cells = [
            (
                row["class"],
                row["key"],
                row["state"],
                row["since"] or "",
                row["wake_at"] or "",
                one_line(row["error"] or ", ".join(row["waits_for"])),
            )
            for row in listed.rows
        ]
        put_table(["class", "key", "state", "since", "goes on at", "…what"], cells)
    else:
        put_line("no workflows" + (" match" if cls or state or prefix or after else " have been started"), "dim")
    if listed.cursor is not None:
        put_line(f"there may be more: --after {listed.cursor}", "dim")


@options.command("start")
@_workflow_arguments
@click.argument("args", metavar="[ARGUMENT]...", nargs=-1)
@click.option("--queue", metavar="NAME", help="The queue that it goes through; the program says its limits.")
@click.option("--queue-key", metavar="KEY", help="And as whose.")
@_app_option
@options.store_option
def start(
    cls: str,
    key: str,
    args: tuple[str, ...],
    queue: str | None,
    queue_key: str | None,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Start CLASS/KEY. Each argument is JSON if its body takes that there, else plain text. Again with the same changes nothing."""
    from wakeful.operations.text_calls import CALL
    from wakeful.policy.queue_terms import Queue

    if queue is None and queue_key is not None:
        raise CommandError("--queue-key goes with --queue", code="queue.option", exit_code=USAGE)
    option = {} if queue is None else {"queue": Queue(queue, key=queue_key)}
    asyncio.run(_call(cls, key, CALL, ("start", args), target, url, as_json, option))


@options.command("send")
@_workflow_arguments
@click.argument("event")
@click.argument("data", metavar="[JSON]", required=False)
@_app_option
@options.store_option
def send(cls: str, key: str, event: str, data: str | None, target: str | None, url: str, as_json: bool) -> None:
    """Send EVENT to CLASS/KEY, with data if there is any; it is kept until the workflow waits for it."""
    args = (event,) if data is None else (event, _value(data))
    asyncio.run(_call(cls, key, "send", args, target, url, as_json))


def _plain(name: str, about: str) -> None:
    """A command that takes nothing but the workflow."""

    @_workflow_arguments
    @_app_option
    @options.store_option
    def act(cls: str, key: str, target: str | None, url: str, as_json: bool) -> None:
        asyncio.run(_act(cls, key, name, (), target, url, as_json))

    act.__doc__ = about
    workflow.add_command(options.command(name)(act))


@options.command("retry")
@_workflow_arguments
@click.option(
    "--from", "from_step", metavar="STEP", help="The step, like mail or 'mail #2'; without it the one that failed."
)
@_app_option
@options.store_option
def retry(cls: str, key: str, from_step: str | None, target: str | None, url: str, as_json: bool) -> None:
    """Have CLASS/KEY, which failed or is parked, go on from a step. What came of that step is forgotten. Leaves an audit row."""
    asyncio.run(_act(cls, key, "retry", (from_step,), target, url, as_json))


@options.command("fork")
@_workflow_arguments
@click.argument("new_key", metavar="NEW_KEY")
@click.option("--from", "from_step", metavar="STEP", help="The step from which on it goes its own way.")
@_app_option
@options.store_option
def fork(cls: str, key: str, new_key: str, from_step: str | None, target: str | None, url: str, as_json: bool) -> None:
    """Make CLASS/NEW_KEY, which has all that CLASS/KEY had before that step, and goes on from there. Leaves an audit row."""
    asyncio.run(_act(cls, key, "fork", (new_key, from_step), target, url, as_json))


for _command in (listing, show, start, send, retry, fork):
    workflow.add_command(_command)
_plain("pause", "Have CLASS/KEY begin nothing more; functions that run come to their end. Leaves an audit row.")
_plain("resume", "Have CLASS/KEY go on, from a pause or from where it was parked. Leaves an audit row.")
_plain("cancel", "End CLASS/KEY: its finally blocks run, then what undoes its steps, last first. Leaves an audit row.")
_plain("restart", "Have CLASS/KEY begin from the top, with what it was started with. Leaves an audit row.")


def _value(given: str) -> Any:
    try:
        return json.loads(given)
    except ValueError:
        return given


async def _call(
    cls: str,
    key: str,
    method: str,
    args: tuple[Any, ...],
    target: str | None,
    url: str,
    as_json: bool,
    option: dict[str, Any] | None = None,
) -> None:
    from wakeful.cli.session import ask
    from wakeful.values.ids import ObjectId, check_class, check_key

    id = ObjectId(check_class(cls), check_key(cls, key))
    await ask(id, method, args, option or {}, url=url, target=target, what="workflow")
    await _show(cls, key, SHOWN, url, as_json)


async def _act(
    cls: str, key: str, act: str, args: tuple[str | None, ...], target: str | None, url: str, as_json: bool
) -> None:
    from wakeful.cli.session import acting, viewing
    from wakeful.values.ids import ObjectId, check_key
    from wakeful.views.workflows import record_of

    id = ObjectId(cls, key)
    if act == "fork" and args[0] == key:
        raise CommandError("give the fork another key", code="workflow.itself", exit_code=USAGE)
    async with viewing(url) as view:
        await record_of(view.store_of(id), id)
    async with acting(url, target, what="workflow", id=id) as acts:
        await acts.workflow(id, act, *args)
    shown = check_key(cls, args[0]) if act == "fork" and args[0] is not None else key
    await _show(cls, shown, SHOWN, url, as_json)


async def _show(cls: str, key: str, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json
    from wakeful.cli.session import viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views.workflows import show as look

    async with viewing(url) as view:
        row = await look(view, ObjectId(cls, key), limit)
    if as_json:
        put_json(row)
    else:
        _put(row)


def _put(row: "PlainWorkflow") -> None:
    from wakeful.cli.output import put_line, put_table

    style = {"failed": "red", "parked": "red", "done": "green"}.get(row["state"], "yellow")
    more = f", waits for {', '.join(row['waits_for'])}" if row["waits_for"] else ""
    if row["state"] == "queued":
        more = f" in queue {row['queue']}" + (f", as {row['queue_key']}" if row["queue_key"] else "")
    until = f", goes on at {row['wake_at']}" if row["wake_at"] else ""
    put_line(one_line(f"{row['class']}/{row['key']}  {row['state']} since {row['since']}{more}{until}"), style)
    if row["error"]:
        put_line(one_line(row["error"]), "red")
    cells = [
        (
            step["number"],
            step["name"],
            step["kind"],
            step["state"],
            step["attempts"] or "",
            step["ended_at"] or step["wake_at"] or "",
            step["error"] or step["detail"] or "",
        )
        for step in row["steps"]
    ]
    if cells:
        put_table([">#", "step", "kind", "state", ">attempts", "at", "…what"], cells)
