"""Layer 5. `wakeful doctor`: is everything well, and what should be done where it isn't?"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from wakeful.cli import options
from wakeful.cli.checkups import Finding, put, split
from wakeful.cli.exit_codes import FAILED, OK, CommandError

if TYPE_CHECKING:
    from wakeful.cli.checkups import Statuses
    from wakeful.runtime.registry import Registry
    from wakeful.store.protocol import Views

FUNCTIONS_LOOKED_AT = 1_000
CHECK_S = 10.0  # for each: counting what millions of rows are takes seconds
MUTE = (
    "does somebody hold a lock on our tables (queries, above)? end that session; else the server has too much to do: see "
    "pg_stat_activity"
)


@options.command("doctor")
@options.app_option("Compare the classes in the store with this program's.")
@options.store_option
def doctor(target: str | None, url: str, as_json: bool) -> int:
    """Look at the store, its owner, its timers and its clock. Exit code 1 if something must be done."""
    return asyncio.run(_doctor(target, url, as_json))


async def _doctor(target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.output import put_json
    from wakeful.values.compilation import compilation_words

    findings: list[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            put(finding)  # at once: the next may take long, and nobody looks at an empty screen for a minute

    async for finding in examine(target, url):
        note(finding)
    note(Finding("build", "ok", compilation_words()))  # last: what must be done stands first
    if as_json:
        put_json([finding._asdict() for finding in findings])
    return FAILED if any(finding.status == "fail" for finding in findings) else OK


async def examine(target: str | None, url: str) -> AsyncIterator[Finding]:
    """Everything that can be known from outside, each as soon as it is; stops where the store can't be opened.

    The server is asked first, of what needs none of our tables: who holds a lock on them holds up all the rest. Each
    check has its own time, so that one that waits for such a lock is one line and not the end.
    """
    from wakeful.values.errors import BadUrl, MissingExtra, SchemaTooNew, SchemaTooOld, WakefulError

    program = _program(target) if target is not None else None
    locks, server = await _server(url)
    for finding in locks:
        yield finding
    try:
        async for finding in _look(url, program):
            yield finding
    except (BadUrl, MissingExtra, CommandError):
        raise
    except TimeoutError:
        yield _mute("store", options.OPEN_S)
    except (SchemaTooNew, SchemaTooOld) as error:
        yield Finding("schema", "fail", *split(error.message))
        return
    except WakefulError as error:
        yield Finding("store", "fail", *split(error.message))
        return
    for finding in server:
        yield finding


async def _look(url: str, program: "Registry | None") -> AsyncIterator[Finding]:
    from wakeful.cli import checkups
    from wakeful.cli.node_access import statuses
    from wakeful.cli.output import now_ms
    from wakeful.cli.session import reading
    from wakeful.cli.stores import migrations
    from wakeful.views.nodes import Members, members

    newest = migrations(url)[-1]
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(options.OPEN_S):
            store = await stack.enter_async_context(reading(url))
        yield Finding("store", "ok", f"{store.url} can be read")
        yield Finding("schema", "ok", f"up to date ({newest})")
        cluster, said = Members(now_ms(), [], [], {}), {}
        try:
            async with asyncio.timeout(CHECK_S):
                cluster = await members(store, now_ms())
        except TimeoutError:
            yield _mute("owner", CHECK_S)
        else:
            said = await statuses(store, [member.row for member in cluster.nodes])
            for finding in await _within("owner", checkups.owners(store, cluster, said)):
                yield finding
        serving = {member.row.node for member in cluster.nodes if member.state != "draining" or member.shards}
        heard = {node: said[node] for node in said if node in serving}
        checks: list[tuple[str, Callable[[], Awaitable[list[Finding]]]]] = [
            ("classes", lambda: _classes(store, None if program is None else program.names(), heard)),
            ("function", lambda: _functions(store, program, heard)),
            ("migrate", lambda: checkups.migrations(store, None if program is None else _migrations(program), heard)),
            ("timers", lambda: checkups.timers(store, cluster, said)),
            ("parked", lambda: _parked(store)),
            ("queues", lambda: checkups.queues(store)),
            ("latency", lambda: checkups.latency(store)),
            ("clock", lambda: checkups.clock(store)),
            ("clock", lambda: checkups.ahead(store)),
        ]
        for check, look in checks:
            for finding in await _within(check, look()):
                yield finding


async def _within(check: str, looking: Awaitable[list[Finding]]) -> list[Finding]:
    """What it found; when it has no answer in its time, that."""
    try:
        async with asyncio.timeout(CHECK_S):
            return await looking
    except TimeoutError:
        return [_mute(check, CHECK_S)]


def _mute(check: str, within_s: float) -> Finding:
    return Finding(check, "fail", f"no answer within {within_s:.1f} s: the rest is looked at all the same", MUTE)


async def _server(url: str) -> tuple[list[Finding], list[Finding]]:
    """What the server says by itself, on a connection of its own: who holds things up, and the rest of it."""
    from wakeful.cli import checkups
    from wakeful.system import open_store
    from wakeful.values.errors import WakefulError

    try:
        if url == "memory:" or not open_store(url).shared:
            return [], []
        async with asyncio.timeout(CHECK_S):
            found = await checkups.server(url)
    except TimeoutError:
        return [], [_mute("server", CHECK_S)]
    except WakefulError:
        return [], []  # the store can't be opened either, and that says why
    locks = [one for one in found if one.check == "queries" and one.status != "ok"]
    return locks, [one for one in found if one not in locks]


def _program(target: str) -> "Registry":
    from wakeful.cli.app_loader import load

    return load(target).app.deployment.registry


def _migrations(program: "Registry") -> dict[str, int]:
    """How many the program has, of each of its classes."""
    return {name: len(known.migrations) for name, known in program.items()}


async def _classes(store: "Views", known: list[str] | None, said: "Statuses") -> list[Finding]:
    """Classes in the store that the program does not know; or, without one to compare with, that no node knows."""
    from wakeful.cli.output import many
    from wakeful.views.timer_names import own_classes

    stored = own_classes(await store.known_classes())
    if known is None and not said:
        text = f"{many(len(stored), 'class')} in the store: {', '.join(stored) or 'none'}"
        return [Finding("classes", "ok", text, "--app app.py compares them with a program's")]
    who, sets = "the program", [known or []]
    if known is None:
        who = "any node that could be asked" if len(said) > 1 else f"node {next(iter(said))}"
        sets = [status["classes"] for status in said.values()]
    unknown = [name for name in stored if not any(name in names for names in sets)]
    partly = [name for name in stored if name not in unknown and not all(name in names for names in sets)]
    findings = [
        Finding(
            "classes",
            "warn",
            f"{name} is not known to {who}; {many(await store.count('objects', cls=name), 'object')} and "
            f"{many(await store.count('timers', cls=name), 'timer')} of it wait",
            "import their module in the program, or give the renamed class name='…'",
        )
        for name in unknown
    ]
    findings += [
        Finding(
            "classes",
            "warn",
            f"{name} is known to {sum(name in names for names in sets)} of {many(len(sets), 'node')}: elsewhere its "
            "calls and timers wait",
            "finish the roll-out: start the other nodes with the program that has it",
            "without it: " + ", ".join(node for node, status in said.items() if name not in status["classes"]),
        )
        for name in partly
    ]
    return findings or [Finding("classes", "ok", f"{many(len(stored), 'class')} in the store, none unknown")]


async def _functions(store: "Views", program: "Registry | None", said: "Statuses") -> list[Finding]:
    """Functions on the app's clock that the program does not have; without one, those that nodes left where they are."""
    from wakeful.schedules.functions import CLASS
    from wakeful.store.protocol import Query

    own = f"{CLASS}/"
    if program is not None:
        found = await store.find_timers(Query(cls=CLASS, limit=FUNCTIONS_LOOKED_AT))
        left = {timer.id.key: "the program" for timer in found if not program.has(timer.id)}
    else:
        told = [(one, node) for node, status in said.items() for one in status["unknown"]]
        left = {one.removeprefix(own): f"node {node}" for one, node in told if one.startswith(own)}
    return [
        Finding(
            "function",
            "warn",
            f"{name!r} on the app's clock is not known to {who}; its timer waits",
            f"start the program that has it; one that is gone for good: wakeful cancel {CLASS} {name} {name}",
        )
        for name, who in sorted(left.items())
    ]


async def _parked(store: "Views") -> list[Finding]:
    from wakeful.cli.output import many

    count = await store.count("parked")
    if not count:
        return [Finding("parked", "ok", "nothing is parked")]
    return [
        Finding("parked", "warn", f"{many(count, 'timer')} failed for good", "wakeful parked, then wakeful redrive")
    ]
