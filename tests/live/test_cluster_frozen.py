"""An owner that is frozen, or cut off from the database: others take over, and what it does when it wakes comes to nothing."""

import asyncio
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tests.live.cluster import (
    LEASE_S,
    Cells,
    Fleet,
    Member,
    balanced,
    fetch,
    fleet,
    keys_of,
    nodes_of,
    owners_of,
    settled,
    until,
)
from tests.live.harness import IS_LONG
from tests.live.programs.fleet import Cell, app
from tests.live.proxy import proxy
from tests.yardstick import PATIENCE_S, Yardstick
from wakeful.runtime.node import Node

FROZEN_S = 20.0 if IS_LONG else 7.0
TICKING = 20
# The lease, a round of the others, and their way to the objects.
TAKEOVER_S = LEASE_S + 1.5


def through(url: str, port: int) -> str:
    """The same database by TCP at that port of this machine."""
    parts = urlsplit(url)
    options = [(name, value) for name, value in parse_qsl(parts.query) if name != "host"]
    user = parts.netloc.rpartition("@")[0].rstrip(":")
    return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}", query=urlencode(options)))


def socket_of(url: str) -> str:
    return f"{dict(parse_qsl(urlsplit(url).query))['host']}/.s.PGSQL.5432"


def begun(diary: Path, pid: int) -> list[tuple[int, str]]:
    """When that process began which handlers."""
    lines = [line.split(" ", 2) for line in diary.read_text().splitlines()]
    return [(int(at), what) for who, at, what in lines if int(who) == pid]


async def answers(keys: list[str], run: str, since: float) -> float:
    """How long after that moment the last of these objects answered."""

    async def one(key: str) -> None:
        await app.get(Cell, key, request_key=f"{run}.{key}", deadline="120s").add(f"{run}.{key}")

    await asyncio.gather(*(one(key) for key in keys))
    return time.monotonic() - since


async def all_tick(url: str, members: Fleet) -> None:
    await asyncio.gather(*(app.get(Cell, f"tick{number}").tick(100) for number in range(TICKING)))


async def taken_over(url: str, name: str, epochs: dict[int, tuple[str | None, int]]) -> None:
    """Every shard that it had is another's now, at a later epoch."""
    now = await owners_of(url)
    had = [shard for shard, (owner, _) in epochs.items() if owner == name]
    assert had
    for shard in had:
        assert now[shard][0] not in (None, name), f"shard {shard} is not taken"
        assert now[shard][1] > epochs[shard][1]


async def nothing_more(url: str, name: str, after: int, diary: Path, pid: int, woke_ms: int, rejoined_ms: int) -> None:
    """Between waking and being a member again it committed nothing and began no timer's handler."""
    [(count,)] = await fetch(
        url,
        "SELECT count(*) FROM {s}.ledger WHERE node = $1 AND number > $2 AND finished_at < $3",
        name,
        after,
        rejoined_ms,
    )
    assert count == 0, f"{name} committed {count} runs after it was taken over"
    early = [what for at, what in begun(diary, pid) if woke_ms <= at < rejoined_ms and what.startswith("alarm:")]
    assert not early, f"it began {early[:3]} before it was a member again"


async def joined_again_ms(url: str, member: Member, node: Node, timeout_s: float = PATIENCE_S) -> int:
    """When it owned something again, at the earliest: the first claim after it lost everything."""
    await until(
        lambda: any(row.owner == member.name for row in node.membership.owners), "it owns shards again", timeout_s
    )
    [(at,)] = await fetch(url, "SELECT min(claimed_at) FROM {s}.shards WHERE owner = $1", member.name)
    return int(at)


async def ledger_end(url: str) -> int:
    [(number,)] = await fetch(url, "SELECT coalesce(max(number), 0) FROM {s}.ledger")
    return int(number)


