"""Layer 5. What the doctor looks at beside the tables: nodes, shards, clocks and the database server."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.cli.output import iso, length, many, now_ms, own_ms
from wakeful.policy.retry import CRASHES_MAX
from wakeful.store.protocol import MembershipTable, Query, Store
from wakeful.values.times import from_datetime
from wakeful.views.due import Line, line_of
from wakeful.views.nodes import ClusterMember, Members, members, ranges
from wakeful.views.timer_names import name_words, own_classes

if TYPE_CHECKING:
    from wakeful.store.postgres.health import LongSession


# What the doctor says: one finding, and how it looks.


class Finding(NamedTuple):
    """One thing looked at."""

    check: str
    status: str  # ok, warn, fail
    text: str
    remedy: str = ""
    evidence: str = ""  # what it was seen by, where there is more to see than the text says


def split(message: str) -> tuple[str, str]:
    """Of an error's message: what, and what to do about it."""
    what, _, remedy = message.partition("; ")
    return what, remedy


def put(finding: Finding) -> None:
    """A line for it, what was seen and its remedy under that."""
    from rich.text import Text

    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import console

    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    line = Text.assemble(
        (f"{finding.status:<4}", styles[finding.status]), f"  {finding.check:<8}  {one_line(finding.text)}"
    )
    console().print(line, soft_wrap=True)
    if finding.evidence:
        console().print(Text(f"{'':16}{one_line(finding.evidence)}", style="dim"), soft_wrap=True)
    if finding.remedy:
        console().print(Text(f"{'':16}→ {one_line(finding.remedy)}", style="dim"), soft_wrap=True)


# Timers and leases follow the database's clock, so a small difference is harmless; a lease has 2 s at least.
CLOCK_OFFSET_WARN_MS = 1_000
CLOCK_TRIPS = 5
CLOCK_BACK_WARN_MS = 5_000
LEDGER_LOOKED = 200  # rows, the newest: some may be of the time since
# A node that is well fires within milliseconds; this much is a loaded machine.
OVERDUE_MS = 5_000
OVERDUE_LOOKED_AT = 1_000
LINE_REMEDY = (
    "it goes on by itself, and each that ends well is cleared; see why the process died. One that holds up the rest: "
    "wakeful jobs cancel ID, or wakeful cancel CLASS KEY SCHEDULE"
)
# A shard that is handed over has no owner for a moment.
HANDOVER_S = 1.0
CONNECTIONS_WARN = 0.9
LATENCY_TRIPS = 5
LATENCY_WARN_MS = 100  # in one place it is below one; between continents it is more
LEASE_REMEDY = (
    "did its machine pause, its loop stand still, or the store stall (its log: node.paused and node.slow, or "
    "store.slow)? Where that is how things are, give all nodes a longer --lease: stop them all, then start them with it"
)
HELD_MS = 1_000  # of a lease: less is a loop that works
LATE_MS = 600_000  # calls that ran out of time longer ago are history
LATE_SAID = 5
STILL_MS = 600_000  # for so long a queue may let nobody go before it is said
ALL_DRAINING = "every node is draining, so none gives its shards up: timers fire, and load balancers, by /readyz, send nothing here"

Statuses = dict[str, dict[str, Any]]


# Of a class without migrations: a newer program may have been here.
UNDECLARED_LOOKED = 100
ROLL_OUT = "finish the roll-out: start the other nodes with the newer program; or go back to the one that wrote them"


