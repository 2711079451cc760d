"""The timeline of a workflow on its page: in order, all of it to be seen, seconds beside weeks."""

from itertools import pairwise

from wakeful.dashboard.workflows import WIDTH, scale

SECOND, WEEK = 1_000, 7 * 86_400_000


def test_a_second_beside_a_week_can_be_seen_and_longer_is_wider() -> None:
    places = scale([0, SECOND, 3 * SECOND, 3 * SECOND + WEEK, 3 * SECOND])
    assert list(places) == [0, SECOND, 3 * SECOND, 3 * SECOND + WEEK]
    at = list(places.values())
    widths = [later - earlier for earlier, later in pairwise(at)]
    assert (at[0], at[-1]) == (0, WIDTH)
    assert widths == sorted(widths)
    assert widths[0] > WIDTH / 20


def test_one_instant_and_none() -> None:
    assert scale([5, 5]) == {5: 0}
    assert scale([]) == {}
