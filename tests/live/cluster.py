"""Several nodes on one PostgreSQL: real processes, a client that owns nothing, and what the database says at the end."""

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.live.harness import PROGRAMS, Book, Child, looking
from tests.yardstick import PATIENCE_S
from wakeful import ObjectId
from wakeful.runtime.node import Node
from wakeful.store.postgres.url import parse_url
from wakeful.store.protocol import NodeRow
from wakeful.values.codec import decode
from wakeful.values.ids import SHARDS, shard_of

LEASE_S = 5.0
SETTLE_S = 3.2  # until a session that was just made may miss others


class Member(Child):
    """One `wakeful run`. What it says comes as [event, document]."""

    def __init__(self, url: str, *options: str, program: str = "fleet.py", env: dict[str, str] | None = None) -> None:
        command = ["-m", "wakeful.cli", "run", f"{PROGRAMS / program}:app", "--store", url, "--json", *options]
        super().__init__(command, Book(), env={"WAKEFUL_FLEET": "1", **(env or {})})
        self.is_frozen = False

    @property
    def name(self) -> str:
        return str(self.wait_for("ready")[1]["node"])

    def freeze(self) -> None:
        self.send_signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Its exit code, after it was asked to stop."""
        self.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def said(self, code: str) -> list[dict[str, Any]]:
        """What it said under that code, so far."""
        with self._heard:
            return [event[1] for event in self.events if len(event) > 1 and event[1].get("code") == code]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                found = json.loads(line)
                with self._heard:
                    self.events.append([found.get("event", "error"), found])
                    self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()


class Fleet(list[Member]):
    """Members on one store."""

    def __init__(self, url: str, options: Sequence[str], more: dict[str, Any]) -> None:
        super().__init__()
        self._make = lambda: Member(url, *options, **more)
        self._gone: list[Member] = []

    def add(self, count: int = 1) -> None:
        """Start so many more, and wait until they are ready. From the main thread: they go with the one that started them."""
        some = [self._make() for _ in range(count)]
        self += some
        for member in some:
            member.wait_for("ready")

    def replace(self, number: int) -> Member:
        """Start one in the place of another, which has ended; it may not be ready yet."""
        self._gone.append(self[number])
        self[number] = self._make()
        return self[number]

    def close(self) -> None:
        for member in (*self, *self._gone):
            member.close()


@contextmanager
def fleet(url: str, count: int, *options: str, **more: Any) -> Iterator[Fleet]:
    """So many members that are ready, gone at the end whatever happens."""
    some = Fleet(url, options, more)
    try:
        some.add(count)  # at once: one of them makes the tables, and the others find them
        yield some
    finally:
        some.close()


async def until(is_so: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, f"waited in vain: {what}"
        await asyncio.sleep(0.01)


async def balanced(node: Node, members: Sequence[Member], timeout_s: float = PATIENCE_S) -> None:
    """Every shard is owned by one of these, and about as many by each."""
    names = {member.name for member in members}

    def is_so() -> bool:
        counts = Counter(row.owner for row in node.membership.owners)
        return counts.keys() == names and max(counts.values()) - min(counts.values()) <= 1

    try:
        await until(is_so, "balance", timeout_s)
    except AssertionError:
        counts = Counter(row.owner for row in node.membership.owners)
        raise AssertionError(f"{names} should own all shards evenly, owned are {counts}") from None


def keys_of(node: Node, owner: str, count: int, *, prefix: str = "k", cls: str = "Cell") -> list[str]:
    """Keys of objects that this member owns now, as that node sees it."""
    shards = {row.shard for row in node.membership.owners if row.owner == owner}
    assert shards, f"{owner} owns nothing"
    found: list[str] = []
    number = 0
    while len(found) < count:
        if shard_of(ObjectId(cls, f"{prefix}{number}")) in shards:
            found.append(f"{prefix}{number}")
        number += 1
    return found


async def nodes_of(url: str) -> dict[str, NodeRow]:
    async with looking(url) as store:
        return {row.node: row for row in await store.nodes()}


async def owners_of(url: str) -> dict[int, tuple[str | None, int]]:
    """Owner and epoch of each shard."""
    async with looking(url) as store:
        rows = await store.owners()
    assert len(rows) == SHARDS
    return {row.shard: (row.owner, row.epoch) for row in rows}


async def fetch(url: str, sql: str, *args: object) -> list[Any]:
    """Rows of the store's own tables; `{s}` in the text is its schema."""
    import asyncpg

    target = parse_url(url)
    connection: Any = await asyncpg.connect(target.dsn)
    try:
        return list(await connection.fetch(sql.replace("{s}", f'"{target.schema}"'), *args))
    finally:
        await connection.close()


class Cells:
    """What the objects of `fleet.py` hold on disk."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}  # id → how often it happened
        self.wrong: list[str] = []
        self.objects = 0

    @classmethod
    async def read(cls, url: str) -> "Cells":
        found = cls()
        counts: dict[str, int] = {}
        sums: Counter[str] = Counter()
        rows = await fetch(url, "SELECT key, name, value FROM {s}.storage WHERE cls = 'Cell' AND space = 0")
        for key, name, value in rows:
            text = name.decode()
            if text.startswith("id:"):
                times = decode(value)
                sums[key] += times
                id = text[3:] if not text.startswith("id:alarm:") else f"{key}/{text[3:]}"
                if found.ids.setdefault(id, times) != times or times != 1:
                    found.wrong.append(f"{key}: {id} happened {times} times")
            elif text == "count":
                counts[key] = decode(value)
            elif text.startswith("wrong:"):
                found.wrong.append(f"{key}: {text} {decode(value)}")
        found.objects = len(counts)
        found.wrong += [
            f"{key}: {sums[key]} ids, count {counts.get(key)}" for key in sums if sums[key] != counts.get(key)
        ]
        return found


async def settled(url: str, timeout_s: float = PATIENCE_S, *, until_ms: int | None = None) -> None:
    """Until nothing is due any more."""
    end = time.monotonic() + timeout_s
    while True:
        by = int(time.time() * 1000) if until_ms is None else until_ms
        [(left, first)] = await fetch(url, "SELECT count(*), min(due_at) FROM {s}.timers WHERE due_at <= $1", by)
        if not left:
            return
        assert time.monotonic() < end, f"{left} timers are due still, the first since {by - first} ms"
        await asyncio.sleep(0.1)


def percentile(numbers: Sequence[float], part: float) -> float:
    """0.99: ninety-nine of a hundred are no larger."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
