"""Layer 5. Does a store keep every promise of the seam? For people who write their own, and for ours.

Subclass `StoreSuite`, say how a new and empty store is made, and let pytest collect it. The tests are
coroutines; whatever runs them (`asyncio.run` will do) must call `close_stores` afterwards.

    class TestMyStore(StoreSuite):
        async def make_store(self) -> Store:
            return MyStore(…)
"""

from collections.abc import Sequence
from typing import Any

from wakeful.store.protocol import WHOLE_BYTES_MAX, WHOLE_ROWS_MAX, NodeRow, Outcome, Query, Range, ShardRow, Store
from wakeful.values.commits import SYSTEM, USER, Commit, Info, Loaded, Remembered, Start
from wakeful.values.errors import Fenced, StoreDown
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.runs import Entry, Verdict
from wakeful.values.timers import ALARM, Parked, Timer, TimerKey

NOW = 1_760_000_000_000
NODE = "node-a"
ALL = range(SHARDS)
A, B, C = ObjectId("Order", "a"), ObjectId("Order", "b"), ObjectId("Tenant", "c")


def timer(id: ObjectId = A, name: str = ALARM, *, due_at: int = NOW, seq: int = 1, **more: Any) -> Timer:
    return Timer(id, name, due_at, more.pop("nominal_at", due_at), seq, **more)


def entry(
    id: ObjectId = A, name: str = ALARM, *, finished_at: int = NOW, verdict: Verdict = "run", **more: Any
) -> Entry:
    return Entry(
        id, name, f"run-{id.key}", NOW - 10, NOW - 5, finished_at, more.pop("attempt", 1), verdict, NODE, **more
    )


def parked(id: ObjectId = A, name: str = ALARM, *, seq: int = 1) -> Parked:
    late = timer(id, name, seq=seq, attempt=6, crashes=1, started=3, priority=2, payload=b"\x00p")
    return Parked(late, f"run-{id.key}", NOW + 9, 7, "failed", "ValueError: no", "Traceback …\n  ValueError: no")


class Harness:
    """Makes stores and speaks for a node that owns every shard of them."""

    async def make_store(self) -> Store:
        """A new store with nothing in it, not opened yet."""
        raise NotImplementedError

    async def open_store(self) -> Store:
        store = await self.make_store()
        self.__dict__.setdefault("_opened", []).append(store)
        await store.open(now=NOW)
        self.epochs = await store.claim(NODE, ALL, now=NOW)
        return store

    async def close_stores(self) -> None:
        """Close what the test opened."""
        for store in self.__dict__.pop("_opened", []):
            await store.close()

    def turn(self, id: ObjectId = A, *, now: int = NOW, epoch: int | None = None, **what: Any) -> Commit:
        """A commit of that object at the epoch that this node has."""
        shard = shard_of(id)
        return Commit(id=id, shard=shard, epoch=self.epochs[shard] if epoch is None else epoch, now=now, **what)

    async def done(self, store: Store, *commits: Commit) -> None:
        """Commit them as one group, in which none may fail."""
        assert await store.commit(NODE, commits) == [None] * len(commits)

    async def rows(self, store: Store, id: ObjectId = A, space: int = USER) -> dict[str, bytes]:
        return dict(await store.scan(id, space, Range()))

    async def timer_rows(self, store: Store, id: ObjectId = A) -> list[Timer]:
        return await store.find_timers(Query(cls=id.cls, key=id.key))

    async def info(self, store: Store, id: ObjectId = A) -> Info | None:
        return (await store.load([id]))[0].info


