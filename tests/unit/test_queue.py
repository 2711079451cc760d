"""The near future of the timers, against a disk that knows them all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.queue_model import first_due
from wakeful.runtime.queue import PAST_ALL, TimerQueue
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer


def timer(key: str, due_at: int, seq: int, *, name: str = "alarm", priority: int = 0) -> Timer:
    return Timer(ObjectId("C", key), name, due_at, due_at, seq, priority=priority)


class Disk:
    """Every timer there is, and a queue that is told of each change when it is on disk."""

    def __init__(self, bound: int) -> None:
        self.timers: dict[tuple[ObjectId, str], Timer] = {}
        self.queue = TimerQueue(bound)
        self.seq = 0

    def set(self, key: str, due_at: int, priority: int = 0) -> None:
        self.seq += 1
        made = timer(key, due_at, self.seq, priority=priority)
        self.timers[made.id, made.name] = made
        self.queue.set(made)

    def clear(self, key: str) -> None:
        self.timers.pop((ObjectId("C", key), "alarm"), None)
        self.queue.clear(ObjectId("C", key), "alarm", 0)

    def page(self, until: int, limit: int) -> tuple[list[Timer], tuple[int, int, int]]:
        """What the store answers now to a read past the edge."""
        edge = self.queue.begin_page()
        found = sorted(
            (one for one in self.timers.values() if one.sort_key > edge and one.due_at <= until),
            key=lambda one: one.sort_key,
        )
        more = len(found) > limit
        return found[:limit], found[limit - 1].sort_key if more else max(edge, (until, PAST_ALL, 0))

    def check(self) -> None:
        """Everything on disk up to the edge is held or handed out, and nothing else is held."""
        queue = self.queue
        due = {one for one in self.timers.values() if one.sort_key <= queue.edge}
        held = {one for one in self.timers.values() if queue._current.get((one.id, one.name)) is one}
        out = {one for one in self.timers.values() if queue.running.get((one.id, one.name)) is one}
        assert due <= held | out
        assert len(held) == len(queue)
        earliest = min((one.due_at for one in held), default=None)
        assert queue.earliest() == earliest


KEYS = st.sampled_from("abcdefgh")
TIMES = st.integers(min_value=0, max_value=30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, TIMES, st.integers(min_value=-1, max_value=1)),
        st.tuples(st.just("clear"), KEYS),
        st.tuples(st.just("pop"), TIMES),
        st.tuples(st.just("done"), KEYS),
        st.tuples(st.just("again"), KEYS, TIMES),
        st.tuples(st.just("ask"), TIMES, st.integers(min_value=1, max_value=6)),
        st.tuples(st.just("answer")),
    ),
    max_size=60,
)


@settings(max_examples=400)
@given(st.integers(min_value=1, max_value=6), STEPS)
def test_memory_holds_exactly_what_the_disk_has_up_to_the_edge(bound: int, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    disk = Disk(bound)
    queue = disk.queue
    asked: tuple[list[Timer], tuple[int, int, int]] | None = None
    for verb, *args in steps:
        if verb == "set":
            disk.set(*args)
        elif verb == "clear":
            disk.clear(*args)
        elif verb == "pop":
            found = first_due(queue, args[0])
            if found is not None:
                assert disk.timers[found.id, found.name] is found
                assert found.due_at <= args[0]
        elif verb == "done":  # a handed-out timer ran: its row is cleared
            if (ObjectId("C", args[0]), "alarm") in queue.running:
                disk.clear(args[0])
        elif verb == "again":  # a handed-out timer failed: the same setting, later
            out = queue.running.get((ObjectId("C", args[0]), "alarm"))
            if out is not None:
                moved = out.later(due_at=args[1], attempt=out.attempt + 1)
                disk.timers[moved.id, moved.name] = moved
                queue.set(moved)
        elif verb == "ask" and asked is None:
            asked = disk.page(*args)
        elif verb == "answer" and asked is not None:
            queue.end_page(*asked)
            asked = None
        if asked is None:
            disk.check()
        assert len(queue) <= 2 * bound + 8


@settings(max_examples=200)
@given(
    st.integers(min_value=1, max_value=8),
    st.integers(min_value=1, max_value=8),
    st.lists(st.tuples(TIMES, st.integers(min_value=-1, max_value=1)), max_size=40),
)
def test_everything_comes_out_once_in_firing_order_however_small_memory_is(
    bound: int, limit: int, wanted: list[tuple[int, int]]
) -> None:
    disk = Disk(bound)
    for n, (due_at, priority) in enumerate(wanted):
        disk.set(f"k{n}", due_at, priority)
    expected = sorted(disk.timers.values(), key=lambda one: one.sort_key)
    popped: list[Timer] = []
    for _ in range(2_000):
        found = first_due(disk.queue, 30)
        if found is not None:
            popped.append(found)
            disk.clear(found.id.key)
            continue
        if disk.queue.edge[0] >= 30 and disk.queue.edge[1] == PAST_ALL:
            break
        disk.queue.end_page(*disk.page(30, limit))
    assert popped == expected


def opened(bound: int = 10, until: int = 1_000) -> TimerQueue:
    """A queue that holds everything up to that time."""
    queue = TimerQueue(bound)
    queue.begin_page()
    queue.end_page([], (until, PAST_ALL, 0))
    return queue


def test_a_timer_is_never_handed_out_early() -> None:
    queue = opened()
    queue.set(timer("a", 10, 1))
    assert first_due(queue, 9) is None
    assert queue.earliest() == 10
    assert first_due(queue, 10) == timer("a", 10, 1)


def test_a_timer_handed_out_comes_back_only_when_it_is_set_again() -> None:
    queue = opened()
    first = timer("a", 10, 1)
    queue.set(first)
    assert first_due(queue, 10) is first
    assert first_due(queue, 10) is None
    assert list(queue.running.values()) == [first]
    queue.set(timer("a", 10, 2))
    assert not queue.running
    assert first_due(queue, 10) == timer("a", 10, 2)


def test_a_page_does_not_bring_back_what_runs_or_changed_while_it_was_read() -> None:
    queue = opened()
    for key in "abc":
        queue.set(timer(key, 10, ord(key)))
    page = [timer(key, 10, ord(key)) for key in "abcd"]
    queue.begin_page()
    running = first_due(queue, 10)
    assert running is not None
    queue.clear(ObjectId("C", "b"), "alarm", 0)
    queue.set(timer("c", 20, 999))
    queue.end_page(page, None)
    held = []
    while (found := first_due(queue, 1_000)) is not None:
        held.append((found.id.key, found.due_at))
    assert running.id.key == "a"
    assert held == [("d", 10), ("c", 20)]


def test_clearing_one_setting_leaves_a_later_one() -> None:
    queue = opened()
    queue.set(timer("a", 10, 2))
    queue.clear(ObjectId("C", "a"), "alarm", 1)
    assert queue.earliest() == 10
    queue.clear(ObjectId("C", "a"), "alarm", 2)
    assert queue.earliest() is None


def test_timers_of_the_same_instant_are_kept_whole_when_memory_shrinks() -> None:
    queue = opened(bound=4)
    for n in range(5):
        queue.set(timer(f"k{n}", 10, 7))  # the same place in the order, on different objects
    assert len(queue) == 5
    assert queue.edge == (10, 0, 7)


def test_priority_comes_before_insertion_and_after_due_time() -> None:
    queue = opened()
    queue.set(timer("low", 10, 1, priority=-5))
    queue.set(timer("plain", 10, 2))
    queue.set(timer("high", 10, 3, priority=5))
    queue.set(timer("early", 9, 4, priority=-9))
    assert [first_due(queue, 10).id.key for _ in range(4)] == ["early", "high", "plain", "low"]  # type: ignore[union-attr]


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_the_smallest_bounds_hold_something(bound: int) -> None:
    queue = opened(bound=bound)
    for n in range(10):
        queue.set(timer(f"k{n}", 10 + n, n + 1))
        assert 1 <= len(queue) <= bound
    assert queue.earliest() == 10


def test_replacing_the_same_timer_over_and_over_keeps_the_heap_small() -> None:
    queue = opened()
    for n in range(10_000):
        queue.set(timer("a", 10 + n % 7, n + 1))
    assert len(queue) == 1
    assert len(queue._heap) < 200


def test_forgotten_objects_and_a_reset_leave_nothing() -> None:
    queue = opened()
    for key in "abc":
        queue.set(timer(key, 10, ord(key)))
    first_due(queue, 10)
    queue.forget([ObjectId("C", "a"), ObjectId("C", "b")])
    assert queue.objects() == {ObjectId("C", "c")}
    queue.reset()
    assert queue.earliest() is None
    assert queue.objects() == set()
    queue.set(timer("z", 1, 1))
    assert queue.earliest() is None  # past the edge: the next page brings it


def test_a_page_that_tells_of_a_timer_before_its_commit_is_heard_of_does_not_hand_it_out_twice() -> None:
    queue = opened()
    queue.begin_page()
    queue.end_page([timer("a", 10, 1)], None)  # on disk already, the acknowledgement is on its way
    handed_out = first_due(queue, 10)
    assert handed_out is not None
    queue.note(handed_out, 3)
    assert not queue.set(timer("a", 10, 1))
    assert first_due(queue, 10) is None
    assert queue.set(handed_out.later(due_at=12, attempt=0))  # to be tried again, uncounted: another setting
    assert first_due(queue, 11) is None
    assert first_due(queue, 12) is not None
