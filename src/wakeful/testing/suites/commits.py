"""Layer 5. Does a store write what a commit says, in the order it says?"""

from wakeful.testing.suites.harness import NODE, A, B, Harness, entry, timer
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.ids import ObjectId


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