class CommitSuite(Harness):
    """The one write."""

    async def test_a_commit_of_nothing_answers_nothing(self) -> None:
        store = await self.open_store()
        assert await store.commit(NODE, []) == []

    async def test_what_a_commit_put_can_be_read(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"1", (SYSTEM, "state"): b"s"}))
        assert await store.read(A, USER, ["x", "y"]) == {"x": b"1"}
        assert await store.read(A, SYSTEM, ["state", "x"]) == {"state": b"s"}

    async def test_a_put_replaces_and_a_delete_removes(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"1", (USER, "y"): b"2"}))
        await self.done(store, self.turn(puts={(USER, "x"): b"3"}, deletes=[(USER, "y"), (USER, "never")]))
        assert await self.rows(store) == {"x": b"3"}

    async def test_a_delete_and_a_put_of_one_key_in_one_commit_leave_the_put(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"old"}))
        await self.done(store, self.turn(deletes=[(USER, "x")], puts={(USER, "x"): b"new"}))
        assert await self.rows(store) == {"x": b"new"}

    async def test_a_wipe_drops_user_rows_before_the_puts_and_leaves_system_rows(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"1", (USER, "y"): b"2", (SYSTEM, "state"): b"s"}))
        await self.done(store, self.turn(wipe=True, puts={(USER, "z"): b"3"}))
        assert await self.rows(store) == {"z": b"3"}
        assert await self.rows(store, space=SYSTEM) == {"state": b"s"}

    async def test_a_wipe_touches_no_other_object_and_no_timer(self) -> None:
        store = await self.open_store()
        await self.done(
            store, self.turn(A, puts={(USER, "x"): b"1"}, sets=[timer()]), self.turn(B, puts={(USER, "x"): b"2"})
        )
        await self.done(store, self.turn(A, wipe=True))
        assert (await self.rows(store, A), await self.rows(store, B)) == ({}, {"x": b"2"})
        assert await self.timer_rows(store) == [timer()]

    async def test_the_commits_of_one_object_in_one_group_apply_in_their_order(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "before"): b"0", (SYSTEM, "state"): b"0"}))
        await self.done(
            store,
            self.turn(puts={(USER, "x"): b"1", (USER, "y"): b"1"}),
            self.turn(B, puts={(USER, "x"): b"b"}),
            self.turn(deletes=[(USER, "y"), (USER, "before")]),
            self.turn(puts={(USER, "y"): b"2", (USER, "w"): b"2"}),
            self.turn(deletes=[(USER, "w")]),
        )
        assert await self.rows(store) == {"x": b"1", "y": b"2"}
        assert await self.rows(store, B) == {"x": b"b"}

    async def test_put_then_wipe_then_put_in_one_group_leaves_the_last_put(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "old"): b"0", (SYSTEM, "state"): b"0"}))
        await self.done(
            store,
            self.turn(puts={(USER, "x"): b"1", (USER, "y"): b"1", (SYSTEM, "state"): b"1"}),
            self.turn(wipe=True),
            self.turn(puts={(USER, "x"): b"2"}),
        )
        assert await self.rows(store) == {"x": b"2"}
        assert await self.rows(store, space=SYSTEM) == {"state": b"1"}
        found = await self.info(store)
        assert found is not None
        assert (found.rows, found.bytes) == (2, 1 + 1 + 5 + 1)

    async def test_a_group_of_a_thousand_objects_is_written_whole(self) -> None:
        store = await self.open_store()
        ids = [ObjectId("Many", f"k{n}") for n in range(1000)]
        turns = [
            self.turn(id, puts={(USER, "n"): id.key.encode()}, sets=[timer(id)], entries=[entry(id)]) for id in ids
        ]
        await self.done(store, *turns)
        assert [loaded.rows for loaded in await store.load(ids)] == [{(USER, "n"): id.key.encode()} for id in ids]
        assert [await store.count(what) for what in ("objects", "timers", "entries")] == [1000, 1000, 1000]

    async def test_five_thousand_puts_in_one_commit(self) -> None:
        store = await self.open_store()
        puts = {(USER, f"k{n:05}"): str(n).encode() for n in range(5000)}
        await self.done(store, self.turn(puts=puts))
        assert {(USER, key): value for key, value in (await self.rows(store)).items()} == puts
        await self.done(store, self.turn(deletes=list(puts)[:4999]))
        found = await self.info(store)
        assert found is not None
        assert (found.rows, found.bytes) == (1, 6 + 4)

    async def test_a_value_of_two_mebibytes(self) -> None:
        store = await self.open_store()
        value = bytes(range(256)) * 8192
        await self.done(store, self.turn(puts={(USER, "big"): value, (USER, "none"): b""}))
        assert await self.rows(store) == {"big": value, "none": b""}

    async def test_keys_at_their_longest_all_together(self) -> None:
        store = await self.open_store()
        id = ObjectId("C" * 64, "é" * 256)
        first, second = "k" * 2048, "ü" * 1024
        await self.done(
            store, self.turn(id, puts={(USER, first): b"1", (USER, second): b"2"}, sets=[timer(id, "n" * 512)])
        )
        assert await self.rows(store, id) == {first: b"1", second: b"2"}
        found = await self.info(store, id)
        assert found is not None
        assert found.bytes == 2048 + 2048 + 2
        assert await self.timer_rows(store, id) == [timer(id, "n" * 512)]

    async def test_keys_may_be_empty_hold_nul_or_emoji_and_keep_apart(self) -> None:
        store = await self.open_store()
        keys = ["", "\0", "a\0b", "a\0c", "a", "🦫", "é", "e\u0301", "%", "_", "'", '"', "\\", "\n"]
        await self.done(store, self.turn(puts={(USER, key): key.encode() + b"!" for key in keys}))
        assert await self.rows(store) == {key: key.encode() + b"!" for key in keys}
        assert await store.read(A, USER, keys) == {key: key.encode() + b"!" for key in keys}
        found = await self.info(store)
        assert found is not None
        assert (found.rows, found.bytes) == (len(keys), sum(2 * len(key.encode()) + 1 for key in keys))
        await self.done(store, self.turn(deletes=[(USER, "a\0b"), (USER, "")]))
        assert set(await self.rows(store)) == set(keys) - {"a\0b", ""}


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
        await store.release(NODE, {1: self.epochs[1], 2: taken[2], 3: self.epochs[3] + 7})
        owners = await store.owners()
        assert owners[1] == ShardRow(1, None, self.epochs[1])
        assert owners[2] == ShardRow(2, "node-b", taken[2])
        assert owners[3] == ShardRow(3, NODE, self.epochs[3])
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
        assert await store.nodes() == [NodeRow(NODE, "", NOW + 1, NOW + 6, "a"), row]
        await store.join(NodeRow("node-b", "host:2", NOW + 2, NOW + 7, "b again"))
        assert (await store.nodes())[1] == NodeRow("node-b", "host:2", NOW, NOW + 7, "b again")
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
        assert {type(store.shared), type(store.listens), type(store.local)} == {bool}
        assert store.url
        store.watch(lambda shards: None)


