"""Layer 2. How does a group of commits reach the disk, and what became of each of them?"""

from asyncio import Lock
from collections.abc import Mapping, Sequence, Set

from wakeful.store.postgres.group import gather
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.session import QuestionTime
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.wire import Invalid, ServerLost, ServerWire
from wakeful.store.protocol import Outcome
from wakeful.store.sends import Sends
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced, OutcomeUnknown, StoreDown, StoreError
from wakeful.values.ids import ObjectId

KEEP_MS = 86_400_000  # a receipt stays for a day or two; nobody waits that long


class PostgresWriter:
    """The one connection that commits, one group after the other."""

    def __init__(self, pool: Pool, statements: Statements, id: str, where: str = "the database") -> None:
        self._pool = pool
        self._where = where
        self._now = 0  # of the group that is being written
        self._statements = statements
        self._lock = Lock()
        self._id = f"commits:{id}"  # nobody else's, not even of this process at another time
        self._number = 0  # of the last statement
        self._has_written = False  # something of the group that is being written
        self._acked = 0  # the last statement that was acknowledged as being on disk
        self._kept_until = 0  # so long its receipt is kept
        self._wire: ServerWire | None = None  # of which is known that its server has that one

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        """One statement for the group, unless something is wrong with it."""
        outcomes: list[Outcome] = [None] * len(commits)
        async with self._lock:
            self._has_written = False
            failed: set[ObjectId] = set()
            for batch in _batches(commits):
                if failed:
                    for n in batch:
                        outcomes[n] = _after(commits[n].id) if commits[n].id in failed else None
                    batch = [n for n in batch if commits[n].id not in failed]
                await self._send(node, commits, batch, outcomes)
                if outcomes.count(None) < len(outcomes):
                    failed.update(commits[n].id for n in batch if isinstance(outcomes[n], StoreError))
        return outcomes

    async def _send(self, node: str, commits: Sequence[Commit], batch: list[int], outcomes: list[Outcome]) -> None:
        """Write the batch without those that turn out to be fenced; find the invalid ones by halving."""
        while batch:
            group = [commits[n] for n in batch]
            try:
                lost = await self._write(node, group)
            except (Invalid, UnicodeEncodeError) as error:
                await self._divide(node, commits, batch, outcomes, error)
                return
            for n in batch if lost else ():
                if commits[n].shard in lost:
                    outcomes[n] = Fenced(commits[n].shard, commits[n].epoch)
            batch = [n for n in batch if commits[n].shard not in lost] if lost else []

    async def _write(self, node: str, group: Sequence[Commit]) -> Set[int]:
        """The shards that are not ours. None: it is done. Some: nothing is.

        A statement whose connection was lost is sent again, for as long as a statement may take, under its number: if
        the first try arrived, whenever that was, the second finds it.
        """
        parts, shards, values = gather(node, group)
        self._number += 1
        self._now = group[-1].now
        keep_until = (self._now // KEEP_MS + 2) * KEEP_MS
        values |= {"writer": self._id, "number": self._number, "keep_until": keep_until}
        is_lazy = parts == ["starts"]  # no commit has `must_sync`: each of those has an object's row
        patience = QuestionTime(self._pool.timeout_s)
        is_unsure = False  # a try of it may have arrived
        while True:
            try:
                lost, is_done = await self._try(parts, shards, values, is_lazy=is_lazy, is_unsure=is_unsure)
                break
            except (ServerLost, OutcomeUnknown) as error:
                is_unsure = is_unsure or isinstance(error, OutcomeUnknown)
                if self._pool.is_closed or not await patience.waits():
                    raise self._failed(error, is_unsure) from None
            except StoreDown as error:
                raise self._failed(error, is_unsure) from None
        self._has_written = self._has_written or is_done
        if is_done and not is_lazy:
            self._acked, self._kept_until = self._number, keep_until
        return lost

    async def _try(
        self, parts: Sequence[str], shards: Set[int], values: Mapping[str, object], *, is_lazy: bool, is_unsure: bool
    ) -> tuple[Set[int], bool]:
        """Send it once; the shards that are not ours, and whether it is written, by this try or one before."""
        async with self._pool.take() as wire:
            if wire is not self._wire:
                await self._check(wire, values)
            statement = self._statements.get("commit", [*parts, "lazy"] if is_lazy and wire.can_be_lazy else parts)
            rows = await wire.run(statement, statement.args(values), writes=True)
            lost = shards - {row[0] for row in rows}
            if lost and is_unsure:  # one was taken from us: before a try arrived, or after
                received = self._statements.get("received")
                if await wire.run(received, received.args(values)):
                    return frozenset(), True
            return lost, not lost

    async def _check(self, wire: ServerWire, values: Mapping[str, object]) -> None:
        """Nothing, when the server of a new connection has what was acknowledged before; else it is not gone on with.

        One that was promoted and was behind has not, and what objects remember of it would be written on.
        """
        if self._acked and self._now < self._kept_until:
            asked = self._statements.get("acknowledged")
            rows = await wire.run(asked, asked.args(values))
            if max((row[0] for row in rows), default=0) < self._acked:
                raise StoreDown(
                    f"{self._where} lacks commits that were acknowledged: a standby was promoted that did not have them yet, "
                    "or a backup was restored; objects go on from what is on disk",
                    code="store.behind",
                )
        self._wire = wire

    def _failed(self, error: StoreDown | OutcomeUnknown, is_unsure: bool) -> StoreDown | OutcomeUnknown:
        if self._has_written:
            return OutcomeUnknown(f"a part of the group is written, then {error.message}")
        if is_unsure and not isinstance(error, OutcomeUnknown):
            return OutcomeUnknown(
                f"{error.message}; whether a try before it arrived is unknown, retry with a request key"
            )
        return StoreDown(error.message) if isinstance(error, ServerLost) else error

    async def _divide(
        self,
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
            await self._send(node, commits, [n for n in batch if commits[n].id in first], outcomes)
            await self._send(node, commits, [n for n in batch if commits[n].id not in first], outcomes)
            return
        for n in batch:
            await self._send(node, commits, [n], outcomes)
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
