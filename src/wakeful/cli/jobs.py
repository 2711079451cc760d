"""Layer 5. `wakeful jobs`: which are owed, which failed, what became of the others; and cancelling one."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import click

from wakeful.cli import options
from wakeful.cli.failing import FAILED, OK, one_line

if TYPE_CHECKING:
    from wakeful.jobs.job import Job, Page
    from wakeful.runtime.node import Node
    from wakeful.store.protocol import Store
    from wakeful.values.commits import Remembered
    from wakeful.values.ids import ObjectId


class _Jobs(click.Group):
    """`wakeful jobs` alone lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("jobs", cls=_Jobs)
def jobs() -> None:
    """One call, once, at a time: what is owed, what failed, what became of the rest.

    Without a subcommand it lists. All take --store and --json.
    """


@options.command("list")
@click.argument("cls", metavar="[CLASS]", required=False)
@click.argument("key", metavar="[KEY]", required=False)
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
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import put_json, put_line
    from wakeful.jobs.reading import Wanted, listed

    async with reading(url) as store:
        page = await listed(await _onlooker(store), Wanted(*wanted), limit=min(limit, 10_000), after=after)
    if as_json:
        put_json({"jobs": [plain_job(job) for job in page], "next": page.next})
        return
    if not page:
        put_line("no jobs", "dim")
        return
    _put(page)
    if page.next is not None:
        put_line(f"the first {len(page):,}; -n shows more", "dim")


@options.command("get")
@click.argument("id", metavar="ID")
@options.store_option
def getting(id: str, url: str, as_json: bool) -> None:
    """Everything that is known of one job."""
    asyncio.run(_get(id, url, as_json))


async def _get(id: str, url: str, as_json: bool) -> None:
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import put_json, put_line
    from wakeful.jobs.reading import get

    async with reading(url) as store:
        job = await get(await _onlooker(store), id)
    answer = plain_job(job)
    if as_json:
        put_json(answer)
        return
    for name, value in answer.items():
        if value not in (None, [], {}, ""):
            from wakeful.cli.plain import text

            put_line(one_line(f"{name:<11} {value if isinstance(value, str) else text(value)}"))


@options.command("cancel")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def cancelling(ids: tuple[str, ...], target: str | None, url: str, as_json: bool) -> int:
    """Cancel jobs. `cancelled` means that it has not run and never will; one that runs is asked to stop.

    Exit code 1 if one of them was over already, or there is none of that id.
    """
    return asyncio.run(_cancel(ids, target, url, as_json))


async def _cancel(ids: tuple[str, ...], target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.asking import ask
    from wakeful.cli.printing import put_json, put_line
    from wakeful.jobs.ids import parse_id

    parsed = [parse_id(id) for id in ids]  # all of them make sense, or nothing is done
    answers = {}
    for id, (object_id, name) in zip(ids, parsed, strict=True):
        answers[id] = bool(await ask(object_id, "jobs.cancel", (name,), {}, url=url, target=target, what="cancel"))
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


class _Onlooker:
    """As much of a node as reading jobs needs, for someone who runs none."""

    def __init__(self, store: "Store", now: int) -> None:
        self.store = store
        self.epochs: dict[int, int] = {}
        self.clock = self
        self.all_homes = [self]
        self._now = now

    def home(self, id: Any) -> "_Onlooker":
        return self

    def now(self) -> int:
        return self._now

    async def sleep(self, ms: int) -> None:
        """Nobody else wants to go on here."""

    async def reading(self, what: Any) -> Any:
        return await what

    async def recall(self, id: "ObjectId", key: str) -> "Remembered | None":
        return await self.store.recall(id, key, now=self._now)


async def _onlooker(store: "Store") -> "Node":
    """Whoever reads through it gets values without the program's types."""
    from wakeful.cli.printing import now_ms
    from wakeful.jobs.payload import READ
    from wakeful.values.codec import decode_loosely

    READ.set(decode_loosely)
    time = await store.time()
    return cast("Node", _Onlooker(store, now_ms() if time is None else time))


def plain_job(job: "Job") -> dict[str, Any]:
    """For programs."""
    from wakeful.cli.plain import plain
    from wakeful.cli.printing import iso
    from wakeful.values.times import from_datetime

    return {
        "id": job.id,
        "class": job.target.cls,
        "key": job.target.key,
        "method": job.name,
        "state": job.state,
        "due_at": iso(from_datetime(job.due_at)),
        "created_at": None if job.created_at is None else iso(from_datetime(job.created_at)),
        "job_key": job.key,
        "attempt": job.attempt,
        "priority": job.priority,
        "tags": list(job.tags),
        "metadata": plain(job.metadata),
        "depends_on": list(job.depends_on),
        "batch": job.batch,
        "result": plain(job.result),
        "error": job.error,
        "run_id": job.run_id,
    }


def _put(page: "Page") -> None:
    from wakeful.cli.printing import clock_time, now_ms, put_table, relative
    from wakeful.values.times import from_datetime

    now, rows = now_ms(), []
    for job in page:
        due_at = from_datetime(job.due_at)
        notes = [f"attempt {job.attempt}"] if job.attempt > 1 else []
        notes += [f"priority {job.priority}"] if job.priority else []
        notes += [f"waits for {len(job.depends_on)}"] if job.depends_on else []
        notes += [job.error.splitlines()[0]] if job.error else []
        rows.append(
            (job.id, job.state, clock_time(due_at), relative(due_at, now), str(job.target), job.name, ", ".join(notes))
        )
    put_table(["id", "state", "due", "", "object", "method", "…note"], rows)
