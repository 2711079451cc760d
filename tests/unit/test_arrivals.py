"""Timers that came to disk without a turn of their object: into memory, or a hint to whoever owns them."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from wakeful.runtime.arrivals import HINTS_MAX, Arrivals, Tidings
from wakeful.runtime.node import Node
from wakeful.runtime.queue import PAST_ALL, TimerQueue
from wakeful.store.protocol import Hint
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

NOW = 1_000_000
HORIZON_MS = 60_000


def timer(key: str, due_at: int = NOW, seq: int = 1) -> Timer:
    return Timer(ObjectId("Cell", key), "job:x", due_at, due_at, seq)


class Told:
    """A node as far as arrivals look at it."""

    def __init__(self, owned: Sequence[str], *, listens: bool = True) -> None:
        self.epochs = {shard_of(ObjectId("Cell", key)): 1 for key in owned}
        self.queue = TimerQueue(100)
        self.queue.edge = (NOW + HORIZON_MS, PAST_ALL, 0)
        self.is_clustered = True
        self.ownership: Any = self
        self.takes = 0
        self.dispatcher: Any = self
        self.membership: Any = self
        self.clock: Any = self
        self.limits: Any = self
        self.events: Any = self
        self.is_heard = False
        self.near_horizon_ms = HORIZON_MS
        self.store: Any = self
        self.listens = self.tells = listens
        self.looks: list[tuple[int, int, int]] = []
        self.told: list[list[Hint]] = []
        self.pokes = 0
        self.rounds = 0

    def now(self) -> int:
        return NOW

    def look_at(self, shards: Sequence[int], first_at: int, last_at: int) -> None:
        self.looks += [(shard, first_at, last_at) for shard in shards]

    def look(self) -> None:
        self.rounds += 1

    def poke(self) -> None:
        self.pokes += 1

    def was_ours_before_this_group(self, shard: int) -> bool:
        return shard in self.epochs and self.takes == 0

    async def tell(self, hints: Sequence[Hint]) -> None:
        self.told.append(list(hints))


def arrivals(node: Told) -> Arrivals:
    anything: Any = node
    return Arrivals(anything, node.queue, anything, anything, anything, anything)


async def test_what_is_added_here_goes_into_memory_and_the_rest_is_told() -> None:
    node = Told(["mine"])
    here = arrivals(node)
    timers = [timer("mine"), timer("yours")]
    here.on_added(timers, here.expect(timers))
    await asyncio.sleep(0)
    assert node.queue.objects() == {ObjectId("Cell", "mine")}
    assert node.told == [[Hint(shard_of(ObjectId("Cell", "yours")), NOW, NOW)]]
    assert node.pokes == 1


async def test_a_page_that_sees_an_expected_one_first_leaves_it_to_us() -> None:
    node = Told(["mine"])
    here = arrivals(node)
    mine = timer("mine")
    mark = here.expect([mine])
    node.queue.begin_page()
    node.queue.end_page([mine], None)
    assert len(node.queue) == 0
    here.on_added([mine], mark)
    assert len(node.queue) == 1


async def test_what_a_turn_cleared_or_changed_before_we_heard_of_it_is_asked_of_the_disk() -> None:
    """Else a job that was cancelled, or replaced, between its insert and the answer to that would run from memory."""
    node = Told(["a", "b", "c"])
    here = arrivals(node)
    ones = [timer("a"), timer("b"), timer("c")]
    mark = here.expect(ones)
    node.queue.clear(ones[0].id, ones[0].name, 1)
    node.queue.set(timer("b", NOW + 5, seq=2))
    here.on_added(ones, mark)
    handed_out = {one.id.key: one.seq for one in node.queue.due(NOW + 10, share=10)}
    assert handed_out == {"b": 2, "c": 1}
    assert [shard for shard, *_ in node.looks] == [shard_of(ones[0].id), shard_of(ones[1].id)]
    assert not node.queue.expected


async def test_when_a_shard_came_meanwhile_the_disk_is_asked() -> None:
    """Its owner before us may have run the timer already."""
    node = Told(["mine"])
    here = arrivals(node)
    mine = timer("mine")
    mark = here.expect([mine])
    node.takes += 1
    here.on_added([mine], mark)
    assert len(node.queue) == 0
    assert node.looks == [(shard_of(mine.id), NOW, NOW)]
    assert not node.queue.expected


async def test_an_insert_of_unknown_outcome_is_looked_for() -> None:
    node = Told(["mine"])
    here = arrivals(node)
    timers = [timer("mine"), timer("yours")]
    here.expect(timers)
    here.unsure(timers)
    assert node.looks == [(shard_of(timers[0].id), NOW, NOW)]
    assert not node.queue.expected
    assert node.told == []


async def test_what_comes_with_a_commit_is_treated_alike() -> None:
    node = Told(["mine"])
    here = arrivals(node)
    here.on_sent([timer("mine"), timer("yours")])
    await asyncio.sleep(0)
    assert node.queue.objects() == {ObjectId("Cell", "mine")}
    assert len(node.told) == 1
    node.takes = 1
    here.on_sent([timer("mine", NOW + 5, seq=2)])
    assert node.looks == [(shard_of(ObjectId("Cell", "mine")), NOW + 5, NOW + 5)]


async def test_what_is_far_away_is_not_told_nor_is_anything_where_nobody_listens() -> None:
    node = Told([])
    arrivals(node).on_added([timer("yours", NOW + HORIZON_MS + 1)], 0)
    deaf = Told([], listens=False)
    arrivals(deaf).on_added([timer("yours")], 0)
    await asyncio.sleep(0)
    assert node.told == deaf.told == []


async def test_many_hints_are_told_as_one_range_per_shard() -> None:
    node = Told([])
    timers = [timer("a", NOW + number, number) for number in range(HINTS_MAX + 1)] + [timer("b", NOW + 7, 9)]
    here = arrivals(node)
    here.on_added(timers, 0)
    await asyncio.sleep(0)
    (told,) = node.told
    first, second = shard_of(ObjectId("Cell", "a")), shard_of(ObjectId("Cell", "b"))
    assert sorted(told, key=lambda hint: hint.shard != first) == [
        Hint(first, NOW, NOW + HINTS_MAX),
        Hint(second, NOW + 7, NOW + 7),
    ]
    assert here.told == len(timers)


async def test_the_same_hint_is_told_once() -> None:
    node = Told([])
    arrivals(node).on_added([timer("a", seq=1), timer("a", seq=2)], 0)
    await asyncio.sleep(0)
    assert [len(hints) for hints in node.told] == [1]


async def test_a_hint_is_a_place_to_look_when_its_shard_is_ours() -> None:
    node = Told(["mine"])
    mine, yours = shard_of(ObjectId("Cell", "mine")), shard_of(ObjectId("Cell", "yours"))
    here = arrivals(node)
    here.hear([Hint(mine, 5, 9), Hint(yours, 5, 9)])
    assert node.looks == [(mine, 5, 9)]
    assert len(node.queue) == 0


@pytest.mark.sources_only("compiled methods take nothing that stands for their object")
@pytest.mark.parametrize(("state", "rounds", "looks"), [("up", 1, 1), ("down", 0, 0)])
def test_a_node_that_is_up_heeds_hints_and_without_any_looks_who_is_there(state: str, rounds: int, looks: int) -> None:
    told: Any = Told(["mine"])
    told.state, told.arrivals = state, arrivals(told)
    Node._on_hints(told, [])
    Node._on_hints(told, [Hint(shard_of(ObjectId("Cell", "mine")), 5, 9)])
    assert (told.rounds, len(told.looks)) == (rounds, looks)


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), None])
async def test_a_node_that_fails_when_it_is_asked_to_look_is_asked_again_next_time(failure: OSError | None) -> None:
    """Whatever failed over there (a full disk, which comes as it was): no error is left that nobody hears of."""
    asked: list[str] = []
    tasks: list[asyncio.Task[None]] = []
    row = SimpleNamespace(node="b")

    class Others:
        needs_looks, is_client, identity = True, True, "store"

        @property
        def store(self) -> "Others":
            return self

        async def tell(self, hints: Sequence[Hint]) -> None:
            pass

        def reachable(self) -> list[Any]:
            return [row]

        def owner_of(self, shard: int) -> Any:
            return row

        async def ask(self, to: Any, *what: object, **how: object) -> None:
            asked.append(to.node)
            if failure is not None:
                raise failure

    others: Any = Others()
    tidings = Tidings(others, others, others, tasks.append)
    for _ in range(2):
        await tidings.tell([Hint(1, NOW, NOW)])
        await asyncio.gather(*tasks)
    assert asked == ["b", "b"]
