"""A deploy with a migration rolls over a cluster under load: nothing acknowledged is lost, nothing is half migrated."""

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from tests.live.cluster import Member, balanced, fetch, fleet, until
from tests.live.programs.shelf_two import Shelf, app
from wakeful import ObjectId, Unavailable
from wakeful.runtime.migrations import decode_number
from wakeful.runtime.node import Node
from wakeful.values.codec import decode, decode_loosely
from wakeful.values.errors import DeadlineExceeded, ObjectTooNew
from wakeful.values.ids import shard_of

KEYS = [f"shelf-{number}" for number in range(48)]
PAUSE_S = 0.02


class Load:
    """Adds to every shelf, again and again, each under a key of its own, until it is told to end."""

    def __init__(self) -> None:
        self.added: Counter[str] = Counter()  # acknowledged
        self.refused = 0
        self.jobs: list[Any] = []
        self.is_over = False

    async def run(self, key: str) -> None:
        number = 0
        while not self.is_over:
            request = f"{key}-{number}"
            try:
                answer = await app.get(Shelf, key, request_key=request, deadline="5s").add()
            except ObjectTooNew:
                self.refused += 1
                await asyncio.sleep(10 * PAUSE_S)
                continue
            except (Unavailable, DeadlineExceeded):
                continue  # under the same key
            number += 1
            self.added[key] += 1
            assert answer == number, (key, answer, number)
            if not number % 10:
                self.jobs.append(await app.jobs.schedule(app.get(Shelf, key).mark, str(number)))
            await asyncio.sleep(PAUSE_S)


async def kept(url: str) -> dict[str, dict[str, Any]]:
    """What the database has of each shelf: its number, the fields of its state, and its rows."""
    found: dict[str, dict[str, Any]] = {}
    for row in await fetch(url, "SELECT key, space, name, value FROM {s}.storage WHERE cls = 'Shelf'"):
        shelf = found.setdefault(row["key"], {"number": 0, "state": {}, "rows": {}})
        name, value = bytes(row["name"]).decode(), bytes(row["value"])
        if (row["space"], name) == (1, "migrations"):
            shelf["number"] = decode_number(value)
        elif (row["space"], name) == (1, "state"):
            shelf["state"] = decode_loosely(value)
        elif row["space"] == 0:
            shelf["rows"][name] = decode(value)
    return found


def check_whole(shelves: dict[str, dict[str, Any]]) -> Counter[int]:
    """Each is as the program of its number writes it; how many there are of each."""
    for key, shelf in shelves.items():
        old = {"book"} <= shelf["rows"].keys() and "pages" not in shelf["rows"] and set(shelf["state"]) <= {"sum"}
        new = {"pages"} <= shelf["rows"].keys() and "book" not in shelf["rows"] and set(shelf["state"]) <= {"total"}
        assert {1: old, 2: new}.get(shelf["number"]), (key, shelf)
    return Counter(shelf["number"] for shelf in shelves.values())


async def test_a_deploy_with_a_migration_rolls_over_two_nodes_under_load(postgres_schema_url: str) -> None:
    url, load = postgres_schema_url, Load()
    with fleet(url, 2, program="shelf_one.py") as members:
        async with app.connect(url) as node:
            await balanced(node, members)
            async with asyncio.TaskGroup() as tasks:
                for key in KEYS:
                    tasks.create_task(load.run(key))
                await until(lambda: len(load.added) == len(KEYS), "every shelf has something")

                # One of the two is replaced: shelves that wake on the new node are migrated.
                first, second = members
                assert await asyncio.to_thread(first.stop) == 0
                new = Member(url, program="shelf_two.py")
                members.append(new)
                await asyncio.to_thread(new.wait_for, "ready")
                await balanced(node, [second, new])
                migrated = owned(node, new.name)
                before = Counter(load.added)
                await until(lambda: all(load.added[key] > before[key] + 1 for key in migrated), "they go on there")
                counts = check_whole(await kept(url))
                assert counts[2] >= len(migrated)
                assert counts[1] > 0

                # It dies, and the old node gets what it had migrated: it refuses, and its timers wait.
                new.kill()
                asked = migrated[0]
                await until(lambda: bool(load.refused), "the old node refuses what is newer")
                with pytest.raises(
                    ObjectTooNew, match="has had 2 migrations, and this program has 1 for Shelf"
                ) as caught:
                    await _at_rest(asked)
                assert caught.value.code == "object.newer"
                waiting = await app.jobs.schedule(app.get(Shelf, asked).mark, "waited")
                await until(lambda: bool(second.said("timer.unknown")), "the old node says that the timer waits")
                assert "knows no migration 'Shelf 2'" in second.said("timer.unknown")[0]["text"]
                assert (await app.jobs.get(waiting)).state == "scheduled"
                stood = check_whole(await kept(url))
                assert stood[2] >= counts[2]

                # The deploy goes on: two new nodes, and the last old one goes.
                for _ in range(2):
                    newer = Member(url, program="shelf_two.py")
                    members.append(newer)
                    await asyncio.to_thread(newer.wait_for, "ready")
                assert await asyncio.to_thread(second.stop) == 0
                since = time.monotonic()
                assert await app.jobs.wait(waiting, timeout="120s") == 2
                waited_s = time.monotonic() - since
                before = Counter(load.added)
                await until(lambda: all(load.added[key] > before[key] for key in KEYS), "all shelves go on")
                load.is_over = True
            for job in load.jobs:
                assert await app.jobs.wait(job, timeout="120s") in (1, 2)
            for key in KEYS:
                assert await app.get(Shelf, key).total() == load.added[key]
        shelves = await kept(url)
        assert check_whole(shelves) == {2: len(KEYS)}
        for key in KEYS:
            rows, count = shelves[key]["rows"], load.added[key]
            assert rows["pages"] == {str(number): True for number in range(1, count + 1)}
            assert {name: value for name, value in rows.items() if name.startswith("mark:") and value != 1} == {}
        bad = await fetch(url, "SELECT key, name, verdict, error FROM {s}.ledger WHERE verdict <> 'run'")
        assert not [row for row in bad if not (row["error"] or "").startswith("not counted")], bad
        assert not await fetch(url, "SELECT * FROM {s}.parked")
    print(
        f"{sum(load.added.values())} adds and {len(load.jobs)} jobs, {load.refused} refused; {stood[2]} shelves were newer "
        f"than the old node; what waited ran {waited_s:.2f} s after it had gone"
    )


async def _at_rest(key: str) -> int:
    """The total, asked of whoever owns the shelf; a node that died is waited for."""
    while True:
        try:
            return await app.get(Shelf, key, deadline="5s").total()
        except ObjectTooNew:
            raise
        except (Unavailable, DeadlineExceeded):
            await asyncio.sleep(PAUSE_S)


def owned(node: Node, owner: str) -> list[str]:
    """The shelves that this member owns now, as that node sees it."""
    shards = {row.shard for row in node.membership.owners if row.owner == owner}
    return [key for key in KEYS if shard_of(ObjectId("Shelf", key)) in shards]