class ObjectSuite(Harness):
    """An object's rows and numbers."""

    async def test_an_object_that_never_wrote_loads_as_nothing(self) -> None:
        store = await self.open_store()
        assert await store.load([]) == []
        assert await store.load([A, B]) == [Loaded(None, None, {}, True)] * 2

    async def test_load_answers_in_the_order_asked_and_gives_the_alarm(self) -> None:
        store = await self.open_store()
        alarm = timer(B, seq=5, payload=b"p", attempt=2, priority=3)
        await self.done(store, self.turn(A, puts={(USER, "x"): b"1"}), self.turn(B, sets=[alarm, timer(B, "job:1")]))
        b, c, a = await store.load([B, C, A])
        assert b == Loaded(Info(B, NOW, NOW, 0, 0), alarm, {}, True)
        assert c.info is None
        assert a == Loaded(Info(A, NOW, NOW, 1, 2), None, {(USER, "x"): b"1"}, True)

    async def test_an_object_of_few_rows_loads_whole_and_one_row_more_loads_its_state_alone(self) -> None:
        store = await self.open_store()
        puts = {(USER, f"{n:02}"): b"v" for n in range(WHOLE_ROWS_MAX - 1)}
        await self.done(store, self.turn(puts={**puts, (SYSTEM, "state"): b"s"}))
        [loaded] = await store.load([A])
        assert (loaded.complete, loaded.rows) == (True, {**puts, (SYSTEM, "state"): b"s"})
        await self.done(store, self.turn(puts={(USER, "one more"): b"v"}))
        [loaded] = await store.load([A])
        assert (loaded.complete, loaded.rows) == (False, {(SYSTEM, "state"): b"s"})

    async def test_an_object_of_many_bytes_is_not_loaded_whole(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * (WHOLE_BYTES_MAX - 1)}))
        assert (await store.load([A]))[0].complete
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * WHOLE_BYTES_MAX}))
        [loaded] = await store.load([A])
        assert (loaded.complete, loaded.rows) == (False, {})

    async def test_created_at_stays_and_active_at_follows(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(now=NOW))
        await self.done(store, self.turn(now=NOW + 5, puts={(USER, "x"): b"1"}))
        await self.done(store, self.turn(now=NOW + 6, sets=[timer()]), self.turn(now=NOW + 7, entries=[entry()]))
        assert await self.info(store) == Info(A, NOW, NOW + 7, 1, 2)

    async def test_a_new_object_with_two_commits_in_its_first_group_was_created_by_the_first(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(now=NOW + 1), self.turn(now=NOW + 2))
        assert await self.info(store) == Info(A, NOW + 1, NOW + 2, 0, 0)

    async def test_rows_and_bytes_are_exact_after_every_kind_of_change(self) -> None:
        store = await self.open_store()
        for change, rows, size in (
            ({"puts": {(USER, "é"): b"12", (SYSTEM, "é"): b"1"}}, 2, 7),
            ({"puts": {(USER, "é"): b"12345"}}, 2, 10),
            ({"puts": {(USER, "é"): b"12345"}}, 2, 10),
            ({"puts": {(USER, "é"): b""}}, 2, 5),
            ({"puts": {(USER, "y"): b"1"}, "deletes": [(USER, "é")]}, 2, 5),
            ({"deletes": [(USER, "é"), (USER, "never")]}, 2, 5),
            ({"wipe": True}, 1, 3),
            ({"wipe": True, "puts": {(USER, "z"): b"zz"}}, 2, 6),
            ({"deletes": [(SYSTEM, "é"), (USER, "z")]}, 0, 0),
        ):
            await self.done(store, self.turn(**change))
            assert await self.info(store) == Info(A, NOW, NOW, rows, size), change

    async def test_read_of_many_keys_gives_those_that_are_there(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, f"k{n}"): str(n).encode() for n in range(700)}))
        assert await store.read(A, USER, []) == {}
        assert await store.read(B, USER, ["k1"]) == {}
        asked = [f"k{n}" for n in range(0, 1400, 2)]
        assert await store.read(A, USER, asked) == {f"k{n}": str(n).encode() for n in range(0, 700, 2)}

    async def test_a_scan_is_in_utf8_byte_order_or_its_reverse(self) -> None:
        store = await self.open_store()
        # In UTF-16 and in most collations some of these stand otherwise.
        keys = ["", "\0", "A", "B", "_", "a", "a\0", "a\0b", "aa", "b", "Ä", "ä", "\uffff", "🦫"]
        assert keys == sorted(keys, key=str.encode)
        await self.done(store, self.turn(puts={(USER, key): b"" for key in reversed(keys)}))
        assert [key for key, _ in await store.scan(A, USER, Range())] == keys
        assert [key for key, _ in await store.scan(A, USER, Range(reverse=True))] == keys[::-1]

    async def test_a_scan_keeps_to_its_range_and_limit(self) -> None:
        store = await self.open_store()
        await self.done(
            store,
            self.turn(puts={(USER, key): key.encode() for key in "abcdef"}),
            self.turn(B, puts={(USER, "c"): b""}),
        )
        for range, keys in (
            (Range(first="c"), "cdef"),
            (Range(first="bb"), "cdef"),
            (Range(last="c"), "ab"),
            (Range(first="b", last="e"), "bcd"),
            (Range(first="b", last="e", reverse=True), "dcb"),
            (Range(first="b", limit=2), "bc"),
            (Range(last="e", limit=2, reverse=True), "dc"),
            (Range(reverse=True, limit=1), "f"),
            (Range(limit=0), ""),
            (Range(first="c", last="c"), ""),
            (Range(first="d", last="b"), ""),
            (Range(last=""), ""),
            (Range(limit=100), "abcdef"),
        ):
            assert await store.scan(A, USER, range) == [(key, key.encode()) for key in keys], range

    async def test_the_two_spaces_of_an_object_do_not_mix(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"user", (SYSTEM, "x"): b"system"}))
        await self.done(store, self.turn(deletes=[(USER, "x")]))
        assert (await self.rows(store), await self.rows(store, space=SYSTEM)) == ({}, {"x": b"system"})

    async def test_objects_whose_class_and_key_run_together_keep_apart(self) -> None:
        store = await self.open_store()
        one, two = ObjectId("Ab", "c"), ObjectId("A", "bc")
        await self.done(store, self.turn(one, puts={(USER, "x"): b"1"}), self.turn(two, puts={(USER, "x"): b"2"}))
        await self.done(store, self.turn(one, wipe=True))
        assert (await self.rows(store, one), await self.rows(store, two)) == ({}, {"x": b"2"})

    async def test_an_answer_is_recalled_until_it_expires(self) -> None:
        store = await self.open_store()
        answer = Remembered("key-1", b"\x00print", b"\x01answer", NOW + 10)
        await self.done(store, self.turn(remember=answer))
        assert await store.recall(A, "key-1", now=NOW + 9) == answer
        assert await store.recall(A, "key-1", now=NOW + 10) is None
        assert await store.recall(A, "key-2", now=NOW) is None
        assert await store.recall(B, "key-1", now=NOW) is None

    async def test_the_last_remembered_answer_of_a_key_counts(self) -> None:
        store = await self.open_store()
        first, second, third = (Remembered("k", b"f", answer, NOW + 10) for answer in (b"1", b"2", b"3"))
        await self.done(store, self.turn(remember=first))
        await self.done(store, self.turn(remember=second), self.turn(remember=third))
        assert await store.recall(A, "k", now=NOW) == third


