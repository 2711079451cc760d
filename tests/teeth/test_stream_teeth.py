"""Each mistake of `broken_streams.py` is caught by the suites named beside it, which pass when nothing is broken."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compat import test_streams as streams
from tests.compat.workers_stage import write_worker
from tests.teeth import broken_streams
from tests.teeth.catching import Catcher, Teeth, run_test


def _play(test: Callable[..., Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_test(test, write_worker(Path(folder), streams.CODE))


def chunks() -> None:
    """tests/compat: each chunk leaves when it is made."""
    _play(streams.test_each_chunk_leaves_when_it_is_made)


def hangups() -> None:
    """tests/compat: a client that hangs up."""
    _play(streams.test_a_client_that_hangs_up_ends_the_generator)


def slow_clients() -> None:
    """tests/compat: a client that does not read."""
    _play(streams.test_a_client_that_does_not_read_stops_the_generator)


def objects() -> None:
    """tests/compat: a stream of an object for ten minutes."""
    _play(streams.test_an_object_streams_for_ten_minutes_and_answers_others_meanwhile)


def moves() -> None:
    """tests/compat: an object that moves while it streams."""
    _play(streams.test_a_stream_whose_object_moves_breaks)


def bounds() -> None:
    """tests/compat: bodies that are kept, and that are passed on."""
    _play(streams.test_what_is_read_is_bounded_and_what_is_passed_on_is_not_held)


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "a_stream_is_collected_before_it_is_sent": (chunks,),
    "a_generator_goes_on_without_its_client": (hangups,),
    "a_generator_runs_ahead_of_its_client": (slow_clients,),
    "a_stream_does_not_keep_its_object_awake": (objects,),
    "a_stream_that_was_cut_looks_whole": (moves,),
    "what_is_kept_of_a_body_does_not_count": (bounds,),
}
TEETH = Teeth(broken_streams, BROKEN)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
