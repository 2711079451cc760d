"""Layer 5. `wakeful doctor`: is everything well, and what should be done where it isn't?"""

import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.cli import options
from wakeful.cli.failing import FAILED, OK, CommandError
from wakeful.cli.findings import Finding, clock, put

if TYPE_CHECKING:
    from wakeful.store.protocol import Store

# A node that is well fires within milliseconds; this much is a loaded machine.
OVERDUE_MS = 5_000
OVERDUE_LOOKED_AT = 1_000


@options.command("doctor")
@options.app_option("Compare the classes in the store with this program's.")
@options.store_option
def doctor(target: str | None, url: str, as_json: bool) -> int:
    """Look at the store, its owner, its timers and its clock. Exit code 1 if something must be done."""
    return asyncio.run(_doctor(target, url, as_json))


async def _doctor(target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.printing import put_json

    findings = await examine(target, url)
    if as_json:
        put_json([finding._asdict() for finding in findings])
    else:
        put(findings)
    return FAILED if any(finding.status == "fail" for finding in findings) else OK


async def examine(target: str | None, url: str) -> list[Finding]:
    """Everything that can be known from outside; stops where the store can't be opened."""
    from wakeful.cli.finding import reading
    from wakeful.cli.schema import migrations
    from wakeful.values.errors import BadUrl, MissingExtra, SchemaTooNew, SchemaTooOld, WakefulError

    classes = _classes_of(target) if target is not None else None
    try:
        newest = migrations(url)[-1]
        async with reading(url) as store:
            findings = [
                Finding("store", "ok", f"{store.url} can be read"),
                Finding("schema", "ok", f"up to date ({newest})"),
            ]
            owner, status = await _owner(store)
            findings += owner
            findings += await _classes(store, classes if classes is not None else (status or {}).get("classes"))
            findings.append(await _overdue(store, is_running=status is not None))
            findings.append(await _parked(store))
            findings += await clock(store, url)
            return findings
    except (BadUrl, MissingExtra):
        raise
    except (SchemaTooNew, SchemaTooOld) as error:
        return [Finding("schema", "fail", *_split(error.message))]
    except CommandError:
        raise
    except WakefulError as error:
        return [Finding("store", "fail", *_split(error.message))]


def _classes_of(target: str) -> list[str]:
    from wakeful.cli.loading import load

    return load(target).app.registry.names()


async def _owner(store: "Store") -> tuple[list[Finding], dict[str, Any] | None]:
    """Who runs it; with what the node says about itself, None when nobody can be asked."""
    from wakeful.cli.finding import connected
    from wakeful.cli.printing import many

    shards = await store.owners()
    unowned = sum(shard.owner is None for shard in shards)
    try:
        async with connected(store) as client:
            status = None if client is None else await client.status()
    except CommandError as error:
        return [Finding("owner", "warn", *_split(error.message))], None
    if status is None:
        note = "" if unowned == len(shards) else "; the last one did not stop cleanly, which harms nothing"
        remedy = "start it: wakeful run module:app, or wakeful dev app.py"
        return [Finding("owner", "warn", f"no process runs this store, so nothing fires{note}", remedy)], None
    who = f"node {status['node']}, pid {status['pid']}"
    if status["state"] != "up":
        text = f"{who} is {status['state']}: {status['down_because'] or 'it is stopping'}"
        return [Finding("owner", "fail", text, "see its log; it goes on by itself when the store is back")], status
    text = f"{who} is up with {many(status['shards'], 'shard')}, {many(status['awake'], 'object')} awake"
    findings = [Finding("owner", "ok", text)]
    if unowned:
        remedy = "restart the node; it claims every shard when it starts"
        findings.append(
            Finding("shards", "fail", f"{many(unowned, 'shard')} without an owner: their timers wait", remedy)
        )
    return findings, status


async def _classes(store: "Store", known: list[str] | None) -> list[Finding]:
    from wakeful.cli.printing import many

    found = await store.known_classes()
    if known is None:
        text = f"{many(len(found), 'class')} in the store: {', '.join(found) or 'none'}"
        return [Finding("classes", "ok", text, "--app app.py compares them with a program's")]
    unknown = [name for name in found if name not in known]
    if not unknown:
        return [Finding("classes", "ok", f"all {many(len(found), 'class')} in the store are known")]
    remedy = "import their module in the program, or give the renamed class name='…'"
    return [
        Finding(
            "classes",
            "warn",
            f"{name} is not known to the program; {many(await store.count('objects', cls=name), 'object')} and "
            f"{many(await store.count('timers', cls=name), 'timer')} of it wait",
            remedy,
        )
        for name in unknown
    ]


async def _overdue(store: "Store", *, is_running: bool) -> Finding:
    from wakeful.cli.printing import length, many, now_ms
    from wakeful.store.protocol import Query

    now = now_ms()
    timers = await store.find_timers(Query(limit=OVERDUE_LOOKED_AT))
    late = [timer for timer in timers if timer.due_at < now - OVERDUE_MS and not timer.started]
    if not late:
        return Finding("timers", "ok", f"{many(await store.count('timers'), 'timer')} waiting, none overdue")
    more = "at least " if len(late) == OVERDUE_LOOKED_AT else ""
    text = f"{more}{many(len(late), 'timer')} overdue, the oldest by {length(now - late[0].due_at)} ({late[0].id})"
    remedy = "see the node's log, and the classes above" if is_running else "they fire when a process runs the store"
    return Finding("timers", "warn", text, remedy)


async def _parked(store: "Store") -> Finding:
    from wakeful.cli.printing import many

    count = await store.count("parked")
    if not count:
        return Finding("parked", "ok", "nothing is parked")
    return Finding("parked", "warn", f"{many(count, 'timer')} failed for good", "wakeful parked, then wakeful redrive")


def _split(message: str) -> tuple[str, str]:
    """What, and what to do about it."""
    what, _, remedy = message.partition("; ")
    return what, remedy