async def wrap_up(url: str, members: Fleet, node: Node, timeout_s: float = PATIENCE_S) -> str:
    """All balanced again, no more alarms, everything adds up: one line about it."""
    await balanced(node, members, timeout_s)
    await asyncio.gather(*(app.get(Cell, f"tick{number}").still() for number in range(TICKING)))
    cells = await Cells.read(url)
    assert not cells.wrong, cells.wrong[:5]
    bad: list[Any] = await fetch(url, "SELECT key, name, verdict, error FROM {s}.ledger WHERE verdict <> 'run' LIMIT 5")
    assert not bad, bad
    twice = await fetch(url, "SELECT run_id FROM {s}.ledger WHERE verdict = 'run' GROUP BY run_id HAVING count(*) > 1")
    assert not twice, f"ran twice: {twice[:5]}"
    [(runs,)] = await fetch(url, "SELECT count(*) FROM {s}.ledger")
    alarms = sum("alarm:" in id for id in cells.ids)
    assert alarms == runs, f"{runs} runs in the ledger, {alarms} in the objects"
    return f"{runs} alarm runs, none doubled"


async def test_a_frozen_owner_that_wakes_commits_nothing(postgres_schema_url: str, tmp_path: Path) -> None:
    url, diary = postgres_schema_url, tmp_path / "diary"
    with fleet(url, 3, env={"WAKEFUL_DIARY": str(diary)}) as members, Yardstick() as machine:
        async with app.connect(url) as node:
            await balanced(node, members)
            await all_tick(url, members)
            await asyncio.sleep(0.5)
            victim = members[1]
            keys, epochs = keys_of(node, victim.name, 20), await owners_of(url)
            held = asyncio.create_task(
                app.get(Cell, keys[0], request_key="held", deadline="150s").hold("held", 2)
            )  # a turn in the middle of which it freezes
            await asyncio.sleep(0.5)
            victim.freeze()
            frozen_at = time.monotonic()
            took_s = await answers(keys[1:], "frozen", frozen_at)
            await taken_over(url, victim.name, epochs)
            end = await ledger_end(url)
            await asyncio.sleep(max(0.0, FROZEN_S - (time.monotonic() - frozen_at)))
            woke_ms, woke_at = int(time.time() * 1000), time.monotonic()
            victim.thaw()
            rejoined_ms = await joined_again_ms(url, victim, node)
            again_s = time.monotonic() - woke_at
            await nothing_more(url, victim.name, end, diary, victim.pid, woke_ms, rejoined_ms)
            assert await held == 1, "the turn that was frozen happened twice, or not at all"
            await asyncio.sleep(0.5)
            summary = await wrap_up(url, members, node)
    assert took_s < machine.allows(TAKEOVER_S), f"its objects were silent for {took_s:.1f} s; {machine}"
    print(
        f"frozen {FROZEN_S:.0f} s: answered elsewhere after {took_s:.2f} s, owner again {again_s:.2f} s after waking; {summary}"
    )


async def test_a_node_cut_off_from_the_database_commits_nothing_and_rejoins(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    url, diary = postgres_schema_url, tmp_path / "diary"
    async with proxy(socket_of(url)) as way:
        with fleet(url, 2) as members, Yardstick() as machine:
            cut = Member(through(url, way.port), env={"WAKEFUL_DIARY": str(diary)})
            members.append(cut)
            await asyncio.to_thread(cut.wait_for, "ready")
            async with app.connect(url) as node:
                await balanced(node, members)
                await all_tick(url, members)
                await asyncio.sleep(1)
                keys, epochs = keys_of(node, cut.name, 20), await owners_of(url)
                way.cut()
                cut_at, cut_ms = time.monotonic(), int(time.time() * 1000)
                took_s = await answers(keys, "cut", cut_at)
                await taken_over(url, cut.name, epochs)
                end = await ledger_end(url)
                rows = await nodes_of(url)
                assert rows[cut.name].lease_until < int(time.time() * 1000)
                await asyncio.sleep(10 if IS_LONG else 1)
                way.heal()
                healed_at = time.monotonic()
                rejoined_ms = await joined_again_ms(url, cut, node)
                again_s = time.monotonic() - healed_at
                # Turns that were on their way when it was cut may have begun; none since it knew.
                await nothing_more(url, cut.name, end, diary, cut.pid, cut_ms + 500, rejoined_ms)
                await asyncio.sleep(1)
                summary = await wrap_up(url, members, node)
                await settled(url, until_ms=int(time.time() * 1000) - 1000)
    assert took_s < machine.allows(TAKEOVER_S), f"its objects were silent for {took_s:.1f} s; {machine}"
    print(f"cut off: answered elsewhere after {took_s:.2f} s, owner again {again_s:.2f} s after it healed; {summary}")
