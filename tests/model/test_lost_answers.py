"""Nothing is doubled or lost by an answer that was lost, in any order of things."""

import pytest

from tests.model.lost_answers import Bounds, Kind, Model

FEW = Bounds(sends=2, restarts=0, takeovers=1, crashes=0)


@pytest.mark.parametrize(
    ("kinds", "bounds", "states"),
    [
        (("plain",), Bounds(sends=4, takeovers=2), 5_000),
        (("keyed",), Bounds(), 15_000),
        (("errand",), Bounds(), 5_000),
        (("plain", "plain"), FEW, 5_000),
        (("plain", "keyed"), FEW, 5_000),
    ],
)
def test_every_order_of_asking_losing_firing_repeating_and_crashing(
    kinds: tuple[Kind, ...], bounds: Bounds, states: int
) -> None:
    assert Model(*kinds, bounds=bounds).explore() >= states
