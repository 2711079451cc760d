"""Layer 3. What does a node do now and then: drop what is past keeping."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from wakeful.runtime.env import Env
from wakeful.store.protocol import CANCELLED
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry
from wakeful.values.times import Handle

log = logging.getLogger("wakeful.upkeep")

PRUNE_EVERY_MS = 300_000
PRUNE_ROWS_MAX = 5_000
PRUNE_PAUSE_MS = 100  # between two pages, so that commits go on: 50,000 rows a second at most
WATCHED_MAX = 10_000  # ledger names counted at once; more are forgotten and left to age


class Upkeep:
    """The background chores of a node, each a short task started by the clock."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._handles: dict[str, Handle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._written: dict[tuple[ObjectId, str], int] = {}  # ledger rows since the name was last pruned
        self._crowded: dict[tuple[ObjectId, str], None] = {}
        self.chores: list[Callable[[], Awaitable[None]]] = []  # of features: what they drop now and then

    def start(self) -> None:
        self._later("prune", PRUNE_EVERY_MS)

    def stop(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        for task in self._tasks:
            task.cancel()

    def wrote(self, entries: Sequence[Entry]) -> None:
        """Count ledger rows, to know which names hold more than they may."""
        most = max(10, self._env.limits.ledger_keep // 2)
        for entry in entries:
            name = (entry.id, entry.name)
            self._written[name] = count = self._written.get(name, 0) + 1
            if count >= most:
                del self._written[name]
                self._crowded[name] = None
                if len(self._crowded) >= WATCHED_MAX:
                    self._run("prune")
        if len(self._written) > WATCHED_MAX:
            self._written.clear()

    async def prune(self) -> None:
        """Drop expired answers and old ledger rows, a page at a time until none is left.

        Of several nodes the owner of the first shard does it for all, so that they don't get in each other's way.
        """
        env = self._env
        now = env.clock.now()
        crowded, self._crowded = self._crowded, {}
        names = [(id, name, env.limits.ledger_keep) for id, name in crowded]
        before = now - env.limits.ledger_keep_ms
        if 0 not in env.epochs:
            now = before = 0
        while True:
            gone = await env.store.prune(now=now, entries_before=before, crowded=names, limit=PRUNE_ROWS_MAX)
            if gone < PRUNE_ROWS_MAX or env.state != "up":
                return
            names = []
            await env.clock.sleep(PRUNE_PAUSE_MS)

    def _later(self, chore: str, length_ms: int) -> None:
        env = self._env
        self._handles[chore] = env.clock.call_at(env.clock.now() + length_ms, lambda: self._again(chore, length_ms))

    def _again(self, chore: str, length_ms: int) -> None:
        if self._env.state == "up":
            self._run(chore)
        self._later(chore, length_ms)

    def _run(self, chore: str) -> None:
        task = asyncio.get_running_loop().create_task(self._run_guarded(chore))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_guarded(self, chore: str) -> None:
        try:
            await self.prune()
            for more in self.chores:
                await more()
        except Unavailable as error:
            if error.code == CANCELLED:
                log.warning("upkeep: %s has to wait: %s", chore, error, extra={"code": "upkeep.prune"})
            else:
                self._env.store_failed(error)
        except Exception:
            log.exception("upkeep: %s failed", chore, extra={"code": f"upkeep.{chore}"})
