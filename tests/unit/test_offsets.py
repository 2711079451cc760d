"""How far a node's clock is off, and when the answer is not to be trusted."""

import pytest

from wakeful.runtime.deployment_clock import DRIFT_ALLOWED, GRAIN_MS, JUMP_MS, Offset, best_offset, follow, is_jump


def test_the_shortest_round_trip_knows_best() -> None:
    assert best_offset([(0, 1_100, 200), (1_000, 2_005, 1_010), (2_000, 3_300, 2_400)]) == Offset(1_000, 5 + GRAIN_MS)


def test_a_measurement_is_known_to_half_its_round_trip() -> None:
    assert best_offset([(0, 50, 0)]) == Offset(50, GRAIN_MS)
    assert best_offset([(0, 50, 7)]) == Offset(47, 4 + GRAIN_MS)
    # Whenever between the two the store looked at its clock, the truth is within the error.
    for looked_at in range(8):
        found = best_offset([(0, looked_at + 1_000, 7)])
        assert abs(found.ms - 1_000) <= found.error_ms


@pytest.mark.parametrize(("moved_ms", "elapsed_ms", "is_set"), [
    (0, 1_500, False),
    (int(1_500 * DRIFT_ALLOWED), 1_500, False),
    (int(1_500 * DRIFT_ALLOWED) + 7, 1_500, True),
    (-int(1_500 * DRIFT_ALLOWED) - 7, 1_500, True),
    (JUMP_MS, 10**9, False),
    (JUMP_MS + 7, 10**9, True),  # however long ago
    (3_600_000, 1_500, True),
    (6, 0, False),  # within the errors of both
    (7, 0, True),
    (7, -3_600_000, True),  # the own clock was set back
])  # fmt: skip
def test_a_clock_that_moved_by_more_than_any_drift_was_set(moved_ms: int, elapsed_ms: int, is_set: bool) -> None:
    assert is_jump(Offset(500, 3), Offset(500 + moved_ms, 3), elapsed_ms) is is_set


def test_a_poor_measurement_accuses_nobody() -> None:
    assert not is_jump(Offset(0, 2), Offset(900, 1_000), 1_500)
    assert is_jump(Offset(0, 2), Offset(2_000, 1_000), 1_500)


def test_what_a_measurement_can_t_tell_apart_stays_as_it_is() -> None:
    assert follow(100, Offset(103, 3)) == 100
    assert follow(100, Offset(104, 3)) == 104
    assert follow(100, Offset(96, 3)) == 96


def test_a_slow_drift_never_adds_up() -> None:
    """Each step is within the error of the one before, the sum is not."""
    believed = 0
    for true_ms in range(500):
        believed = follow(believed, Offset(true_ms, 3))
        assert abs(believed - true_ms) <= 3
