"""Layer 2. How does a group of commits reach the disk, and what became of each of them?"""

from asyncio import Lock
from collections.abc import Sequence, Set

from wakeful.store.postgres.group import gather
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.wire import Invalid, Wire
from wakeful.store.protocol import Outcome
from wakeful.store.sends import Sends
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced, OutcomeUnknown, StoreDown, StoreError
from wakeful.values.ids import ObjectId


class Writer:
    """The one connection that commits, one group after the other."""

    def __init__(self, pool: Pool, statements: Statements) -> None:
        self._pool = pool
        self._statements = statements
        self._lock = Lock()
        self._has_written = False  # something of the group that is being written

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        """One statement for the group, unless something is wrong with it."""
        outcomes: list[Outcome] = [None] * len(commits)
        async with self._lock, self._pool.take() as wire:
            self._has_written = False
            failed: set[ObjectId] = set()
            for batch in _batches(commits):
                if failed:
                    for n in batch:
                        outcomes[n] = _after(commits[n].id) if commits[n].id in failed else None
                    batch = [n for n in batch if commits[n].id not in failed]
                await self._send(wire, node, commits, batch, outcomes)
                if outcomes.count(None) < len(outcomes):
                    failed.update(commits[n].id for n in batch if isinstance(outcomes[n], StoreError))
        return outcomes

    async def _send(
        self, wire: Wire, node: str, commits: Sequence[Commit], batch: list[int], outcomes: list[Outcome]
    ) -> None:
        """Write the batch without those that turn out to be fenced; find the invalid ones by halving."""
        while batch:
            group = [commits[n] for n in batch]
            try:
                lost = await self._write(wire, node, group)
            except (Invalid, UnicodeEncodeError) as error:
                await self._divide(wire, node, commits, batch, outcomes, error)
                return
            for n in batch if lost else ():
                if commits[n].shard in lost:
                    outcomes[n] = Fenced(commits[n].shard, commits[n].epoch)
            batch = [n for n in batch if commits[n].shard not in lost] if lost else []

    async def _write(self, wire: Wire, node: str, group: Sequence[Commit]) -> Set[int]:
        """The shards that are not ours. None: it is done. Some: nothing is."""
        parts, shards, values = gather(node, group)
        if wire.can_be_lazy and parts == ["starts"]:  # no commit has `must_sync`: each of those has an object's row
            parts.append("lazy")
        statement = self._statements.get("commit", parts)
        try:
            lost = shards - {row[0] for row in await wire.run(statement, statement.args(values), writes=True)}
        except StoreDown as error:
            if self._has_written:
                raise OutcomeUnknown(f"a part of the group is written, then {error.message}") from None
            raise
        self._has_written = self._has_written or not lost
        return lost

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
    """Runs of commits, by index, in which every shard has one epoch and sends meet no change of the same timer.

    Nearly always a single one.
    """
    sends = Sends() if any(commit.sends for commit in commits) else None
    pairs = {(commit.shard, commit.epoch) for commit in commits}
    if sends is None and len(pairs) == len({shard for shard, _ in pairs}):
        return [list(range(len(commits)))]
    batches: list[list[int]] = [[]]
    epochs: dict[int, int] = {}
    for n, commit in enumerate(commits):
        is_new = epochs.setdefault(commit.shard, commit.epoch) != commit.epoch
        if is_new or (sends is not None and not sends.admits(commit)):
            batches.append([])
            epochs = {commit.shard: commit.epoch}
            if sends is not None:
                sends = Sends()
                sends.admits(commit)
        batches[-1].append(n)
    return batches


def _after(id: ObjectId) -> StoreError:
    return StoreError(f"an earlier commit of {id} in the same group can't be stored", code="commit.invalid")
