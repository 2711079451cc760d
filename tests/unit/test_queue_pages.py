"""A page that was asked for later than memory was told knows better."""

from tests.model.queue_model import first_due
from wakeful.runtime.queue import PAST_ALL, TimerQueue
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

FAR = (10_000, PAST_ALL, 0)


def alarm(due_at: int, seq: int) -> Timer:
    return Timer(ObjectId("C", "a"), "alarm", due_at, due_at, seq)


def test_a_setting_left_behind_by_a_page_gives_way_to_what_is_on_disk_when_its_shard_comes_back() -> None:
    queue = TimerQueue(100)
    queue.begin_page()
    queue.forget([ObjectId("C", "a")])  # the shard goes while the page is on its way
    queue.end_page([alarm(1_000, seq=1)], FAR)
    queue.begin_page()  # the shard has come back, and its alarm was set anew elsewhere
    queue.end_page([alarm(2_000, seq=2)], None)
    assert first_due(queue, 1_500) is None, "it would run a setting that has had its run"
    assert first_due(queue, 2_000) == alarm(2_000, seq=2)
    assert first_due(queue, 9_999) is None


def test_a_page_changes_nothing_of_what_memory_has_already() -> None:
    queue = TimerQueue(100)
    queue.begin_page()
    queue.end_page([alarm(1_000, seq=1)], FAR)
    queue.begin_page()
    queue.set(alarm(3_000, seq=3))  # while the page is on its way, which still has the one before
    queue.end_page([alarm(1_000, seq=1)], None)
    assert first_due(queue, 2_999) is None
    assert first_due(queue, 3_000) == alarm(3_000, seq=3)
