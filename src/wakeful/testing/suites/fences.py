"""Layer 5. Does a store know who may write, and who is there?"""

from asyncio import gather

from msgspec.structs import replace

from wakeful.store.protocol import Hint, NodeRow, Outcome, ShardRow, Store
from wakeful.testing.suites.harness import ALL, NODE, NOW, A, B, Harness, entry, timer
from wakeful.values.commits import USER
from wakeful.values.errors import Fenced, StoreDown
from wakeful.values.ids import ObjectId, shard_of


class FenceSuite(Harness):
    """Who may write."""

    async def test_a_commit_with_an_old_epoch_is_fenced_and_the_others_still_commit(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(A, puts={(USER, "x"): b"0"}))
        old = self.epochs[shard_of(A)]
        self.epochs.update(await store.claim(NODE, [shard_of(A)], now=NOW))
        outcomes = await store.commit(
            NODE,
            [
                self.turn(A, epoch=old, puts={(USER, "x"): b"1"}, sets=[timer()], entries=[entry()]),
                self.turn(B, puts={(USER, "x"): b"2"}),
            ],
        )
        self.assert_fenced(outcomes[0], A, old)
        assert outcomes[1] is None
        assert (await self.rows(store, A), await self.rows(store, B)) == ({"x": b"0"}, {"x": b"2"})
        assert (await store.count("timers"), await store.count("entries")) == (0, 0)

    async def test_a_fenced_commit_in_the_middle_of_a_group_leaves_no_trace(self) -> None:
        store = await self.open_store()
        turns = [self.turn(A, now=NOW + n, puts={(USER, str(n)): b"1"}, epoch=99 if n == 1 else None) for n in range(3)]
        outcomes = await store.commit(NODE, turns)
        assert [outcome is None for outcome in outcomes] == [True, False, True]
        assert set(await self.rows(store)) == {"0", "2"}

    async def test_another_node_is_fenced_even_at_the_right_epoch(self) -> None:
        store = await self.open_store()
        [outcome] = await store.commit("node-b", [self.turn(puts={(USER, "x"): b"1"})])
        self.assert_fenced(outcome, A, self.epochs[shard_of(A)])
        assert await self.info(store) is None

    async def test_a_released_shard_takes_no_commit(self) -> None:
        store = await self.open_store()
        shard = shard_of(A)
        await store.release(NODE, {shard: self.epochs[shard]})
        [outcome] = await store.commit(NODE, [self.turn(puts={(USER, "x"): b"1"})])
        self.assert_fenced(outcome, A, self.epochs[shard])

    async def test_the_loser_of_a_shard_is_fenced_and_the_winner_is_not(self) -> None:
        store = await self.open_store()
        shard = shard_of(A)
        won = (await store.claim("node-b", [shard], now=NOW))[shard]
        [lost] = await store.commit(NODE, [self.turn(puts={(USER, "x"): b"a"})])
        self.assert_fenced(lost, A, self.epochs[shard])
        assert await store.commit("node-b", [self.turn(epoch=won, puts={(USER, "x"): b"b"})]) == [None]
        assert await self.rows(store) == {"x": b"b"}

    async def test_a_claim_raises_each_epoch_by_one_whoever_had_it(self) -> None:
        store = await self.open_store()
        again = await store.claim(NODE, [3, 5], now=NOW)
        assert again == {3: self.epochs[3] + 1, 5: self.epochs[5] + 1}
        assert await store.claim("node-b", [5], now=NOW) == {5: again[5] + 1}
        assert await store.claim(NODE, [], now=NOW) == {}

    async def test_a_claim_with_what_was_seen_wins_only_what_has_not_changed(self) -> None:
        store = await self.open_store()
        seen = {3: self.epochs[3], 5: self.epochs[5] - 1, 7: self.epochs[7]}
        assert await store.claim("node-b", [3, 5, 7], now=NOW, seen=seen) == {3: seen[3] + 1, 7: seen[7] + 1}
        owners = await store.owners()
        assert [owners[n].owner for n in (3, 5, 7)] == ["node-b", NODE, "node-b"]
        assert await store.claim("node-c", [3, 9], now=NOW, seen={3: seen[3]}) == {}
        assert (await store.owners())[9] == ShardRow(9, NODE, self.epochs[9])

    async def test_of_many_that_claim_what_they_all_saw_one_wins_each_shard(self) -> None:
        store = await self.open_store()
        names = [f"node-{n}" for n in range(8)]
        shards = [list(range(20)) if n % 2 else list(range(19, -1, -1)) for n in range(8)]
        seen = {n: self.epochs[n] for n in range(20)}
        won = await gather(
            *(store.claim(name, some, now=NOW, seen=seen) for name, some in zip(names, shards, strict=True))
        )
        for shard in range(20):
            winners = [name for name, epochs in zip(names, won, strict=True) if shard in epochs]
            assert [(await store.owners())[shard].owner] == winners
        assert {epoch - seen[shard] for epochs in won for shard, epoch in epochs.items()} == {1}

    async def test_owners_are_all_the_shards_in_order(self) -> None:
        store = await self.make_store()
        self.__dict__.setdefault("_opened", []).append(store)
        await store.open(now=NOW)
        assert await store.owners() == [ShardRow(n, None, 0) for n in ALL]
        await store.claim(NODE, [7], now=NOW)
        await store.claim("node-b", [255, 0], now=NOW)
        owners = await store.owners()
        assert [owners[n] for n in (0, 7, 8, 255)] == [
            ShardRow(0, "node-b", 1), ShardRow(7, NODE, 1), ShardRow(8, None, 0), ShardRow(255, "node-b", 1),
        ]  # fmt: skip

    async def test_a_release_keeps_the_epoch_and_gives_up_only_what_is_still_owned_at_it(self) -> None:
        store = await self.open_store()
        taken = await store.claim("node-b", [2], now=NOW)
        await store.release(NODE, {1: self.epochs[1], 2: taken[2], 3: self.epochs[3] + 7, 4: self.epochs[4] - 1})
        owners = await store.owners()
        assert owners[1] == ShardRow(1, None, self.epochs[1])
        assert owners[2] == ShardRow(2, "node-b", taken[2])
        assert owners[3] == ShardRow(3, NODE, self.epochs[3])
        assert owners[4] == ShardRow(4, NODE, self.epochs[4])
        assert (await store.claim(NODE, [1], now=NOW))[1] == self.epochs[1] + 1

    def assert_fenced(self, outcome: Outcome, id: ObjectId, epoch: int) -> None:
        assert isinstance(outcome, Fenced), outcome
        assert (outcome.shard, outcome.epoch) == (shard_of(id), epoch)


