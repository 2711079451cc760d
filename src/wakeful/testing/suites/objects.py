"""Layer 5. Does a store give an object back as it was?"""

from typing import cast

from wakeful.store.protocol import WAKE_PAGES, WHOLE_BYTES_MAX, WHOLE_ROWS_MAX, LocalStore, Query, Range, Store
from wakeful.testing.suites.harness import NODE, NOW, A, B, C, Harness, entry, parked, timer
from wakeful.values.commits import (
    FIRST_PAGE,
    FORGET_TIMER,
    FORGOTTEN_SLOT,
    HISTORY,
    HISTORY_SLOT,
    MIGRATIONS_SLOT,
    PAGES,
    STATE_SLOT,
    SYSTEM,
    USER,
    Info,
    Loaded,
    Remembered,
    page_slot,
)
from wakeful.values.errors import Fenced
from wakeful.values.ids import ObjectId, shard_of


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

    async def test_how_many_migrations_an_object_has_had_comes_with_it_however_large_it_is(self) -> None:
        store = await self.open_store()
        rows = {STATE_SLOT: b"s", MIGRATIONS_SLOT: b"n"}
        await self.done(store, self.turn(puts={**rows, (USER, "migrations"): b"mine", (USER, "k"): b"v"}))
        assert (await store.load([A]))[0].rows.keys() >= rows.keys()
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * WHOLE_BYTES_MAX}))
        [loaded] = await store.load([A])
        assert (loaded.complete, loaded.rows) == (False, rows)

    async def test_an_object_of_many_bytes_is_not_loaded_whole(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * (WHOLE_BYTES_MAX - 1)}))
        assert (await store.load([A]))[0].complete
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * WHOLE_BYTES_MAX}))
        [loaded] = await store.load([A])
        assert (loaded.complete, loaded.rows) == (False, {})

    async def test_a_large_object_brings_its_state_and_the_first_pages_of_its_database(self) -> None:
        store = await self.open_store()
        pages = {page_slot(number): bytes([number % 256]) * 300 for number in range(1, WAKE_PAGES + 3)}
        own = {(SYSTEM, "state"): b"s", MIGRATIONS_SLOT: b"m", HISTORY_SLOT: b"h"}
        beside = {(USER, "x"): b"1", (HISTORY, "0"): b"image"}
        await self.done(store, self.turn(puts={**pages, **own, **beside}), self.turn(B))
        a, b = await store.load([A, B])
        brought = dict(list(pages.items())[:WAKE_PAGES])
        assert (a.complete, a.rows) == (False, {**brought, **own})
        assert (b.complete, b.rows) == (True, {})
        assert await store.scan(A, PAGES, Range(first=page_slot(WAKE_PAGES + 1)[1])) == [
            (key, value) for (_, key), value in list(pages.items())[WAKE_PAGES:]
        ]

    async def test_a_local_store_reads_without_waiting(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={FIRST_PAGE: b"12", (USER, "x"): b"1"}))
        if store.local:
            assert cast("LocalStore", store).read_now(A, PAGES, [FIRST_PAGE[1], "x"]) == {FIRST_PAGE[1]: b"12"}

    async def test_pages_are_counted_outlive_a_wipe_and_go_one_by_one(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={FIRST_PAGE: b"12", page_slot(2): b"34", (USER, "x"): b"1"}))
        await self.done(store, self.turn(wipe=True, deletes=[page_slot(2)]))
        [loaded] = await store.load([A])
        assert (loaded.info, loaded.rows) == (Info(A, NOW, NOW, 1, 10), {FIRST_PAGE: b"12"})

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


class EraseSuite(Harness):
    """An object that is forgotten."""

    async def fill(self, store: Store, id: ObjectId, *, is_marked: bool) -> None:
        """Something of everything, and twenty rows."""
        rows = {(USER, f"{n:02}"): b"v" for n in range(17)} | {(SYSTEM, "state"): b"s", FIRST_PAGE: b"p"}
        mark = {FORGOTTEN_SLOT: b"m"} if is_marked else {}
        turn = self.turn(
            id,
            puts=rows | mark,
            sets=[timer(id, FORGET_TIMER)] if is_marked else [timer(id)],
            entries=[entry(id), entry(id, "other")],
            parks=[parked(id)],
            remember=Remembered("r", b"f", b"a", NOW + 1),
            records=[Remembered("job", b"f", b"a", NOW - 1)],
        )
        await self.done(store, turn)

    async def erase(self, store: Store, id: ObjectId = A, *, limit: int = 1_000) -> bool:
        return await store.erase(NODE, id, self.epochs[shard_of(id)], now=NOW + 5, limit=limit)

    async def left_of(self, store: Store, id: ObjectId) -> int:
        """How much there is of it."""
        query = Query(cls=id.cls, key=id.key)
        rows = sum([len(await self.rows(store, id, space)) for space in (USER, SYSTEM, PAGES)])
        rows += len(await store.find_objects(query)) + len(await store.find_timers(query))
        rows += len(await store.find_entries(query)) + len(await store.find_parked(query))
        return rows + len(await store.find_answers(query, now=0))

    async def test_nothing_of_a_marked_object_is_left_and_others_stay_as_they_are(self) -> None:
        store = await self.open_store()
        await self.fill(store, A, is_marked=True)
        await self.fill(store, B, is_marked=False)
        before = await self.left_of(store, B)
        assert await self.erase(store) is True
        assert (await self.left_of(store, A), await self.left_of(store, B)) == (0, before)
        assert await self.info(store) is None

    async def test_one_that_is_not_marked_stays_whoever_asks_again_and_however_late(self) -> None:
        store = await self.open_store()
        await self.fill(store, A, is_marked=True)
        assert (await self.erase(store), await self.erase(store)) == (True, True)
        await self.fill(store, A, is_marked=False)
        before = await self.left_of(store, A)
        assert await self.erase(store) is True
        assert await self.left_of(store, A) == before

    async def test_it_goes_in_pieces_and_the_name_and_the_mark_are_the_last(self) -> None:
        store = await self.open_store()
        await self.fill(store, A, is_marked=True)
        before = await self.left_of(store, A)
        while not await self.erase(store, limit=4):
            left = await self.left_of(store, A)
            assert before - 16 <= left < before
            assert FORGOTTEN_SLOT[1] in await self.rows(store, space=SYSTEM)
            assert await self.info(store) is not None
            before = left
        assert await self.left_of(store, A) == 0

    async def test_a_large_one_loads_with_its_mark(self) -> None:
        store = await self.open_store()
        await self.fill(store, A, is_marked=True)
        [loaded] = await store.load([A])
        assert (loaded.complete, loaded.rows[FORGOTTEN_SLOT]) == (False, b"m")

    async def test_what_was_sent_to_it_since_stays_and_it_begins_there(self) -> None:
        store = await self.open_store()
        await self.fill(store, A, is_marked=True)
        await store.insert([timer(A, "job:1")], now=NOW + 1)
        assert await self.erase(store) is True
        assert await self.timer_rows(store) == [timer(A, "job:1")]
        assert await self.info(store) == Info(A, NOW + 5, NOW + 5, 0, 0)

    async def test_an_earlier_owner_erases_nothing(self) -> None:
        store = await self.open_store()
        await self.fill(store, A, is_marked=True)
        before = await self.left_of(store, A)
        await store.claim("other", [shard_of(A)], now=NOW)
        refused = None
        try:
            await self.erase(store)
        except Fenced as fenced:
            refused = fenced.shard
        assert (refused, await self.left_of(store, A)) == (shard_of(A), before)
