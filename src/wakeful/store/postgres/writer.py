"""Layer 2. How does a group of commits reach the disk, and what became of each of them?"""

from asyncio import Lock
from collections.abc import Sequence

from wakeful.store.postgres.group import gather
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.wire import Invalid, Wire
from wakeful.store.protocol import Outcome
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced, StoreError
from wakeful.values.ids import ObjectId


class Writer:
    """The one connection that commits, one group after the other."""

    def __init__(self, pool: Pool, statements: Statements) -> None:
        self._pool = pool
        self._statements = statements
        self._lock = Lock()

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        """One statement for the group, unless something is wrong with it."""
        outcomes: list[Outcome] = [None] * len(commits)
        async with self._lock, self._pool.take() as wire:
            for batch in _batches(commits):
                await self._send(wire, node, commits, batch, outcomes)
        return outcomes

    async def _send(
        self, wire: Wire, node: str, commits: Sequence[Commit], batch: list[int], outcomes: list[Outcome]
    ) -> None:
        """Write the batch without those that turn out to be fenced; find the invalid ones by halving."""
        while batch:
            group = [commits[n] for n in batch]
            try:
                owned = await self._write(wire, node, group)
            except (Invalid, UnicodeEncodeError) as error:
                await self._divide(wire, node, commits, batch, outcomes, error)
                return
            rest = [n for n in batch if commits[n].shard in owned]
            if len(rest) == len(batch):
                return
            for n in batch:
                if commits[n].shard not in owned:
                    outcomes[n] = Fenced(commits[n].shard, commits[n].epoch)
            batch = rest

    async def _write(self, wire: Wire, node: str, group: Sequence[Commit]) -> set[int]:
        """The shards that are ours. All of them: it is done. Fewer: nothing is."""
        parts, values = gather(node, group)
        if wire.can_be_lazy and not any(commit.must_sync for commit in group):
            parts.append("lazy")
        statement = self._statements.get("commit", parts)
        return {row[0] for row in await wire.run(statement, statement.args(values), writes=True)}

    async def _divide(
        self,
        wire: Wire,
        node: str,
        commits: Sequence[Commit],
        batch: list[int],
        outcomes: list[Outcome],
        error: Exception,
    ) -> None:
        """Send the two halves of a batch that holds something invalid; commits of one object stay together, in order."""
        if len(batch) == 1:
            [n] = batch
            outcomes[n] = StoreError(f"commit of {commits[n].id} can't be stored: {error}", code="commit.invalid")
            return
        ids = list(dict.fromkeys(commits[n].id for n in batch))
        if len(ids) > 1:
            first = set(ids[: len(ids) // 2])
            await self._send(wire, node, commits, [n for n in batch if commits[n].id in first], outcomes)
            await self._send(wire, node, commits, [n for n in batch if commits[n].id not in first], outcomes)
            return
        for n in batch:
            await self._send(wire, node, commits, [n], outcomes)
            if isinstance(outcomes[n], StoreError):
                for later in batch[batch.index(n) + 1 :]:
                    outcomes[later] = _after(commits[n].id)
                return


def _batches(commits: Sequence[Commit]) -> list[list[int]]:
    """Runs of commits, by index, in which every shard has one epoch. Nearly always a single one."""
    batches: list[list[int]] = [[]]
    epochs: dict[int, int] = {}
    for n, commit in enumerate(commits):
        if epochs.setdefault(commit.shard, commit.epoch) != commit.epoch:
            batches.append([])
            epochs = {commit.shard: commit.epoch}
        batches[-1].append(n)
    return batches


def _after(id: ObjectId) -> StoreError:
    return StoreError(f"an earlier commit of {id} in the same group can't be stored", code="commit.invalid")