class NodeSuite(Harness):
    """Who is there."""

    async def test_a_node_joins_renews_and_leaves(self) -> None:
        store = await self.open_store()
        row = NodeRow("node-b", "host:1", NOW, NOW + 5, "b on host")
        await store.join(row)
        await store.join(NodeRow(NODE, "", NOW + 1, NOW + 6, "a"))
        assert await self.nodes(store) == [NodeRow(NODE, "", NOW + 1, NOW + 6, "a"), row]
        await store.join(NodeRow("node-b", "host:2", NOW + 2, NOW + 7, "b again"))
        assert (await self.nodes(store))[1] == NodeRow("node-b", "host:2", NOW, NOW + 7, "b again")
        await store.leave(NODE)
        await store.leave("nobody")
        assert [row.node for row in await store.nodes()] == ["node-b"]

    async def test_a_closed_store_says_that_it_is_down(self) -> None:
        store = await self.open_store()
        await store.close()
        await store.close()
        for call in (
            store.load([A]),
            store.commit(NODE, [self.turn()]),
            store.insert([timer()], now=NOW),
            store.nodes(),
        ):
            try:
                await call
            except StoreDown:
                continue
            raise AssertionError("a closed store answered")

    async def test_migrate_finds_nothing_to_do_on_an_open_store(self) -> None:
        store = await self.open_store()
        assert await store.migrate(now=NOW) == []

    async def test_capabilities_are_said(self) -> None:
        store = await self.open_store()
        assert {type(store.shared), type(store.listens), type(store.tells), type(store.local)} == {bool}
        assert type(store.shows_locks) is bool
        assert await store.locks() == []
        assert store.url
        store.watch(lambda hints: None)
        await store.tell([Hint(3, NOW, NOW + 1)])
        await store.tell([])

    async def test_a_store_that_keeps_time_has_a_clock_and_others_have_none(self) -> None:
        store = await self.open_store()
        at = await store.time()
        assert at is None or at > 10**12
        assert (at is not None) == store.keeps_time

    async def test_joining_again_changes_all_but_when_it_joined_and_whether_it_drains(self) -> None:
        store = await self.open_store()
        await store.join(NodeRow(NODE, "host:1", NOW, NOW + 5, "a", "blue", 3, is_draining=True))
        assert await self.nodes(store) == [NodeRow(NODE, "host:1", NOW, NOW + 5, "a", "blue", 3)]
        assert await store.drain(NODE, True)
        again = NodeRow(NODE, "host:2", NOW, NOW + 6, "b", "green", 4, lease_ms=20_000)
        await store.join(replace(again, joined_at=NOW + 1))
        assert await self.nodes(store) == [replace(again, is_draining=True)]
        assert await store.drain(NODE, False)
        assert await self.nodes(store) == [again]
        assert not await store.drain("nobody", True)
        await store.leave(NODE)
        await store.join(NodeRow(NODE, "", NOW + 9, NOW + 10, "a"))
        assert await self.nodes(store) == [NodeRow(NODE, "", NOW + 9, NOW + 10, "a")]

    async def nodes(self, store: Store) -> list[NodeRow]:
        """All but whether they are here, which not every store can tell."""
        return [replace(row, is_here=None) for row in await store.nodes()]
