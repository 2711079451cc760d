"""Lines: nobody waits behind all of another tenant's, each tenant's timers keep their order, memory stays bounded."""

import random
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.runtime.queue import PAST_ALL, SHORTEST, TenantLines, TimerQueue
from wakeful.values.ids import ObjectId, tenant_of
from wakeful.values.timers import Timer


def timer(key: str, due_at: int, seq: int) -> Timer:
    return Timer(ObjectId("C", key), "alarm", due_at, due_at, seq)


class Backlog:
    """A disk with much that is due, read by pages as the dispatcher does it."""

    def __init__(self, keys: list[str], *, bound: int, page: int = 10) -> None:
        self.disk = {(one.id, one.name): one for one in (timer(key, n, n) for n, key in enumerate(keys))}
        self.queue = TimerQueue(bound)
        self.page = page
        self.short_below = min(page, max(1, bound // 2))
        self.begun: list[str] = []
        self.held_most = 0

    def read(self) -> None:
        """One read, if one is called for."""
        queue = self.queue
        tenant = queue.lines.short()
        if tenant is not None:
            edge = queue.begin_page()
            after = queue.lines.behind[tenant]
            found = [one for one in self._rest(after) if one.due_at <= edge[0]]
            page = found[: self.page]
            queue.lines.read_to(tenant, page[-1].sort_key if len(found) > len(page) else None)
            queue.end_page(page, None)
        elif queue.edge[0] < 10**9 and len(queue) < self.short_below:
            found = self._rest(queue.begin_page())
            page = found[: self.page]
            queue.end_page(page, page[-1].sort_key if len(found) > len(page) else (10**9, PAST_ALL, 0))

    def _rest(self, after: tuple[int, int, int]) -> list[Timer]:
        return sorted((one for one in self.disk.values() if one.sort_key > after), key=lambda one: one.sort_key)

    def hand_out(self, room: int, share: int) -> None:
        room -= len(self.queue.running)
        if room > 0:
            self.begun += [one.id.key for one in islice(self.queue.due(10**9, share=share), room)]
        if room <= 0 or len(self.queue.running) >= room:
            self.queue.sift(10**9, share=share)
        self.held_most = max(self.held_most, len(self.queue) + len(self.queue.lines))

    def end(self, one: Timer) -> None:
        del self.disk[one.id, one.name]
        self.queue.clear(one.id, one.name, 0)


@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["a/", "a/", "a/", "b/", "c/", ""]), min_size=1, max_size=150),
    st.integers(4, 60),
    st.integers(1, 12),
)
@settings(max_examples=150)
def test_all_run_once_in_order_within_their_tenant_whatever_the_bounds(
    seed: int, prefixes: list[str], bound: int, room: int
) -> None:
    dice = random.Random(seed)
    keys = [f"{prefix}{n}" for n, prefix in enumerate(prefixes)]
    backlog = Backlog(keys, bound=bound)
    for _ in range(3_000):
        if not backlog.disk:
            break
        backlog.read()
        backlog.hand_out(room, max(1, room // 4))
        running = list(backlog.queue.running.values())
        for one in running:
            if dice.random() < 0.5:
                backlog.end(one)
    assert not backlog.disk
    assert sorted(backlog.begun) == sorted(keys)
    for tenant in {tenant_of(key) for key in keys}:
        of_tenant = [key for key in keys if tenant_of(key) == tenant]
        assert [key for key in backlog.begun if tenant_of(key) == tenant] == of_tenant
    assert not backlog.queue.lines
    assert not backlog.queue._out


def test_one_behind_a_thousand_is_among_the_first_and_memory_stays_bounded() -> None:
    backlog = Backlog([*(f"a/{n}" for n in range(1_000)), "b/1"], bound=60)
    while backlog.disk:
        backlog.read()
        backlog.hand_out(8, 2)
        for one in list(islice(backlog.queue.running.values(), 1)):
            backlog.end(one)
    # Reading past a thousand takes a hundred pages, and some to fill the line again; one of a's runs with each.
    assert backlog.begun.index("b/1") <= 1.25 * 1_000 // backlog.page
    assert backlog.held_most <= 60 + backlog.page + SHORTEST


def test_without_pressure_timers_go_in_firing_order() -> None:
    keys = ["a/1", "b/1", "a/2", "a/3", "c", "b/2"]
    backlog = Backlog(keys, bound=60)
    backlog.read()
    backlog.hand_out(100, 25)
    assert backlog.begun == keys
    assert not backlog.queue.lines.is_used


def test_a_timer_in_line_that_is_cleared_or_set_anew_does_not_run_as_it_was() -> None:
    backlog = Backlog([f"a/{n}" for n in range(6)], bound=60)
    backlog.read()
    backlog.hand_out(1, 1)
    queue = backlog.queue
    assert len(queue.lines) == 5
    queue.clear(ObjectId("C", "a/1"), "alarm", 0)
    queue.set(timer("a/2", 50, 99))
    queue.forget([ObjectId("C", "a/3")])
    for one in list(queue.running.values()):
        backlog.end(one)
    assert [one.id.key for one in queue.due(10, share=9)] == ["a/4", "a/5"]
    assert [(one.id.key, one.seq) for one in queue.due(60, share=9)] == [("a/2", 99)]


def test_a_line_that_is_full_leaves_the_rest_on_disk_and_says_from_where() -> None:
    lines = TenantLines(2 * SHORTEST)
    for n in range(SHORTEST + 5):
        lines.add("a", timer(f"a/{n}", n, n))
    assert len(lines) == SHORTEST
    assert lines.behind == {"a": (SHORTEST, 0, SHORTEST - 1)}
    assert lines.is_left(timer("a/x", SHORTEST, SHORTEST))
    assert not lines.is_left(timer("a/x", SHORTEST - 1, 0))
    lines.add("a", timer("a/early", 0, 999))  # an earlier one still gets its place
    popped = lines.pop("a")
    assert popped is not None
    assert popped.id.key == "a/0"
    assert (nxt := lines.pop("a")) is not None
    assert nxt.id.key == "a/early"