async def migrations(store: Store, program: dict[str, int] | None, said: Statuses) -> list[Finding]:
    """Objects by the number of migrations that they have had, beside what the program, or the nodes, have."""
    from wakeful.views import migrations as seen
    from wakeful.views.view import View

    view, findings = View.of_store(store, now_ms()), list[Finding]()
    for name in own_classes(await store.known_classes()):
        known = _migrations_known(name, program, said)
        if not known and (program is not None or said):
            continue  # nobody has the class, which is said above
        newest, oldest = max(known, default=0), min(known, default=0)
        limit = seen.LOOKED_AT if newest or not known else UNDECLARED_LOOKED
        numbers = await seen.numbers(view, name, limit=limit)
        newer, last = numbers.newer(oldest), max(numbers.counts, default=0)
        if known and newer:
            who = "the program" if program is not None else "any node"
            who = f"a node that has {oldest}" if oldest < newest else who
            text = (
                f"{many(newer, 'object')} of {name} are newer than {who}: calls are refused (object.newer), timers wait"
            )
            findings.append(Finding("migrate", "warn", text, ROLL_OUT, numbers.words(oldest)))
        elif newest or last:
            has = f"{name} has {many(newest, 'migration')}: " if known else f"{name}: "
            findings.append(Finding("migrate", "ok", has + numbers.words(newest if known else last)))
    return findings


def _migrations_known(name: str, program: dict[str, int] | None, said: Statuses) -> list[int]:
    """How many of that class's migrations the program has, or each node that has the class."""
    if program is not None:
        return [program[name]] if name in program else []
    return [one.get("migrations", {}).get(name, 0) for one in said.values() if name in one["classes"]]


async def owners(store: Store, found: Members, said: Statuses) -> list[Finding]:
    """Each node, then what is wrong between them."""
    # Of a store for one process only the one that answers is there: the lock goes with the process, its row does not.
    there = [member for member in found.nodes if store.shared or member.row.node in said]
    if not any(member.state in ("up", "draining") or member.row.node in said for member in there):
        left = sum(len(member.shards) for member in found.nodes) + sum(map(len, found.lost.values()))
        note = "; the last one did not stop cleanly, which harms nothing" if left else ""
        remedy = "start it: wakeful run module:app, or wakeful dev app.py"
        silent = [_silent(member) for member in there if member.state == "silent"]
        return [Finding("owner", "warn", f"no process runs this store, so nothing fires{note}", remedy), *silent]
    findings = [_node(member, said.get(member.row.node)) for member in there]
    findings += _company(found) + leases(found, said) + reach(found, said) + late(said)
    if found.unowned or found.lost or any(member.shards for member in there if member.state == "gone"):
        await asyncio.sleep(HANDOVER_S)
        findings += _shards(await members(store, now_ms()))
    return findings


def _node(member: ClusterMember, status: dict[str, Any] | None) -> Finding:
    row = member.row
    pid = "" if status is None else f", pid {status['pid']}"
    who = f"node {row.node}{pid}" + (f" ({row.about})" if status is None else "")
    if status is not None and status["state"] != "up":
        text = f"{who} is {status['state']}: {status['down_because'] or 'it is stopping'}"
        return Finding("owner", "fail", text, "see its log; it goes on by itself when the store is back")
    if member.state == "silent" and status is None:
        return _silent(member)
    if member.state == "gone" and status is None:
        text = f"{who} is gone: its session with the database has ended"
        return Finding(
            "owner", "warn", text, "its shards go to other nodes within seconds; start it again if it crashed"
        )
    load = ", and did not answer" if status is None else f", {many(status['awake'], 'object')} awake"
    doubt = None if status is None else status.get("clock_doubt")
    if doubt:
        return Finding("owner", "fail", f"{who} does not fire: {doubt}", "see to the clock of its machine (NTP)")
    state = "draining" if member.state == "draining" else "up"
    text = f"{who} is {state} with {many(len(member.shards), 'shard')}{load}"
    return Finding("owner", "ok", text, "wakeful drain --undo lets it own again" if state == "draining" else "")


def _silent(member: ClusterMember) -> Finding:
    row = member.row
    text = f"node {row.node} ({row.about}) is silent: its lease is over for {length(-member.lease_ms)}"
    if row.is_here:
        return Finding(
            "lease",
            "warn",
            text,
            "it is frozen or overloaded: see its process; what it owned goes to others, it can harm nothing",
            "its session with the database still lives",
        )
    return Finding("lease", "warn", text, "it died, or can't reach the database; start it again, or see its network")


