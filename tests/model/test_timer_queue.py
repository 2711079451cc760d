"""The timer queue is the disk up to its edge, whatever happens in whatever order."""

from tests.model.queue_model import run_queue_model


def test_memory_holds_exactly_what_the_disk_has_up_to_the_edge() -> None:
    for seed in range(300):
        run_queue_model(seed)
