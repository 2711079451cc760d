"""Layer 5. Does a store write what a commit says, in the order it says, and what it sends to others with it?"""

from typing import Any

from wakeful.store.protocol import Query
from wakeful.testing.suites.harness import NODE, NOW, A, B, C, Harness, entry, timer
from wakeful.values.commits import SYSTEM, USER, Info, Start
from wakeful.values.errors import Fenced
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer


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


# Do timers for other objects arrive with the commit that sends them, and only with it?

JOB = "job:=k"


class SendSuite(Harness):
    """Timers that a turn sends, to others and to itself."""

    async def test_sends_arrive_with_the_commit_and_make_missing_objects(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(C, now=NOW - 5))
        sends = [timer(B, JOB, seq=7, priority=3, payload=b"\0p"), timer(C, JOB), timer(A, JOB, seq=8)]
        await self.done(store, self.turn(A, now=NOW + 1, puts={(USER, "x"): b"1"}, sends=sends))
        assert await store.find_timers(Query(name=JOB)) == [sends[0], sends[1], sends[2]]
        assert await self.info(store, A) == Info(A, NOW + 1, NOW + 1, 1, 2)
        assert await self.info(store, B) == Info(B, NOW + 1, NOW + 1, 0, 0)
        assert await self.info(store, C) == Info(C, NOW - 5, NOW - 5, 0, 0)
        page, _ = await store.timers([shard_of(B)], after=None, until=NOW, limit=10)
        assert sends[0] in page

    async def test_a_send_leaves_a_timer_that_has_the_name_as_it_is(self) -> None:
        store = await self.open_store()
        there = timer(B, JOB, seq=1, due_at=NOW + 9, payload=b"first")
        await self.done(store, self.turn(B, sets=[there]))
        await self.done(store, self.turn(A, now=NOW + 3, sends=[timer(B, JOB, seq=2), timer(B, "job:=l", seq=3)]))
        assert await store.find_timers(Query(key="b")) == [timer(B, "job:=l", seq=3), there]
        assert await self.info(store, B) == Info(B, NOW, NOW, 0, 0)

    async def test_a_fenced_commit_sends_nothing_and_the_others_do(self) -> None:
        store = await self.open_store()
        outcomes = await store.commit(
            NODE,
            [
                self.turn(A, epoch=99, sends=[timer(C, JOB, seq=1), timer(C, "job:=a")]),
                self.turn(B, now=NOW + 1, sends=[timer(C, JOB, seq=2)]),
            ],
        )
        assert isinstance(outcomes[0], Fenced)
        assert outcomes[1] is None
        assert await store.find_timers(Query()) == [timer(C, JOB, seq=2)]
        assert await self.info(store, A) is None
        assert await self.info(store, C) == Info(C, NOW + 1, NOW + 1, 0, 0)

    async def test_a_send_needs_no_ownership_of_where_it_goes(self) -> None:
        store = await self.open_store()
        await store.claim("node-b", [shard_of(B)], now=NOW)
        await self.done(store, self.turn(A, sends=[timer(B, JOB)]))
        assert await store.find_timers(Query(key="b")) == [timer(B, JOB)]

    async def test_of_two_sends_of_one_name_in_a_group_the_first_counts(self) -> None:
        store = await self.open_store()
        both = [timer(C, JOB, seq=1), timer(C, JOB, seq=2)]
        await self.done(store, self.turn(A, sends=both), self.turn(B, now=NOW + 1, sends=[timer(C, JOB, seq=3)]))
        assert await store.find_timers(Query(key="c")) == [both[0]]
        assert await self.info(store, C) == Info(C, NOW, NOW, 0, 0)

    async def test_a_commit_that_clears_or_sets_a_name_and_sends_it(self) -> None:
        """What is applied first is the clear, then the set, then the send."""
        old, new = timer(A, JOB, seq=1), timer(A, JOB, seq=2, due_at=NOW + 1)
        sets = timer(A, JOB, seq=3)
        cases: list[tuple[dict[str, Any], Timer | None]] = [
            ({"clears": [(JOB, 1)]}, new),
            ({"clears": [(JOB, 0)]}, new),
            ({"clears": [(JOB, 9)]}, old),
            ({"clears": [(JOB, 9), (JOB, 1)]}, new),
            ({"clears": [("other", 1)]}, old),
            ({"sets": [sets]}, sets),
            ({"clears": [(JOB, 1)], "sets": [sets]}, sets),
            ({"starts": [Start(JOB, 1, 1)]}, None),
        ]
        for n, (what, left) in enumerate(cases):
            store = await self.open_store()
            await self.done(store, self.turn(A, sets=[old]))
            await self.done(store, self.turn(A, now=NOW + 1, sends=[new], **what))
            started = timer(A, JOB, seq=1, crashes=1, started=self.epochs[shard_of(A)])
            assert await store.find_timers(Query()) == [left or started], n
            fresh = await self.open_store()
            await self.done(fresh, self.turn(A, sends=[new], **what))
            assert await fresh.find_timers(Query()) == [sets if "sets" in what else new], n

    async def test_sends_and_changes_of_one_timer_in_a_group_count_in_their_order(self) -> None:
        old, new = timer(B, JOB, seq=1), timer(B, JOB, seq=2, due_at=NOW + 1)
        late = timer(B, JOB, seq=3)
        send: list[tuple[str, dict[str, Any]]] = [("a", {"sends": [new]})]
        cases: list[tuple[list[tuple[str, dict[str, Any]]], list[Timer], list[Timer]]] = [
            ([*send, ("b", {"clears": [(JOB, 1)]})], [], [new]),
            ([*send, ("b", {"clears": [(JOB, 2)]})], [old], []),
            ([*send, ("b", {"clears": [(JOB, 0)]})], [], []),
            ([("b", {"clears": [(JOB, 1)]}), *send], [new], [new]),
            ([("b", {"clears": [(JOB, 9)]}), *send], [old], [new]),
            ([*send, ("b", {"sets": [late]})], [late], [late]),
            ([("b", {"sets": [late]}), *send], [late], [late]),
            ([("b", {"sets": [late]}), *send, ("b", {"clears": [(JOB, 3)]})], [], []),
            ([("b", {"sets": [late]}), ("b", {"clears": [(JOB, 3)]}), *send], [new], [new]),
            ([("b", {"clears": [(JOB, 1)]}), *send, ("b", {"clears": [(JOB, 2)]})], [], []),
            ([*send, ("b", {"puts": {(USER, "x"): b"1"}}), ("b", {"clears": [(JOB, 1)]}), *send], [new], [new]),
        ]
        for n, (steps, with_old, without) in enumerate(cases):
            for first, left in ((old, with_old), (None, without)):
                await self.close_stores()  # a server has no room for all of them at once
                store = await self.open_store()
                if first is not None:
                    await self.done(store, self.turn(B, sets=[first]))
                turns = [self.turn(A if who == "a" else B, **what) for who, what in steps]
                await self.done(store, *turns)
                assert await store.find_timers(Query()) == left, (n, first)

    async def test_an_object_is_as_old_as_what_came_first_in_the_group_its_write_or_a_send_to_it(self) -> None:
        store = await self.open_store()
        await self.done(
            store,
            self.turn(A, now=NOW, sends=[timer(B, JOB)]),
            self.turn(B, now=NOW + 1, puts={(USER, "x"): b"1"}),
            self.turn(B, now=NOW + 2, puts={(USER, "y"): b"1"}),
            self.turn(A, now=NOW + 3, sends=[timer(B, "job:=l"), timer(C, JOB)]),
            self.turn(C, now=NOW + 4, puts={(USER, "x"): b"1"}, deletes=[(USER, "y")]),
        )
        assert await self.info(store, A) == Info(A, NOW, NOW + 3, 0, 0)
        assert await self.info(store, B) == Info(B, NOW, NOW + 2, 2, 4)
        assert await self.info(store, C) == Info(C, NOW + 3, NOW + 4, 1, 2)

    async def test_sends_to_an_object_that_only_notes_a_start_in_the_same_group(self) -> None:
        store = await self.open_store()
        start = self.turn(B, now=NOW + 1, starts=[Start("x", 1, 0)])
        await self.done(store, start, self.turn(A, now=NOW + 2, sends=[timer(B, JOB)]))
        assert await self.info(store, B) == Info(B, NOW + 2, NOW + 2, 0, 0)

    async def test_two_thousand_sends_in_one_group(self) -> None:
        store = await self.open_store()
        ids = [ObjectId("Worker", f"w{n % 700}") for n in range(2000)]
        sends = [timer(id, f"job:{n}", seq=n, due_at=NOW + n) for n, id in enumerate(ids)]
        await self.done(store, *(self.turn(A, sends=sends[n : n + 100]) for n in range(0, 2000, 100)))
        assert (await store.count("objects"), await store.count("timers")) == (701, 2000)
        assert await store.find_timers(Query(limit=3000)) == sends