# After a set of seq 1: what follows in one group ("set", "clear" a seq, "start" a seq with crashes), and what is left.
_TIMER_CASES: list[tuple[list[tuple[str, dict[str, Any]]], dict[str, Any] | None]] = [
    ([("set", {"seq": 2}), ("clear", {"seq": 2})], None),
    ([("set", {"seq": 2}), ("clear", {"seq": 0})], None),
    ([("set", {"seq": 2}), ("clear", {"seq": 1})], {"seq": 2}),
    ([("clear", {"seq": 1}), ("set", {"seq": 2})], {"seq": 2}),
    ([("set", {"seq": 2}), ("clear", {"seq": 2}), ("set", {"seq": 3})], {"seq": 3}),
    ([("set", {"seq": 2}), ("set", {"seq": 3}), ("clear", {"seq": 2})], {"seq": 3}),
    ([("set", {"seq": 1, "due_at": NOW + 3}), ("clear", {"seq": 1})], None),
    ([("clear", {"seq": 9}), ("clear", {"seq": 1})], None),
    ([("clear", {"seq": 1}), ("start", {"seq": 1, "crashes": 1})], None),
    ([("start", {"seq": 1, "crashes": 1}), ("clear", {"seq": 1})], None),
    ([("start", {"seq": 1, "crashes": 1}), ("clear", {"seq": 9})], {"seq": 1, "crashes": 1}),
    ([("start", {"seq": 1, "crashes": 1}), ("set", {"seq": 1, "due_at": NOW + 3})], {"seq": 1, "due_at": NOW + 3}),
    ([("set", {"seq": 2}), ("start", {"seq": 1, "crashes": 1})], {"seq": 2}),
    ([("set", {"seq": 2}), ("start", {"seq": 2, "crashes": 4})], {"seq": 2, "crashes": 4}),
    ([("set", {"seq": 2}), ("clear", {"seq": 2}), ("start", {"seq": 1, "crashes": 4})], None),
    ([("start", {"seq": 1, "crashes": 1}), ("start", {"seq": 1, "crashes": 2})], {"seq": 1, "crashes": 2}),
]