def _company(found: Members) -> list[Finding]:
    """Nodes that live together and should not, or can't."""
    alive = [member.row for member in found.alive]
    findings = []
    clusters = sorted({row.cluster for row in alive})
    if len(clusters) > 1:
        names = ", ".join(map(repr, clusters))
        remedy = "give all nodes of the store the same --cluster, or each cluster its own database or ?schema="
        findings.append(Finding("cluster", "fail", f"nodes of several clusters run this store: {names}", remedy))
    mute = [row.node for row in alive if not row.address]
    if mute and len(alive) > 1:
        text = f"{many(len(mute), 'node')} can't be called by the others: {', '.join(mute)}"
        findings.append(Finding("cluster", "fail", text, "start each with --listen HOST:PORT"))
    bound = [row.node for row in alive if row.address.startswith("unix:")]
    if bound and len({row.about.partition(" ")[0] for row in alive}) > 1:
        text = f"nodes are on several machines, and {', '.join(bound)} can only be called on its own"
        findings.append(Finding("cluster", "fail", text, "start each with --listen HOST:PORT"))
    if alive and all(row.is_draining for row in alive):
        remedy = "wakeful drain NODE --undo, or start another node"
        findings.append(Finding("cluster", "warn", ALL_DRAINING, remedy))
    return findings


def leases(found: Members, said: Statuses) -> list[Finding]:
    """How close renewals came to the end of the lease in the last hour, and whether all have the same."""
    lengths = sorted({member.row.lease_ms for member in found.alive})
    findings = []
    if len(lengths) > 1:
        text = f"nodes of this store have leases of {' and '.join(map(length, lengths))}"
        findings.append(Finding("lease", "fail", text, "stop all nodes, and start them with the same --lease"))
    told = {name: status["lease"] for name, status in said.items() if status.get("lease")}
    for name, lease in sorted(told.items()):
        if lease["slack_ms"] > lease["near_ms"]:
            continue
        what, how, evidence = "nearly lost", f"{length(lease['slack_ms'])} were left of it", _trip(lease)
        if lease["slack_ms"] <= 0:
            what, how = "lost", f"it was renewed {length(-lease['slack_ms'])} too late"
            evidence = f"{_cost(said[name])}; {evidence}"
        text = f"node {name} {what} its lease of {length(lease['lease_ms'])} in the last hour: {how}"
        findings.append(Finding("renewals", "warn", text, LEASE_REMEDY, evidence))
    if told and not findings:
        name, lease = min(told.items(), key=lambda item: item[1]["slack_ms"])
        text = (
            f"renewed with {length(lease['slack_ms'])} of {length(lease['lease_ms'])} left at the worst of the last hour "
            f"(node {name})"
        )
        findings.append(Finding("renewals", "ok", text, "", _trip(lease)))
    return findings


def _cost(status: dict[str, Any]) -> str:
    """What came of a lease that was over."""
    # The worst renewal of an hour, so the longest pause of that hour: a short one since then explains nothing.
    lost, last = status.get("shards_lost", 0), status.get("stood_still") or {}
    stood_ms = (status.get("lease") or {}).get("stood_ms", last.get("for_ms", 0))  # older nodes say only the latest
    text = "others may take its shards while it is over"
    if lost:
        text = f"others took {many(lost, 'shard')} from it since it was started"
    if stood_ms:
        return f"{text}; it stood still for {length(stood_ms)}"
    held = status.get("held_up")
    if held is None or held["for_ms"] < HELD_MS:
        return text
    return f"{text}; of the last {length(held['within_ms'])} its loop was held up for {length(held['for_ms'])}"


def _trip(one: dict[str, Any]) -> str:
    return f"the slowest renewal took the store {one['trip_us'] / 1000:.1f} ms"


