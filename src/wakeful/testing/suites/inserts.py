"""Layer 5. What must hold of inserts that are sent again, and of those that are guarded?"""

import asyncio

from msgspec.structs import replace

from wakeful.store.protocol import Guard, Obstacle, Receipt
from wakeful.testing.suites.harness import NODE, NOW, A, B, C, Harness, parked, timer
from wakeful.values.commits import Remembered
from wakeful.values.ids import ObjectId

FOREVER = NOW + 10**9
GUARD = Guard("record:k", "ask:k:")
RECORD = Remembered("record:k", b"f", b"answer", NOW + 1_000)


class InsertSuite(Harness):
    """Receipts and guards."""

    async def test_an_insert_with_a_receipt_is_taken_once_whatever_became_of_its_timers(self) -> None:
        store = await self.open_store()
        receipt = Receipt("lane", 1, FOREVER)
        sent = [timer(A, "job:1"), timer(B, "job:2")]
        assert await store.insert(sent, now=NOW, receipt=receipt) == []
        await self.done(store, self.turn(A, clears=[("job:1", 1)]), self.turn(B, clears=[("job:2", 1)]))
        assert await store.insert(sent, now=NOW, receipt=receipt) == []  # its answer was lost, so it comes again
        assert await store.count("timers") == 0

    async def test_a_first_try_that_comes_after_the_next_insert_is_not_taken(self) -> None:
        store = await self.open_store()
        assert await store.insert([timer(A, "job:2")], now=NOW, receipt=Receipt("lane", 2, FOREVER)) == []
        assert await store.insert([timer(A, "job:1")], now=NOW, receipt=Receipt("lane", 1, FOREVER)) == []
        assert await store.insert([timer(B, "job:1")], now=NOW, receipt=Receipt("other", 1, FOREVER)) == []
        assert [one.name for one in await self.timer_rows(store, A)] == ["job:2"]
        assert [one.name for one in await self.timer_rows(store, B)] == ["job:1"]

    async def test_an_insert_that_met_something_leaves_no_receipt(self) -> None:
        store = await self.open_store()
        receipt = Receipt("lane", 1, FOREVER)
        there = timer(A, "job:=k", seq=7)
        await store.insert([there], now=NOW)
        sent = [timer(B, "job:1"), timer(A, "job:=k", seq=8)]
        for guards in ({}, {1: GUARD}):
            assert await store.insert(sent, now=NOW, receipt=receipt, guards=guards) == [Obstacle(1, there)]
        assert (await store.count("timers"), await store.count("objects")) == (1, 1)
        await self.done(store, self.turn(A, clears=[("job:=k", 7)]))
        assert await store.insert(sent, now=NOW, receipt=receipt, guards={1: GUARD}) == []
        assert await store.count("timers") == 2

    async def test_two_tries_of_one_insert_at_once_are_one(self) -> None:
        store = await self.open_store()
        for n in range(20):
            receipt, sent = Receipt("lane", n + 1, FOREVER), [timer(A, f"job:{n}", seq=n), timer(B, f"job:{n}", seq=n)]
            tries = [store.insert(sent, now=NOW, receipt=receipt) for _ in range(3)]
            assert await asyncio.gather(*tries) == [[], [], []]
        assert await store.count("timers") == 40

    async def test_many_thousand_with_a_receipt_are_taken_once(self) -> None:
        store = await self.open_store()
        sent = [timer(ObjectId("Job", str(n)), "job:=k", seq=n) for n in range(6_000)]
        receipt, guards = Receipt("lane", 1, FOREVER), dict.fromkeys(range(6_000), GUARD)
        assert await store.insert(sent, now=NOW, receipt=receipt, guards=guards) == []
        clears = [self.turn(one.id, clears=[(one.name, one.seq)], records=[RECORD]) for one in sent[:3]]
        await self.done(store, *clears)
        assert await store.insert(sent, now=NOW, receipt=receipt, guards=guards) == []
        assert await store.count("timers") == 5_997
        met = await store.insert(sent, now=NOW, receipt=Receipt("lane", 2, FOREVER), guards=guards)
        assert [one.index for one in met] == list(range(6_000))
        assert met[:4] == [*(Obstacle(n, answer=RECORD) for n in range(3)), Obstacle(3, sent[3])]
        fresh = [
            timer(ObjectId("Job", "new"), "job:=k"),
            *sent[:3],
            *(timer(ObjectId("Elsewhere", one.id.key), "job:1") for one in sent),
        ]
        met = await store.insert(
            fresh, now=NOW, receipt=Receipt("lane", 3, FOREVER), guards=dict.fromkeys(range(4), GUARD)
        )
        assert met == [Obstacle(n, answer=RECORD) for n in (1, 2, 3)]
        assert await store.count("timers") == 5_997

    async def test_receipts_are_forgotten_when_they_expire_or_are_told_to(self) -> None:
        store = await self.open_store()
        for id in ("a", "b"):
            await store.insert(
                [timer(A, f"job:{id}")], now=NOW, receipt=Receipt(id, 1, NOW + 10 if id == "a" else FOREVER)
            )
        await self.done(store, self.turn(A, clears=[("job:a", 1), ("job:b", 1)]))
        await store.prune(now=NOW + 9, entries_before=0, crowded=[], limit=100)
        await store.insert([timer(A, "job:a")], now=NOW, receipt=Receipt("a", 1, FOREVER))
        assert await store.count("timers") == 0
        await store.prune(now=NOW + 10, entries_before=0, crowded=[], limit=100)
        await store.insert([timer(A, "job:a")], now=NOW, receipt=Receipt("a", 1, FOREVER))
        await store.insert([timer(A, "job:b")], now=NOW, receipt=Receipt("b", 1, FOREVER))
        assert [one.name for one in await self.timer_rows(store)] == ["job:a"]
        await store.forget(["b", "unknown"], at=NOW + 50)
        await store.prune(now=NOW + 49, entries_before=0, crowded=[], limit=100)
        await store.insert([timer(A, "job:b")], now=NOW, receipt=Receipt("b", 1, FOREVER))
        assert await store.count("timers") == 1
        await store.prune(now=NOW + 50, entries_before=0, crowded=[], limit=100)
        await store.insert([timer(A, "job:b")], now=NOW, receipt=Receipt("b", 1, FOREVER))
        assert await store.count("timers") == 2

    async def test_a_guarded_timer_meets_timers_parked_ones_answers_and_errands(self) -> None:
        store = await self.open_store()
        await self.done(
            store,
            self.turn(A, sets=[timer(A, "k", seq=3)]),
            self.turn(B, parks=[parked(B, "k"), parked(B, "k", seq=2), parked(B, "other")], records=[RECORD]),
            self.turn(C, sets=[timer(C, "ask:k:1", seq=4), timer(C, "ask:l:1", seq=5)]),
        )
        free = ObjectId("Free", "d")
        sent = [timer(id, "k", seq=9) for id in (A, B, C, free)]
        guards = dict.fromkeys(range(4), GUARD)
        [met_a, met_b, met_c] = await store.insert(sent, now=NOW, guards=guards, each=True)
        assert met_a == Obstacle(0, timer(A, "k", seq=3))
        assert met_b.answer == RECORD
        assert met_b.parked is not None
        assert (met_b.timer, met_b.parked.timer.seq, met_b.parked.timer.name) == (None, 2, "k")
        assert met_c == Obstacle(2, timer(C, "ask:k:1", seq=4))
        assert await self.timer_rows(store, free) == [timer(free, "k", seq=9)]
        assert await store.count("timers") == 4
        # All or none: the same, and nothing is in.
        others = [*sent[:3], timer(ObjectId("Free", "e"), "k")]
        assert await store.insert(others, now=NOW, guards=guards) == [met_a, met_b, met_c]
        assert (await store.count("timers"), await store.count("objects")) == (4, 4)

    async def test_what_has_expired_or_is_another_s_is_in_nobody_s_way(self) -> None:
        store = await self.open_store()
        old = replace(RECORD, expires_at=NOW)
        await self.done(
            store,
            self.turn(A, records=[old, replace(RECORD, key="record:kk")], parks=[parked(A, "kk")]),
            self.turn(B, records=[RECORD], sets=[timer(B, "k"), timer(B, "ask:k:1"), timer(B, "ask:j:1")]),
        )
        assert await store.insert([timer(A, "k", seq=9)], now=NOW, guards={0: GUARD}, each=True) == []
        assert await store.count("timers") == 4

    async def test_each_for_itself_that_comes_again_is_told_what_is_there_but_for_itself(self) -> None:
        store = await self.open_store()
        foreign = timer(B, "k", seq=3)
        await store.insert([foreign], now=NOW)
        sent = [timer(A, "k", seq=9), timer(B, "k", seq=9), timer(C, "plain", seq=9), timer(C, "k", seq=9)]
        receipt, guards = Receipt("lane", 1, FOREVER), {0: GUARD, 1: GUARD, 3: GUARD}
        met = await store.insert(sent, now=NOW, receipt=receipt, guards=guards, each=True)
        assert met == [Obstacle(1, foreign)]
        # One of them fires, and leaves its record; the plain one is cleared.
        await self.done(store, self.turn(C, clears=[("k", 9), ("plain", 9)], records=[RECORD]))
        met = await store.insert(sent, now=NOW, receipt=receipt, guards=guards, each=True)
        assert met == [Obstacle(1, foreign), Obstacle(3, answer=RECORD)]
        assert await store.count("timers") == 2

    async def test_one_left_out_for_what_is_gone_when_it_comes_again_is_not_said_to_be_in(self) -> None:
        store = await self.open_store()
        await self.done(store, self.turn(A, records=[RECORD]))
        sent, receipt = [timer(B, "k", seq=9), timer(A, "k", seq=9)], Receipt("lane", 1, FOREVER)
        guards = {0: GUARD, 1: GUARD}
        assert await store.insert(sent, now=NOW, receipt=receipt, guards=guards, each=True) == [
            Obstacle(1, answer=RECORD)
        ]
        later = RECORD.expires_at  # by then nothing is in the way, and still it is not in
        again = await store.insert(sent, now=later, receipt=receipt, guards=guards, each=True)
        assert again == [Obstacle(1)]
        assert await store.count("timers") == 1

    async def test_a_guarded_insert_beside_the_end_of_the_timer_of_its_name_is_never_in_unseen(self) -> None:
        store = await self.open_store()
        for n in range(60):
            guard = Guard(f"record:{n}", "ask:")
            record = Remembered(guard.answer, b"", b"1", FOREVER)
            await store.insert([timer(A, f"k{n}", seq=1)], now=NOW)
            ending = store.commit(NODE, [self.turn(A, clears=[(f"k{n}", 1)], records=[record])])
            inserting = store.insert([timer(A, f"k{n}", seq=2)], now=NOW, guards={0: guard}, each=True)
            outcomes, met = await asyncio.gather(ending, inserting)
            assert outcomes == [None]
            [obstacle] = met  # the timer, its record, or both in turn; when it slipped in, it says so
            is_in = any(one.seq == 2 for one in await self.timer_rows(store))
            assert is_in == obstacle.is_in
            if is_in:
                assert obstacle.answer == record
                await self.done(store, self.turn(A, clears=[(f"k{n}", 2)]))
