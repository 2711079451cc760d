"""Layer 5. `wakeful redrive`: set parked timers due again, through the owner or in its absence."""

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options
from wakeful.cli.failing import FAILED, OK, USAGE, CommandError, one_line

if TYPE_CHECKING:
    from wakeful.store.protocol import Store
    from wakeful.values.timers import Parked


@options.command("redrive")
@click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=int)
@click.option("--all", "everything", is_flag=True, help="All that is parked.")
@click.option("--class", "cls", metavar="CLASS", help="With --all: only of this class.")
@click.option("--key", metavar="KEY", help="With --all: only of this object.")
@options.store_option
def redrive(
    numbers: tuple[int, ...], everything: bool, cls: str | None, key: str | None, url: str, as_json: bool
) -> int:
    """Set parked timers due again at once, with a fresh count of attempts.

    Give the numbers that `wakeful parked` shows, or --all. The process that runs the store does it;
    without one the timers are set in the store and fire when it starts.
    """
    if bool(numbers) == everything:
        raise CommandError(
            "say what to redrive: numbers from `wakeful parked`, or --all", code="usage", exit_code=USAGE
        )
    return asyncio.run(_redrive(numbers, everything, cls, key, url, as_json))


async def _redrive(
    numbers: tuple[int, ...], everything: bool, cls: str | None, key: str | None, url: str, as_json: bool
) -> int:
    from wakeful.cli.finding import connected, reading
    from wakeful.cli.naming import name_words
    from wakeful.cli.printing import put_json, put_line

    async with reading(url) as store, connected(store) as client:
        if client is not None:
            results = await client.redrive(numbers, all=everything, cls=cls, key=key)
    if client is None:
        results = await redrive_unowned(url, numbers, everything, cls, key)
    if as_json:
        put_json(results)
    else:
        for row in results:
            what = f"{row['class']}/{row['key']} {name_words(row['timer'])}: " if row["class"] else ""
            line = f"{row['number']}  {what}" + ("due now" if row["ok"] else str(row["problem"]))
            put_line(one_line(line), "green" if row["ok"] else "red")
        if not results:
            put_line("nothing is parked", "dim")
        elif client is None and any(row["ok"] for row in results):
            put_line("no process runs this store; they fire when one starts", "dim")
    return OK if all(row["ok"] for row in results) else FAILED


async def redrive_unowned(
    url: str, numbers: tuple[int, ...], everything: bool, cls: str | None, key: str | None
) -> list[dict[str, Any]]:
    """Do it without the program: own the shards for a moment, commit, release. Needs no classes."""
    import random

    from wakeful.cli.printing import now_ms
    from wakeful.logic.limits import Limits
    from wakeful.runtime.node import Node
    from wakeful.runtime.registry import Registry
    from wakeful.store import open_url
    from wakeful.system import SystemClock
    from wakeful.transport.control import find_parked, redriven
    from wakeful.transport.messages import RedriveRequest
    from wakeful.values.errors import WakefulError
    from wakeful.values.ids import shard_of

    store = open_url(url)
    await store.open(now=now_ms())
    try:
        name = f"redrive-{uuid.uuid4().hex[:8]}"
        node = Node(
            name=name,
            registry=Registry(),
            store=store,
            clock=SystemClock(),
            dice=random.SystemRandom(),
            limits=Limits(),
            idle_ms=0,
            about="wakeful redrive",
        )
        found = await find_parked(node, RedriveRequest(0, list(numbers), everything, cls, key))
        results = [redriven(n, None, "is not parked") for n in sorted(set(numbers) - {p.number for p in found})]
        if found:
            node.epochs = await store.claim(name, sorted({shard_of(p.timer.id) for p in found}), now=now_ms())
        for parked in found:
            try:
                await _put_back(store, node, parked)
                results.append(redriven(parked.number, parked, None))
            except WakefulError as error:
                results.append(redriven(parked.number, parked, str(error)))
        await store.release(name, node.epochs)
        return results
    finally:
        await store.close()


async def _put_back(store: "Store", node: Any, parked: "Parked") -> None:
    from wakeful.cli.printing import now_ms
    from wakeful.store.protocol import Query
    from wakeful.values.commits import Commit
    from wakeful.values.errors import Conflict, Fenced
    from wakeful.values.ids import shard_of
    from wakeful.values.timers import Timer

    old, now = parked.timer, now_ms()
    shard = shard_of(old.id)
    if await store.find_timers(Query(cls=old.id.cls, key=old.id.key, name=old.name, limit=1)):
        raise Conflict(f"{old.id} has another {old.name} pending; let it run or delete it, then redrive this one")
    fresh = Timer(
        old.id, old.name, now, old.nominal_at, node.next_seq(shard), priority=old.priority, payload=old.payload
    )
    commit = Commit(id=old.id, shard=shard, epoch=node.epochs[shard], now=now, sets=[fresh], unparks=[parked.number])
    [outcome] = await store.commit(node.name, [commit])
    if isinstance(outcome, Fenced):
        raise Conflict("a process took the store over meanwhile; redrive again, through it")
    if outcome is not None:
        raise outcome
