"""Layer 5. Does a store show people what is there, and drop what is past keeping?"""

from typing import Any

from msgspec.structs import replace

from wakeful.store.protocol import REWALK_MS, Query, Store
from wakeful.testing.suites.harness import NOW, A, B, C, Harness, entry, parked, timer
from wakeful.values.commits import SYSTEM, USER, Remembered, Start
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Parked

# Where a range on text can go wrong: wildcards of SQL, case, the ends of what UTF-8 writes in one to four
# bytes, the code points around the surrogates, and the very last one, after which there is no next.
ODD = [
    "A", "a", "a%", "a%b", "a_", "ab", "a\x7f", "a\x80", "a\u07ff", "a\u0800", "a\ud7ff", "a\ud7ffb", "a\ue000",
    "a\uffff", "a\U00010000", "a\U0010ffff", "a\U0010ffffb", "a\U0010ffff\U0010ffff", "b", "é", "\U0010ffff",
    "\U0010ffffa",
]  # fmt: skip


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
        assert self.ids == sorted(self.ids, key=lambda it: (it.cls.encode(), it.key.encode()))
        assert [info.id for info in await store.find_objects(Query())] == self.ids

    async def test_every_find_filters_by_class_key_and_part_of_key(self) -> None:
        store = await self.filled()
        for query, wanted in (
            (Query(cls="a"), [id for id in self.ids if id.cls == "a"]),
            (Query(cls="none"), []),
            (Query(key="ab"), [id for id in self.ids if id.key == "ab"]),
            (Query(cls="b", key="🦫"), [ObjectId("b", "🦫")]),
            (Query(key_contains="a"), [id for id in self.ids if "a" in id.key.lower()]),
            (Query(key_contains="A"), [id for id in self.ids if "a" in id.key.lower()]),
            (Query(key_contains="É"), []),
            (Query(key_contains="é"), [id for id in self.ids if "é" in id.key]),
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

    async def test_every_find_filters_by_what_a_key_begins_with_whatever_the_text(self) -> None:
        store = await self.open_store()
        ids = [ObjectId(cls, key) for cls in ("a", "b") for key in ODD]
        await self.done(
            store, *(self.turn(id, sets=[timer(id)], entries=[entry(id)], parks=[parked(id)]) for id in ids)
        )
        for prefix in ["", "zz", "a\0", "\0", "abc", *ODD]:
            for base in (Query(), Query(cls="b"), Query(cls="none"), Query(key="ab"), Query(cls="a", key="ab")):
                query = replace(base, key_prefix=prefix)
                wanted = [
                    id
                    for id in ids
                    if id.key.startswith(prefix) and query.cls in (None, id.cls) and query.key in (None, id.key)
                ]
                assert [info.id for info in await store.find_objects(query)] == wanted, query
                assert sorted(row.id for row in await store.find_timers(query)) == wanted, query
                assert [row.id for _, row in await store.find_entries(query)] == wanted[::-1], query
                assert [row.timer.id for row in await store.find_parked(query)] == wanted, query

    async def test_timers_entries_and_parked_filter_by_what_a_name_begins_with(self) -> None:
        store = await self.open_store()
        for id in (A, B):
            await self.done(
                store,
                self.turn(
                    id, sets=[timer(id, name, seq=n) for n, name in enumerate(ODD)], entries=[entry(id, name) for name in ODD],
                    parks=[parked(id, name) for name in ODD],
                ),
            )  # fmt: skip
        for prefix in ["", "zz", "a\0", "abc", *ODD]:
            for base in (
                Query(),
                Query(cls=A.cls),
                Query(key="a"),
                Query(cls=A.cls, key="b"),
                Query(name="a%", key_prefix="b"),
            ):
                query = replace(base, name_prefix=prefix)
                names = [name for name in ODD if name.startswith(prefix) and query.name in (None, name)]
                wanted = {
                    (id, name) for id in (A, B) for name in names if id.key in (query.key or query.key_prefix or id.key)
                }
                assert {(row.id, row.name) for row in await store.find_timers(query)} == wanted, query
                assert {(row.id, row.name) for _, row in await store.find_entries(query)} == wanted, query
                assert {(row.timer.id, row.timer.name) for row in await store.find_parked(query)} == wanted, query
        found = await store.find_objects(Query(name_prefix="none"))
        assert [info.id for info in found] == [A, B], "objects have no name to filter by"

    async def test_pages_of_every_find_miss_none_and_repeat_none(self) -> None:
        store = await self.filled()
        for query in (
            Query(),
            Query(cls="a"),
            Query(key_prefix="a"),
            Query(cls="a", key_prefix="a"),
            Query(name_prefix="job:"),
            Query(key="ab"),
            Query(cls="b", key_prefix="a", name_prefix="a"),
        ):
            objects = await self.pages(store.find_objects, query, lambda row: tuple(row.id))
            assert objects == await store.find_objects(query)
            timers = await self.pages(store.find_timers, query, lambda row: row.sort_key)
            assert timers == await store.find_timers(query)
            assert [row.sort_key for row in timers] == sorted(row.sort_key for row in timers)
            entries = await self.pages(store.find_entries, query, lambda row: (row[0],))
            assert entries == await store.find_entries(query)
            rows = await self.pages(store.find_parked, query, lambda row: (row.number,))
            assert rows == await store.find_parked(query)
            assert objects
            assert timers
            assert entries
            assert rows

    async def test_rows_are_counted_by_class_and_beginning_of_the_key(self) -> None:
        store = await self.open_store()
        for key in ("a", "ab/1", "ab/2", "ab0", "é/1"):
            await self.done(store, *(self.turn(ObjectId(cls, key), puts={(0, "k"): b"v"}) for cls in ("A", "B")))
        for prefix, count in ((None, 5), ("", 5), ("a", 4), ("ab/", 2), ("é", 1), ("b", 0), ("ab/\0", 0)):
            assert await store.count("objects", cls="A", key_prefix=prefix) == count
            assert await store.count("objects", key_prefix=prefix) == 2 * count
            assert await store.count("timers", cls="A", key_prefix=prefix) == 0

    async def pages(self, find: Any, query: Query, cursor: Any) -> list[Any]:
        seen: list[Any] = []
        while found := await find(replace(query, limit=4, after=cursor(seen[-1]) if seen else None)):
            assert len(found) <= 4
            seen += found
            assert len(seen) < 100, "the pages never end"
        return seen

    async def test_answers_come_by_object_then_request_key_and_only_unexpired_ones(self) -> None:
        store = await self.open_store()
        ids = [ObjectId(cls, key) for cls in ("a", "b") for key in ("ab", "b", "é")]
        kept = {
            (id, key): Remembered(key, b"f", key.encode(), NOW + (0 if key == "old" else 9))
            for id in ids
            for key in [*ODD, "old"]
        }
        await self.done(store, *(self.turn(id, remember=answer) for (id, _), answer in kept.items()))
        order = sorted(((id, key) for id, key in kept if key != "old"), key=lambda slot: (*slot[0], slot[1]))
        every = await store.find_answers(Query(limit=1000), now=NOW)
        assert every == [(id, kept[id, key]) for id, key in order]
        assert len(await store.find_answers(Query(limit=1000), now=NOW - 1)) == len(kept)
        for query in (
            Query(), Query(cls="b"), Query(key="ab"), Query(cls="a", key="é"), Query(key_prefix="a"),
            Query(key_contains="B"), Query(name="a%"), Query(name_prefix="a"), Query(cls="a", name_prefix="ab"),
            Query(cls="none"), Query(name_prefix="zz"), Query(key_prefix=""), Query(name_prefix=""),
        ):  # fmt: skip
            wanted = [
                (id, key)
                for id, key in order
                if query.cls in (None, id.cls)
                and query.key in (None, id.key)
                and id.key.startswith(query.key_prefix or "")
                and (query.key_contains or "").lower() in id.key.lower()
                and query.name in (None, key)
                and key.startswith(query.name_prefix or "")
            ]
            for limit in (1, 3, 1000):
                answers: list[tuple[ObjectId, str]] = []
                after: tuple[object, ...] | None = None
                while page := await store.find_answers(replace(query, limit=limit, after=after), now=NOW):
                    assert len(page) <= limit
                    answers += [(id, answer.key) for id, answer in page]
                    after = (*page[-1][0], page[-1][1].key)
                assert answers == wanted, (query, limit)

    async def test_entries_come_newest_first_as_they_were_written(self) -> None:
        store = await self.open_store()
        first = entry(A, verdict="failed", error="boom\nbang", attempt=4, missed=2)
        second = entry(A, verdict="coalesced", is_backfill=True, covers=10_000, first_at=NOW - 86_400_000)
        third = entry(B)
        assert (third.covers, third.first_at) == (1, 0)
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
        rows = await store.find_parked(Query())
        bare = [
            Parked(row.timer, row.run_id, row.parked_at, row.attempts, row.reason, row.error, row.traceback)
            for row in rows
        ]
        assert bare == [parked(A), parked(A, "job:x", seq=2), parked(B)]
        numbers = [row.number for row in rows]
        assert numbers == sorted(set(numbers))
        assert all(numbers)
        await self.done(store, self.turn(A, unparks=[numbers[0], 10**9]))
        assert await store.find_parked(Query()) == rows[1:]

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

    async def test_old_entries_go_from_behind_those_of_a_clock_that_was_ahead(self) -> None:
        store = await self.open_store()
        young = [entry(finished_at=NOW * 2) for _ in range(2_500)]
        await self.done(store, self.turn(entries=young), self.turn(entries=[entry(finished_at=NOW) for _ in range(40)]))
        await self.done(store, self.turn(entries=[*young, entry(finished_at=NOW)]))
        gone = [await self.prune(store, entries_before=NOW + 1, limit=20) for _ in range(10)]
        assert (sum(gone), max(gone), await store.count("entries")) == (41, 20, 5_000)
        await self.done(store, self.turn(entries=[entry(finished_at=NOW)]))
        assert sum([await self.prune(store, entries_before=NOW + 1, limit=20) for _ in range(10)]) == 1

    async def verdicts(self, store: Store) -> list[tuple[str, str]]:
        return [(row.name, row.run_id) for _, row in await store.find_entries(Query())][::-1]

    async def test_the_newest_verdict_of_a_name_that_lasts_stays_however_old(self) -> None:
        store = await self.open_store()
        names = ["schedule:kept", "schedule:gone", "alarm", "job:m:t", "waits", "job:=waits"]
        rows = [entry(A, name, run_id=f"r{n}") for n in range(2) for name in names]
        rows += [entry(B, "alarm", run_id="b1"), entry(C, "alarm", run_id="c1")]
        waits = [timer(A, "waits"), timer(A, "job:=waits")]
        await self.done(store, self.turn(A, puts={(SYSTEM, "schedule:kept"): b"", (USER, "schedule:gone"): b""}))
        await self.done(store, self.turn(A, sets=waits), self.turn(B), self.turn(C, puts={(USER, "x"): b"1"}))
        await self.done(store, *(self.turn(row.id, entries=[row]) for row in rows))
        assert await self.prune(store, entries_before=NOW * 2) == 10
        left = [("schedule:kept", "r1"), ("alarm", "r1"), ("waits", "r1"), ("alarm", "c1")]
        assert await self.verdicts(store) == left
        assert await self.prune(store, entries_before=NOW * 2) == 0

    async def test_with_the_newest_verdict_stay_its_attempts_and_while_another_is_tried_the_one_before(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(A, puts={(SYSTEM, "s"): b""}))

        async def wrote(run_id: str, verdict: Any, attempt: int) -> list[str]:
            row = entry(A, "s", run_id=run_id, verdict=verdict, attempt=attempt)
            await self.done(store, self.turn(A, entries=[row]))
            self.day = self.__dict__.get("day", 0) + 1
            await self.prune(store, now=NOW + self.day * REWALK_MS, entries_before=NOW * 2)
            return [run_id for _, run_id in await self.verdicts(store)]

        assert await wrote("a", "run", 0) == ["a"]
        assert await wrote("b", "failed", 0) == ["a", "b"]
        assert await wrote("b", "failed", 1) == ["a", "b", "b"]
        assert await wrote("b", "run", 2) == ["b", "b", "b"]
        assert await wrote("c", "failed", 0) == ["b", "b", "b", "c"]
        assert await wrote("d", "failed", 0) == ["c", "d"]
        assert await wrote("d", "failed", 1) == ["c", "d", "d"]
        assert await wrote("e", "overlap", 0) == ["e"]

    async def test_what_stays_does_not_keep_what_is_behind_it_from_going(self) -> None:
        store = await self.open_store()
        names = [f"schedule:{n}" for n in range(3_000)]
        await self.done(store, self.turn(A, puts={(SYSTEM, name): b"" for name in names}))
        await self.done(store, self.turn(A, entries=[entry(A, name) for name in names]))
        await self.done(store, self.turn(A, entries=[entry(B, "job:m:t") for _ in range(40)]))
        await self.done(store, self.turn(A, entries=[entry(B, "job:m:t", finished_at=NOW * 3)]))
        gone = [await self.prune(store, entries_before=NOW * 2, limit=20) for _ in range(4)]
        assert (sum(gone), max(gone), await store.count("entries")) == (40, 20, 3_001)

    async def test_what_stayed_goes_when_another_verdict_came_or_nothing_has_its_name_any_more(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(A, puts={(SYSTEM, "s"): b"", (SYSTEM, "t"): b""}))
        await self.done(store, self.turn(A, entries=[entry(A, "s", run_id="1"), entry(A, "t", run_id="1")]))
        assert await self.prune(store, entries_before=NOW * 2) == 0
        new = entry(A, "s", run_id="2", finished_at=NOW * 3)
        await self.done(store, self.turn(A, deletes=[(SYSTEM, "t")], entries=[new]))
        await self.prune(store, entries_before=NOW * 2)
        await self.prune(store, now=NOW + REWALK_MS, entries_before=NOW * 2)
        assert await self.verdicts(store) == [("s", "2")]

    async def test_a_prune_leaves_everything_else_alone(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "x"): b"1"}, sets=[timer()], parks=[parked()]))
        assert await self.prune(store, now=NOW * 2, entries_before=NOW * 2) == 0
        assert await self.rows(store) == {"x": b"1"}
        assert (await store.count("timers"), await store.count("parked")) == (1, 1)
