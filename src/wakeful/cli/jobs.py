"""Layer 5. `wakeful jobs`: which are owed, which failed, what became of the others; and cancelling one."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import FAILED, OK, one_line

if TYPE_CHECKING:
    from wakeful.jobs.job import Job
    from wakeful.views.jobs import PlainAttempt


@click.group("jobs", cls=options.ListingGroup)
def jobs() -> None:
    """One call, once, at a time: what is owed, what failed, what became of the rest.

    Without a subcommand it lists. All take --store and --json.
    """


@options.command("list")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=known_names.keys)
@click.option("--state", metavar="STATE", help="scheduled, waiting, running, done, failed or cancelled.")
@click.option("--method", metavar="METHOD", help="Only jobs that call this method.")
@click.option("--key-prefix", metavar="TEXT", help="Only jobs whose own key begins like that.")
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.")
@click.option("--after", metavar="CURSOR", help="Where the last page ended: its `next`.")
@options.limit_option(50)
@options.store_option
def listing(
    cls: str | None,
    key: str | None,
    state: str | None,
    method: str | None,
    key_prefix: str | None,
    tag: str | None,
    after: str | None,
    limit: int,
    url: str,
    as_json: bool,
) -> None:
    """Jobs, of CLASS or of the object CLASS/KEY if given: owed ones in firing order, then failed ones, then ended ones."""
    asyncio.run(_list((cls, key, method, state, key_prefix, tag), after, limit, url, as_json))


async def _list(wanted: tuple[str | None, ...], after: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import instead
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import viewing
    from wakeful.jobs.queries import JobFilter
    from wakeful.views.jobs import plain_job, rows

    async with viewing(url) as view:
        page = await rows(view, JobFilter(*wanted), limit, after)
        hint = "" if page.rows or as_json else await instead(view, *wanted[:2])
    if as_json:
        put_json({"jobs": [plain_job(job) for job in page.rows], "next": page.cursor})
        return
    if not page.rows:
        where = "/".join(part for part in wanted[:2] if part)
        put_line(f"no jobs of {where}{hint}" if where else "no jobs", "dim")
        return
    _put(page.rows)
    if page.cursor is not None:
        put_line(f"the first {len(page.rows):,}; -n shows more", "dim")


@options.command("get")
@click.argument("id", metavar="ID", shell_complete=known_names.jobs)
@options.store_option
def getting(id: str, url: str, as_json: bool) -> None:
    """Everything that is known of one job."""
    asyncio.run(_get(id, url, as_json))


async def _get(id: str, url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import viewing
    from wakeful.views.arguments import words
    from wakeful.views.jobs import show
    from wakeful.views.plain import text

    async with viewing(url) as view:
        answer = await show(view, id)
    if as_json:
        put_json(answer)
        return
    given, attempts = answer["arguments"], answer["attempts"]
    for name, value in answer.items():
        if name == "arguments" and given is not None:
            put_line(one_line(f"{name:<11} {words(given)}"))
        elif name not in ("attempts", "left_out") and value not in (
            None,
            [],
            {},
            "",
        ):  # nothing is left out of one alone
            put_line(one_line(f"{name:<11} {value if isinstance(value, str) else text(value)}"))
    if attempts:
        _put_attempts(attempts)


def _put_attempts(attempts: list["PlainAttempt"]) -> None:
    """For people: what came of each, newest first."""
    from wakeful.cli.output import clock_time, length, put_line, put_table
    from wakeful.values.times import from_datetime

    put_line()
    rows = []
    for row in attempts:
        began, ended = (from_datetime(datetime.fromisoformat(row[at])) for at in ("fired_at", "finished_at"))
        cells = (
            row["attempt"],
            row["verdict"],
            clock_time(began),
            length(ended - began),
            row["node"],
            row["error"] or "",
        )
        rows.append(cells)
    put_table([">attempt", "ended", "began", "took", "?node", "…error"], rows)


@options.command("cancel")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=known_names.jobs)
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def cancelling(ids: tuple[str, ...], target: str | None, url: str, as_json: bool) -> int:
    """Cancel jobs. `cancelled` means that it has not run and never will; one that runs is asked to stop.

    Exit code 1 if one of them was over already, or there is none of that id.
    """
    return asyncio.run(_cancel(ids, target, url, as_json))


async def _cancel(ids: tuple[str, ...], target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting
    from wakeful.jobs.ids import parse_id

    parsed = [parse_id(id) for id in ids]  # all of them make sense, or nothing is done
    async with acting(url, target, what="cancel", id=parsed[0][0]) as acts:
        answers = {id: await acts.cancel_job(id) for id in ids}
    if as_json:
        put_json([{"id": id, "cancelled": done} for id, done in answers.items()])
    else:
        for id, done in answers.items():
            text = "cancelled: it has not run and never will" if done else "not cancelled: it is over, or there is none"
            put_line(one_line(f"{id}  {text}"), "green" if done else "yellow")
    return OK if all(answers.values()) else FAILED


jobs.add_command(listing)
jobs.add_command(getting)
jobs.add_command(cancelling)


def _put(page: list["Job"]) -> None:
    from wakeful.cli.output import clock_time, now_ms, put_table, relative
    from wakeful.values.times import from_datetime

    now, rows = now_ms(), []
    for job in page:
        due_at = from_datetime(job.due_at)
        # One that waits for others has no time yet; what it says is when it was asked for.
        due = ("", "") if job.state == "waiting" else (clock_time(due_at), relative(due_at, now))
        notes = [f"attempt {job.attempt}"] if job.attempt > 1 else []
        notes += [f"priority {job.priority}"] if job.priority else []
        notes += [f"waits for {len(job.depends_on)}"] if job.depends_on else []
        notes += [f"in queue {job.queue}"] if job.queue and job.state == "waiting" else []
        notes += [job.error.splitlines()[0]] if job.error else []
        rows.append((job.id, job.state, *due, str(job.target), job.name, ", ".join(notes)))
    put_table(["id", "state", "due", "", "object", "method", "…note"], rows)
