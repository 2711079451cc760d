"""Group commit among many callers: together or in two halves, whichever gets more done on this store."""

import asyncio
from collections.abc import Sequence

from wakeful.runtime.committer import Committer, Failure
from wakeful.store import MemoryStore
from wakeful.store.protocol import Outcome
from wakeful.values.commits import USER, Commit, Start
from wakeful.values.errors import StoreError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.metrics import Meter

ONE = ObjectId("C", "one")
BAD = b"bad"
MANY = 40
TURN_NS = 50_000


def put(value: bytes = b"") -> Commit:
    return Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=1, puts={(USER, "k"): value})


def note() -> Commit:
    return Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=1, starts=[Start("alarm", 1, 0)])


class Slow(MemoryStore):
    """Takes so many passes of the loop for a commit, each of which is as long as a turn."""

    local = False

    def __init__(self, takes: int) -> None:
        super().__init__()
        self.takes = takes
        self.now = 0
        self.groups: list[int] = []

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        self.groups.append(len(commits))
        for _ in range(self.takes):
            self.now += TURN_NS
            await asyncio.sleep(0)
        return [
            StoreError("no") if BAD in commit.puts.values() else (await MemoryStore.commit(self, node, [commit]))[0]
            for commit in commits
        ]


class Crowd:
    """Callers each of whom comes back as soon as they are told; all their turns are equally long."""

    def __init__(self, takes: int) -> None:
        self.store = Slow(takes)
        self.told: list[int] = []
        self.ends = 0
        self.committer = Committer(self.store, "a", group_max=1000, on_down=lambda error: None, on_group=self._on_group)
        self.committer.meter = Meter(lambda: self.store.now)

    async def open(self) -> "Crowd":
        await self.store.open(now=0)
        await self.store.claim("a", [shard_of(ONE)], now=0)
        return self

    def _on_group(self) -> None:
        self.ends += 1

    def submit(self, commits: Sequence[Commit]) -> None:
        """Callers who don't come back, and are counted as they are told."""
        for number, commit in enumerate(commits):
            self.store.now += TURN_NS
            self.committer.submit(commit, lambda failure, number=number: self.told.append(number))  # type: ignore[misc]

    def _come(self) -> None:
        self.store.now += TURN_NS
        self.committer.submit(put(), self._come_back)

    def _come_back(self, failure: Failure | None) -> None:
        asyncio.get_running_loop().call_soon(self._come)

    async def sizes(self, count: int) -> list[int]:
        """How large the next so many groups are."""
        groups = self.store.groups
        if not groups:
            for _ in range(MANY):
                self._come()
        before = len(groups)
        while len(groups) < before + count:  # noqa: ASYNC110 - passes are what is counted here
            await asyncio.sleep(0)
        return groups[before:]


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_where_the_store_is_a_little_quicker_than_their_turns_they_go_in_halves() -> None:
    crowd = await Crowd(30).open()
    sizes = await crowd.sizes(200)
    assert sizes.count(MANY // 2) >= 190  # now and then it is tried whether together is better
    assert set(sizes) == {MANY, MANY // 2}
    crowd.committer.kill()


async def test_where_the_store_is_slower_or_quicker_by_far_they_stay_together() -> None:
    for takes in (100, 10):
        crowd = await Crowd(takes).open()
        assert set(await crowd.sizes(50)) == {MANY}
        crowd.committer.kill()


async def test_halves_come_together_where_the_store_becomes_slow() -> None:
    crowd = await Crowd(30).open()
    assert (await crowd.sizes(20))[-10:] == [MANY // 2] * 10
    crowd.store.takes = 100
    sizes = await crowd.sizes(150)
    assert sizes[:10] == [MANY // 2] * 10
    assert sizes[-50:] == [MANY] * 50
    crowd.committer.kill()


async def test_nobody_waits_for_more_turns_than_the_store_takes() -> None:
    crowd = await Crowd(30).open()
    crowd.submit([put()] * MANY)
    await passes(5)
    crowd.submit([put()])
    await passes(26)
    assert (len(crowd.told), crowd.store.groups) == (MANY, [MANY, 1])  # the next is on its way already
    await crowd.committer.drain()


async def test_the_second_half_is_on_its_way_until_it_is_told_and_is_told_in_order() -> None:
    crowd = await Crowd(30).open()
    crowd.submit([put()] * MANY)
    await passes(31)
    assert (len(crowd.told), crowd.committer.backlog, crowd.ends) == (20, 20, 0)
    await crowd.committer.drain()
    assert (crowd.told, crowd.committer.backlog, crowd.ends) == (list(range(MANY)), 0, 1)


async def test_killed_between_the_halves_it_says_nothing_more() -> None:
    crowd = await Crowd(30).open()
    crowd.submit([put()] * MANY)
    await passes(31)
    crowd.committer.kill()
    await passes(3)
    assert (len(crowd.told), crowd.committer.backlog, crowd.ends) == (20, 0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_start_notes_and_refusals_are_told_with_all_the_others_of_their_group() -> None:
    for odd in (note(), put(BAD)):
        crowd = await Crowd(30).open()
        crowd.submit([put()] * 30 + [odd] + [put()] * 9)
        await passes(31)
        assert crowd.told == list(range(MANY))
        await crowd.committer.drain()
