"""Layer 5. Does a store keep what waits, in the order of firing?"""

from collections.abc import Sequence
from typing import Any

from wakeful.store.protocol import Obstacle, Query, Store
from wakeful.testing.suites.harness import ALL, NODE, NOW, A, B, C, Harness, timer
from wakeful.values.commits import USER, Info, Start
from wakeful.values.errors import BadInput
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import ALARM, Timer, TimerKey

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

    async def test_a_start_taken_back_leaves_its_crashes_and_no_note(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(sets=[timer(seq=2)]))
        await self.done(store, self.turn(starts=[Start(ALARM, 2, 1)]))
        await self.done(store, self.turn(starts=[Start(ALARM, 1, 9, is_running=False)]))
        [found] = await store.find_timers(Query())
        assert (found.started, found.crashes) == (self.epochs[shard_of(A)], 1)
        await self.done(store, self.turn(starts=[Start(ALARM, 2, 1, is_running=False)]))
        assert await store.find_timers(Query()) == [timer(seq=2, crashes=1)]
        both = self.turn(sets=[timer(seq=3)], starts=[Start(ALARM, 3, 0)])
        await self.done(store, both, self.turn(starts=[Start(ALARM, 3, 0, is_running=False)]))
        assert await store.find_timers(Query()) == [timer(seq=3)]

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

    async def test_an_insert_is_all_or_none_and_tells_by_what_the_names_are_taken(self) -> None:
        store = await self.open_store()
        first = timer(seq=1, payload=b"1")
        assert await store.insert([first], now=NOW) == []
        assert await store.insert([], now=NOW) == []
        taken = await store.insert([timer(B, seq=4), timer(seq=2, due_at=NOW + 1)], now=NOW)
        assert taken == [Obstacle(1, first)]
        assert await self.timer_rows(store) == [first]
        assert (await store.count("timers"), await store.count("objects")) == (1, 1)
        second = timer(B, seq=5)
        assert await store.insert([second], now=NOW) == []
        taken = await store.insert([timer(B, seq=6), timer(C), timer(seq=7)], now=NOW)
        assert taken == [Obstacle(0, second), Obstacle(2, first)]
        assert await store.count("timers") == 2

    async def test_two_timers_of_one_name_in_one_insert_are_refused(self) -> None:
        store = await self.open_store()
        try:
            await store.insert([timer(seq=2), timer(B, seq=4), timer(seq=3, due_at=NOW + 1)], now=NOW)
        except BadInput:
            pass
        else:
            raise AssertionError("two timers of one name were taken")
        assert (await store.count("timers"), await store.count("objects")) == (0, 0)

    async def test_an_insert_of_ten_thousand_timers(self) -> None:
        store = await self.open_store()
        timers = [timer(ObjectId("Job", f"{n % 5000}"), f"job:{n}", due_at=NOW + n, seq=n) for n in range(10_000)]
        await store.insert(timers, now=NOW)
        assert (await store.count("objects"), await store.count("timers")) == (5000, 10_000)
        found, more = await self.page(store, after=(NOW + 8999, 0, 8999), until=NOW + 20_000, limit=10)
        assert (found, more) == (timers[9000:9010], True)