async def latency(store: MembershipTable) -> list[Finding]:
    """How long the store takes for next to nothing, there and back."""
    loop = asyncio.get_running_loop()
    trips = []
    for _ in range(LATENCY_TRIPS):
        began = loop.time()
        await store.nodes()
        trips.append((loop.time() - began) * 1000)
    trips.sort()
    middle, worst = trips[len(trips) // 2], trips[-1]
    text = f"a small question takes {middle:.1f} ms from here, at worst {worst:.1f} ms ({LATENCY_TRIPS} asked)"
    if middle < LATENCY_WARN_MS:
        return [Finding("latency", "ok", text)]
    remedy = (
        "every turn waits at least once so long: see the way to the database, and what else it does; run nodes near it"
    )
    return [Finding("latency", "warn", text, remedy)]


def reach(found: Members, said: Statuses) -> list[Finding]:
    """Nodes that live and can't reach each other, as they say themselves."""
    alive = {member.row.node: member.row for member in found.alive}
    return [
        Finding(
            "reach",
            "fail",
            f"node {name} can't reach node {one['node']} for {length(one['for_ms'])}: calls from there to its objects "
            "end in call.unrouted",
            f"see the way from the machine of {name} to {alive[one['node']].address}: a firewall, a route, a changed "
            "address (--advertise), another secret; what each owns stays, timers fire",
            f"{one['because']} ({many(one['calls'], 'call')} met it)",
        )
        for name, status in said.items()
        for one in status.get("unreached", ())
        if one["node"] in alive
    ]


def late(said: Statuses) -> list[Finding]:
    """Calls of late that had no answer by their deadline: of which method, asked on which node, owned by whom."""
    findings = []
    for name, status in said.items():
        calls = [one for one in status.get("late", ()) if one["ago_ms"] < LATE_MS]
        if not calls:
            continue
        words = [
            f"{one['class']}.{one['method']} on {'node ' + one['on'] if one['on'] else 'no node'} ({one['calls']:,}, "
            f"the last {length(one['ago_ms'])} ago)"
            for one in calls[:LATE_SAID]
        ]
        more = f", and {len(calls) - LATE_SAID} more" if len(calls) > LATE_SAID else ""
        text = f"calls by way of node {name} had no answer by their deadline: {', '.join(words)}{more}"
        remedy = "if nodes don't reach each other, that first; else the object is busy or slow: runbooks 8 and 12"
        findings.append(Finding("calls", "warn", text, remedy))
    return findings


def _shards(found: Members) -> list[Finding]:
    """Shards that nobody serves though somebody could."""
    if not found.alive:
        return []
    findings = []
    if found.unowned:
        text = f"{many(len(found.unowned), 'shard')} without an owner: their timers wait"
        remedy = "see the nodes' logs; a node claims what is free within a second"
        findings.append(Finding("shards", "fail", text, remedy, f"shards {ranges(found.unowned)}"))
    lost = {member.row.node: member.shards for member in found.nodes if member.state == "gone" and member.shards}
    for owner, shards in (found.lost | lost).items():
        text = f"{many(len(shards), 'shard')} in the name of node {owner}, which is gone: their timers wait"
        remedy = "see the logs of the living nodes; one takes them over within seconds"
        findings.append(Finding("shards", "fail", text, remedy, f"shards {ranges(shards)}"))
    return findings


async def queues(store: Store) -> list[Finding]:
    """Queues in which somebody waits and nobody is let go, and why."""
    from wakeful.queues.queues import list_queues

    now, findings = now_ms(), list[Finding]()
    for queue in await list_queues(store, now):
        still_ms = 0 if queue.moved_at is None else now - from_datetime(queue.moved_at)
        if still_ms < STILL_MS + max(queue.debounce_ms, queue.debounce_most_ms) or (
            queue.opens_at is not None and queue.paused_at is None
        ):
            continue
        waits = f"queue {queue.name}: {queue.waiting:,} wait, and nobody was let go for {length(still_ms)}"
        if queue.paused_at is not None:
            text = f"{waits}: it is paused" + (f" ({queue.note})" if queue.note else "")
            remedy = f"wakeful queues resume {queue.name}"
        elif queue.concurrency is not None and queue.running >= queue.concurrency:
            text = f"{waits}: {many(queue.running, 'place')} of {queue.concurrency} taken"
            remedy = "see what holds them: wakeful jobs --state running, wakeful workflow ls; or raise its concurrency"
        else:
            text = f"{waits}, though {queue.running:,} run"
            remedy = "each of its keys has its share (key_concurrency, key_rate), or no node runs: see above"
        findings.append(Finding("queues", "warn", text, remedy))
    return findings


async def clock(store: MembershipTable) -> list[Finding]:
    """How far this machine's clock is from the database's, by the quickest of several questions."""
    best: tuple[int, int] | None = None
    for _ in range(CLOCK_TRIPS):
        before = own_ms()
        theirs = await store.time()
        after = own_ms()
        if theirs is None:
            return []
        if best is None or after - before < best[0]:
            best = after - before, theirs - (before + after) // 2
    assert best is not None
    trip_ms, offset = best
    text = f"this machine is {length(abs(offset))} {'behind' if offset > 0 else 'ahead of'} the database server"
    evidence = f"quickest of {CLOCK_TRIPS} questions: {length(trip_ms)}"
    if abs(offset) < CLOCK_OFFSET_WARN_MS:
        return [Finding("clock", "ok", text)]
    remedy = "run NTP on both; nodes follow the database's clock, and one whose own jumps stops firing"
    return [Finding("clock", "warn", text, remedy, evidence)]


async def ahead(store: Store) -> list[Finding]:
    """Whether the clock that timers follow was set back: then the ledger has runs that are still to come."""
    newest = await store.find_entries(Query(limit=LEDGER_LOOKED))
    time = await store.time()  # after it: nodes run things while others are waited for
    now = now_ms() if time is None else time
    last = max((entry.finished_at for _, entry in newest), default=0)
    if last - now < CLOCK_BACK_WARN_MS:
        return []
    text = f"the ledger has a run of {iso(last)}, in {length(last - now)}: the clock was set back since"
    remedy = (
        "schedules that ran then go on from there, so that nothing runs twice; if the clock is right now, "
        "`wakeful fire` runs one before that"
    )
    return [Finding("clock", "warn", text, remedy)]


async def server(url: str) -> list[Finding]:
    """The PostgreSQL server: whether it takes writes, connections, long transactions, lock waits, notifications."""
    from wakeful.store.postgres.health import health
    from wakeful.store.postgres.migrations import ENCODE, ENCODINGS
    from wakeful.store.postgres.url import parse_url
    from wakeful.store.postgres.wire import READ_ONLY

    state = await health(parse_url(url))
    findings = []
    if state.is_standby:
        remedy = "name the primary in the URL: host=a,b&target_session_attrs=read-write finds it"
        findings.append(Finding("server", "fail", "the server is a standby: it takes no writes", remedy))
    elif state.is_read_only:
        findings.append(Finding("server", "fail", "the server is no standby, and takes no writes", READ_ONLY))
    if state.encoding not in (*ENCODINGS, None):
        text = f"the database keeps text as {state.encoding}, which lacks most letters: no node starts on it"
        findings.append(Finding("server", "fail", text, ENCODE))
    if state.connections is not None and state.connections_max is not None:
        text = f"{state.connections} of {state.connections_max} connections in use"
        is_full = state.connections >= CONNECTIONS_WARN * state.connections_max
        remedy = "raise max_connections, or run fewer processes: a node has up to nine" if is_full else ""
        findings.append(Finding("server", "warn" if is_full else "ok", text, remedy))
    if state.sessions is not None:
        findings += sessions(state.sessions, state.hidden or 0)
    if state.hears is False and not state.is_standby:
        remedy = "connect to the server itself rather than to a pooler of transactions, if it is one"
        text = "notifications don't get through: what another process schedules is seen within a second, not at once"
        findings.append(Finding("hints", "warn", text, remedy))
    elif state.hears:
        findings.append(Finding("hints", "ok", "notifications get through"))
    return findings


def sessions(found: Sequence["LongSession"], hidden: int) -> list[Finding]:
    """Those that hold others up; and how many can't be looked into."""
    findings = []
    for session in found:
        name = f"{session.application or 'no name'}, " if session.state else ""
        who = f"session {session.pid} ({name}{session.user})"
        evidence = f"{session.state}: {session.query}" if session.state else ""
        if session.is_waiting:
            text = f"{who} waits for a lock of {', '.join(map(str, session.blockers)) or 'another session'}"
            text += (
                f", in a transaction of {length(session.age_ms)}"
                if session.state
                else f", for {length(session.age_ms)}"
            )
            holder = session.blockers[0] if session.blockers else "PID of the holder"
            remedy = f"see what the holder does; SELECT pg_terminate_backend({holder}) ends it"
            findings.append(Finding("queries", "warn", text, remedy, evidence))
        else:
            holds = " and holds locks on Wakeful's tables" if session.touches else ""
            text = f"{who} has been in one transaction for {length(session.age_ms)}{holds}"
            remedy = f"end it in the program that opened it, or: SELECT pg_terminate_backend({session.pid})"
            if not session.touches:
                remedy += "; while it lasts, vacuum can't clean up behind it"
            findings.append(Finding("queries", "warn", text, remedy, evidence))
    if not findings:
        seen = " that this role may see" if hidden else ""
        findings.append(Finding("queries", "ok", f"no long transactions{seen}, nobody waits for a lock"))
    if hidden:
        text = f"{many(hidden, 'session')} of other roles: this one may not see how long their transactions last"
        findings.append(Finding("queries", "ok", text, "GRANT pg_read_all_stats TO the role of the URL shows it"))
    return findings


async def timers(store: Store, found: Members, said: Statuses) -> list[Finding]:
    """Whether something is late, and who waits because processes died."""
    is_served = bool(said or found.alive)
    first, now = await store.find_timers(Query(limit=OVERDUE_LOOKED_AT)), found.now
    line = await line_of(store, first, now) if is_served else Line()
    late = [timer for timer in first if timer.due_at < now - OVERDUE_MS and timer not in line.running]
    if not late:
        return [Finding("timers", "ok", f"{many(await store.count('timers'), 'timer')} waiting, none overdue")]
    more = "at least " if len(late) == OVERDUE_LOOKED_AT else ""
    text = f"{more}{many(len(late), 'timer')} overdue, the oldest by {length(now - late[0].due_at)} ({late[0].id})"
    remedy = "see the node's log, and the classes above" if is_served else "they fire when a process runs the store"
    lines = _lines(line, said)
    return [Finding("timers", "warn", text, "" if lines else remedy), *lines]


def _lines(line: Line, said: Statuses) -> list[Finding]:
    """Who waits in line on each node, as it says itself; of one that can't be asked, as the store has it."""
    lines = [status["line"] for status in said.values() if status.get("line") is not None]
    for node in sorted(set(line.owners.values()) - set(said)):
        tried = line.tried.get(node)
        behind = tried and {"class": tried.id.cls, "key": tried.id.key, "timer": tried.name}
        is_alone = tried is not None and tried.crashes >= CRASHES_MAX - 1
        waiting = list(line.owners.values()).count(node)
        lines.append({"waiting": waiting, "is_alone": is_alone, "behind": behind, "for_ms": None})
    return [Finding("timers", "warn", _line_words(one), LINE_REMEDY) for one in lines]


def _line_words(one: dict[str, Any]) -> str:
    behind, for_ms = one["behind"], one["for_ms"]
    wait = "waits" if one["waiting"] == 1 else "wait"
    words = f"{many(one['waiting'], 'timer')} {wait} in line, because processes died while they ran or waited: "
    words += "they are tried one at a time" if one["is_alone"] else "they are tried a few at a time"
    if behind is not None:
        words += f", now {behind['class']}/{behind['key']} {name_words(behind['timer'])}"
        words += "" if for_ms is None else f", which has been tried for {length(for_ms)}"
    return words