def _change(id: ObjectId, change: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    verb, how = change
    if verb == "set":
        return {"sets": [timer(id, **how)]}
    if verb == "clear":
        return {"clears": [(ALARM, how["seq"])]}
    return {"starts": [Start(ALARM, how["seq"], how["crashes"])]}


class TimerSuite(Harness):
    """What waits."""

    async def page(
        self,
        store: Store,
        shards: Sequence[int] = ALL,
        *,
        after: TimerKey | None = None,
        until: int = NOW,
        limit: int = 100,
    ) -> tuple[list[Timer], bool]:
        return await store.timers(shards, after=after, until=until, limit=limit)

    async def test_a_set_timer_comes_back_as_it_was(self) -> None:
        store = await self.open_store()
        full = Timer(A, "job:é", NOW, NOW - 5, 2**53 + 1, 3, 2, 7, -4, b"\x00\xff")
        await self.done(store, self.turn(sets=[full, timer(payload=b""), timer(name="none")]))
        assert {row.name: row for row in await self.timer_rows(store)} == {
            "job:é": full, ALARM: timer(payload=b""), "none": timer(name="none"),
        }  # fmt: skip

    async def test_a_set_replaces_the_timer_of_that_name(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(sets=[timer(seq=1, payload=b"1", attempt=3)]))
        await self.done(store, self.turn(sets=[timer(seq=2, due_at=NOW + 1)]))
        assert await self.timer_rows(store) == [timer(seq=2, due_at=NOW + 1)]
        assert await self.page(store) == ([], False)

    async def test_a_clear_removes_only_the_setting_it_names(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(sets=[timer(seq=2), timer(name="other", seq=3)]))
        await self.done(store, self.turn(clears=[(ALARM, 1), ("never", 0)]))
        assert len(await self.timer_rows(store)) == 2
        await self.done(store, self.turn(clears=[(ALARM, 2)]))
        assert await self.timer_rows(store) == [timer(name="other", seq=3)]

    async def test_a_clear_of_seq_zero_removes_any_setting(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(sets=[timer(seq=2)]))
        await self.done(store, self.turn(clears=[(ALARM, 0)]))
        assert await self.timer_rows(store) == []

    async def test_a_clear_and_a_set_in_one_commit_leave_the_set(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(sets=[timer(seq=1)]))
        await self.done(store, self.turn(clears=[(ALARM, 1), (ALARM, 0)], sets=[timer(seq=2)]))
        assert await self.timer_rows(store) == [timer(seq=2)]

    async def test_timers_of_one_object_in_one_group_apply_in_their_order(self) -> None:
        store = await self.open_store()
        for n, (changes, left) in enumerate(_TIMER_CASES):
            id = ObjectId("Case", str(n))
            epoch = self.epochs[shard_of(id)]
            await self.done(store, self.turn(id, sets=[timer(id, seq=1)]))
            await self.done(store, *(self.turn(id, **_change(id, change)) for change in changes))
            wanted = [] if left is None else [timer(id, **{**left, "started": epoch if "crashes" in left else 0})]
            assert await self.timer_rows(store, id) == wanted, changes

    async def test_a_start_notes_epoch_and_crashes_on_that_setting_alone(self) -> None:
        store = await self.open_store()
        await self.done(
            store, self.turn(sets=[timer(seq=2), timer(name="other", seq=2)]), self.turn(B, sets=[timer(B, seq=2)])
        )
        self.epochs.update(await store.claim(NODE, [shard_of(A)], now=NOW))
        await self.done(store, self.turn(starts=[Start(ALARM, 2, 5), Start("other", 1, 5), Start("never", 2, 5)]))
        found = {(row.id, row.name): row for row in await store.find_timers(Query())}
        assert found == {
            (A, ALARM): timer(seq=2, started=self.epochs[shard_of(A)], crashes=5),
            (A, "other"): timer(name="other", seq=2),
            (B, ALARM): timer(B, seq=2),
        }

    async def test_a_bare_start_makes_no_object_and_does_not_touch_one(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(B, starts=[Start(ALARM, 1, 1)]))
        assert await self.info(store, B) is None
        assert await store.count("objects") == 0
        await self.done(store, self.turn(A, now=NOW, sets=[timer()]))
        await self.done(store, self.turn(A, now=NOW + 9, starts=[Start(ALARM, 1, 1)]))
        assert await self.info(store) == Info(A, NOW, NOW, 0, 0)

    async def test_timers_come_by_due_time_then_priority_then_seq(self) -> None:
        store = await self.open_store()
        order = [
            timer(C, "1", due_at=NOW - 9, seq=50, priority=-5),
            timer(B, "2", due_at=NOW, seq=9, priority=7),
            timer(A, "3", due_at=NOW, seq=3, priority=1),
            timer(C, "4", due_at=NOW, seq=4, priority=1),
            timer(B, "5", due_at=NOW, seq=1),
            timer(A, "6", due_at=NOW, seq=2),
            timer(A, "7", due_at=NOW, seq=0, priority=-1),
        ]
        await store.insert([order[n] for n in (4, 0, 6, 2, 5, 1, 3)], now=NOW)
        assert await self.page(store) == (order, False)
        assert await store.find_timers(Query()) == order

    async def test_timers_are_those_due_at_or_before_until(self) -> None:
        store = await self.open_store()
        await store.insert([timer(A, str(n), due_at=NOW + n, seq=n) for n in range(5)], now=NOW)
        found, more = await self.page(store, until=NOW + 2)
        assert ([row.name for row in found], more) == (["0", "1", "2"], False)
        assert await self.page(store, until=NOW - 1) == ([], False)

    async def test_pages_of_timers_at_one_instant_miss_none_and_repeat_none(self) -> None:
        store = await self.open_store()
        order = [timer(ObjectId("O", f"{n % 7}"), f"n{n}", seq=n, priority=-(n // 10)) for n in range(50)]
        await store.insert(order[::-1], now=NOW)
        seen: list[Timer] = []
        after: TimerKey | None = None
        more = True
        while more:
            found, more = await self.page(store, after=after, limit=7)
            assert found
            assert len(found) <= 7
            seen += found
            after = found[-1].sort_key
        assert seen == order

    async def test_a_full_page_with_nothing_behind_it_says_that_there_is_no_more(self) -> None:
        store = await self.open_store()
        await store.insert([timer(A, str(n), seq=n) for n in range(4)], now=NOW)
        assert [len(rows) for rows, _ in [await self.page(store, limit=4)]] == [4]
        assert (await self.page(store, limit=4))[1] is False
        assert (await self.page(store, limit=3))[1] is True
        assert await self.page(store, after=(NOW, 0, 3)) == ([], False)

    async def test_timers_are_of_the_shards_asked_for(self) -> None:
        store = await self.open_store()
        ids = [ObjectId("O", str(n)) for n in range(300)]
        await store.insert([timer(id, seq=n) for n, id in enumerate(ids)], now=NOW)
        for mine in ([], [shard_of(ids[0])], list(range(0, SHARDS, 2)), list(range(255)), list(ALL)):
            found, more = await self.page(store, mine, limit=400)
            assert ([row.id for row in found], more) == ([id for id in ids if shard_of(id) in mine], False)
        first, more = await self.page(store, list(range(0, SHARDS, 2)), limit=10)
        rest, _ = await self.page(store, list(range(0, SHARDS, 2)), after=first[-1].sort_key, limit=400)
        assert more
        assert [row.id for row in first + rest] == [id for id in ids if shard_of(id) % 2 == 0]

    async def test_an_insert_makes_missing_objects_and_leaves_known_ones_as_they_are(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(A, now=NOW, puts={(USER, "x"): b"1"}))
        await store.insert([timer(A), timer(B)], now=NOW + 5)
        assert await self.info(store, A) == Info(A, NOW, NOW, 1, 2)
        assert await self.info(store, B) == Info(B, NOW + 5, NOW + 5, 0, 0)
        assert (await store.load([B]))[0].alarm == timer(B)

    async def test_an_insert_replaces_the_timer_of_that_name_and_the_last_of_a_list_counts(self) -> None:
        store = await self.open_store()
        await store.insert([timer(seq=1, payload=b"1")], now=NOW)
        await store.insert([], now=NOW)
        await store.insert([timer(seq=2), timer(B, seq=4), timer(seq=3, due_at=NOW + 1)], now=NOW)
        assert await self.timer_rows(store) == [timer(seq=3, due_at=NOW + 1)]
        assert await store.count("timers") == 2

    async def test_an_insert_of_ten_thousand_timers(self) -> None:
        store = await self.open_store()
        timers = [timer(ObjectId("Job", f"{n % 5000}"), f"job:{n}", due_at=NOW + n, seq=n) for n in range(10_000)]
        await store.insert(timers, now=NOW)
        assert (await store.count("objects"), await store.count("timers")) == (5000, 10_000)
        found, more = await self.page(store, after=(NOW + 8999, 0, 8999), until=NOW + 20_000, limit=10)
        assert (found, more) == (timers[9000:9010], True)


class FindSuite(Harness):
    """What people look for."""

    async def filled(self) -> Store:
        store = await self.open_store()
        self.ids = [ObjectId(cls, key) for cls in ("B", "a", "b") for key in ("A", "a%", "ab", "ä", "🦫")]
        await self.done(
            store,
            *(
                self.turn(
                    id, sets=[timer(id, seq=n), timer(id, "job:x", seq=100 + n, due_at=NOW - n)], entries=[entry(id), entry(id, "job:x")],
                    parks=[parked(id), parked(id, "job:x")],
                )
                for n, id in enumerate(self.ids)
            ),
        )  # fmt: skip
        return store

    async def test_objects_come_by_class_then_key_in_byte_order(self) -> None:
        store = await self.filled()
        assert self.ids == sorted(self.ids, key=lambda id: (id.cls.encode(), id.key.encode()))
        assert [info.id for info in await store.find_objects(Query())] == self.ids

    async def test_every_find_filters_by_class_key_and_part_of_key(self) -> None:
        store = await self.filled()
        for query, wanted in (
            (Query(cls="a"), [id for id in self.ids if id.cls == "a"]),
            (Query(cls="none"), []),
            (Query(key="ab"), [id for id in self.ids if id.key == "ab"]),
            (Query(cls="b", key="🦫"), [ObjectId("b", "🦫")]),
            (Query(key_contains="a"), [id for id in self.ids if "a" in id.key]),
            (Query(key_contains="%"), [id for id in self.ids if "%" in id.key]),
            (Query(key_contains="_"), []),
            (Query(key_contains=""), self.ids),
            (Query(cls="a", key_contains="b"), [ObjectId("a", "ab")]),
            (Query(cls="a", key="ab", key_contains="x"), []),
        ):
            assert [info.id for info in await store.find_objects(query)] == wanted, query
            both = {(id, name) for id in wanted for name in (ALARM, "job:x")}
            assert {(row.id, row.name) for row in await store.find_timers(query)} == both, query
            assert {(row.id, row.name) for _, row in await store.find_entries(query)} == both, query
            assert {(row.timer.id, row.timer.name) for row in await store.find_parked(query)} == both, query

    async def test_timers_entries_and_parked_filter_by_name(self) -> None:
        store = await self.filled()
        for query in (
            Query(name="job:x"),
            Query(name="job:x", cls="a"),
            Query(name="job:x", cls="a", key="ab"),
            Query(name="job:"),
        ):
            wanted = {
                id
                for id in self.ids
                if query.name == "job:x" and query.cls in (None, id.cls) and query.key in (None, id.key)
            }
            assert {row.id for row in await store.find_timers(query)} == wanted
            assert {row.id for _, row in await store.find_entries(query)} == wanted
            assert {row.timer.id for row in await store.find_parked(query)} == wanted

    async def test_pages_of_every_find_miss_none_and_repeat_none(self) -> None:
        store = await self.filled()
        for cls in (None, "a"):
            objects = await self.pages(store.find_objects, cls, lambda row: tuple(row.id))
            assert objects == await store.find_objects(Query(cls=cls))
            timers = await self.pages(store.find_timers, cls, lambda row: row.sort_key)
            assert timers == await store.find_timers(Query(cls=cls))
            assert [row.sort_key for row in timers] == sorted(row.sort_key for row in timers)
            entries = await self.pages(store.find_entries, cls, lambda row: (row[0],))
            assert entries == await store.find_entries(Query(cls=cls))
            rows = await self.pages(store.find_parked, cls, lambda row: (row.number,))
            assert rows == await store.find_parked(Query(cls=cls))

    async def pages(self, find: Any, cls: str | None, cursor: Any) -> list[Any]:
        seen: list[Any] = []
        while found := await find(Query(cls=cls, limit=4, after=cursor(seen[-1]) if seen else None)):
            assert len(found) <= 4
            seen += found
        return seen

    async def test_entries_come_newest_first_as_they_were_written(self) -> None:
        store = await self.open_store()
        first = entry(A, verdict="failed", error="boom\nbang", attempt=4, missed=2)
        second = entry(A, verdict="coalesced", is_backfill=True)
        third = entry(B)
        await self.done(store, self.turn(A, entries=[first, second]))
        await self.done(store, self.turn(B, entries=[third]))
        found = await store.find_entries(Query())
        assert [row for _, row in found] == [third, second, first]
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers), reverse=True)

    async def test_entries_of_one_group_are_numbered_in_its_order(self) -> None:
        store = await self.open_store()
        order = [entry((A, B, C)[n % 3], f"n{n}") for n in range(40)]
        await self.done(store, *(self.turn(row.id, entries=[row]) for row in order))
        assert [row for _, row in await store.find_entries(Query())] == order[::-1]

    async def test_a_parked_timer_is_kept_whole_until_it_is_unparked(self) -> None:
        store = await self.open_store()
        await self.done(
            store, self.turn(A, parks=[parked(A), parked(A, "job:x", seq=2)]), self.turn(B, parks=[parked(B)])
        )
        found = await store.find_parked(Query())
        bare = [
            Parked(row.timer, row.run_id, row.parked_at, row.attempts, row.reason, row.error, row.traceback)
            for row in found
        ]
        assert bare == [parked(A), parked(A, "job:x", seq=2), parked(B)]
        numbers = [row.number for row in found]
        assert numbers == sorted(set(numbers))
        assert all(numbers)
        await self.done(store, self.turn(A, unparks=[numbers[0], 10**9]))
        assert await store.find_parked(Query()) == found[1:]

    async def test_the_number_of_an_unparked_timer_is_never_given_again(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(parks=[parked()]))
        [old] = await store.find_parked(Query())
        await self.done(store, self.turn(unparks=[old.number]))
        await self.done(store, self.turn(parks=[parked()]))
        [new] = await store.find_parked(Query())
        assert new.number > old.number

    async def test_counts_are_of_everything_or_of_a_class(self) -> None:
        store = await self.filled()
        assert [await store.count(what) for what in ("objects", "timers", "entries", "parked")] == [15, 30, 30, 30]
        assert [await store.count(what, cls="a") for what in ("objects", "timers", "entries", "parked")] == [
            5,
            10,
            10,
            10,
        ]
        assert await store.count("timers", cls="none") == 0

    async def test_known_classes_are_those_with_an_object(self) -> None:
        store = await self.open_store()
        assert await store.known_classes() == []
        await store.insert([timer(C), timer(A)], now=NOW)
        await self.done(store, self.turn(B), self.turn(ObjectId("Bare", "x"), starts=[Start(ALARM, 1, 1)]))
        assert await store.known_classes() == ["Order", "Tenant"]


class PruneSuite(Harness):
    """Upkeep."""

    async def prune(
        self, store: Store, *, now: int = NOW, entries_before: int = 0, crowded: Any = (), limit: int = 1000
    ) -> int:
        return await store.prune(now=now, entries_before=entries_before, crowded=crowded, limit=limit)

    async def test_expired_answers_go_and_others_stay(self) -> None:
        store = await self.open_store()
        answers = [Remembered(f"k{n}", b"f", b"a", NOW + n) for n in range(4)]
        await self.done(store, *(self.turn(remember=answer) for answer in answers))
        assert await self.prune(store, now=NOW + 1) == 2
        assert [await store.recall(A, f"k{n}", now=0) for n in range(4)] == [None, None, *answers[2:]]
        assert await self.prune(store, now=NOW + 1) == 0

    async def test_entries_finished_before_the_instant_go_and_others_stay(self) -> None:
        store = await self.open_store()
        rows = [entry(A, f"n{n}", finished_at=NOW + n % 3) for n in range(9)]
        await self.done(store, self.turn(entries=rows))
        assert await self.prune(store, entries_before=NOW + 1) == 3
        assert [row for _, row in await store.find_entries(Query())] == [
            row for row in rows[::-1] if row.finished_at > NOW
        ]

    async def test_of_crowded_names_the_newest_stay(self) -> None:
        store = await self.open_store()
        rows = [entry((A, B)[n % 2], ("x", "y")[n // 2 % 2], missed=n) for n in range(40)]
        await self.done(store, *(self.turn(row.id, entries=[row]) for row in rows))
        assert await self.prune(store, crowded=[(A, "x", 3), (B, "y", 0), (B, "x", 50), (C, "x", 1)]) == 7 + 10
        left = [row for _, row in await store.find_entries(Query())][::-1]
        gone_a = [row for row in rows if row.id == A and row.name == "x"][:7]
        assert left == [row for row in rows if row not in gone_a and (row.id, row.name) != (B, "y")]

    async def test_a_prune_stays_near_its_limit_and_gets_there_in_the_end(self) -> None:
        store = await self.open_store()
        answers = [self.turn(remember=Remembered(f"k{n}", b"f", b"a", NOW)) for n in range(20)]
        await self.done(store, *answers, self.turn(entries=[entry(finished_at=NOW) for _ in range(20)]))
        gone = []
        while count := await self.prune(store, entries_before=NOW + 1, limit=7):
            gone.append(count)
        assert sum(gone) == 40
        assert max(gone) <= 2 * 7

    async def test_a_prune_leaves_everything_else_alone(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"1"}, sets=[timer()], parks=[parked()]))
        assert await self.prune(store, now=NOW * 2, entries_before=NOW * 2) == 0
        assert await self.rows(store) == {"x": b"1"}
        assert (await store.count("timers"), await store.count("parked")) == (1, 1)


class StoreSuite(CommitSuite, FenceSuite, NodeSuite, ObjectSuite, TimerSuite, FindSuite, PruneSuite):
    """Everything that a store must do, one test a sentence."""
