"""Whom one believes where no clock is everybody's: those whose rows were seen to change, whatever their clocks say."""

import pytest

from wakeful.runtime.membership import GRAIN_MS, STRAY_MS, Sightings
from wakeful.store.protocol import NodeRow

LEASE_MS = 15_000


class Machine:
    """A clock that may be set, and one that only goes on."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.wall, self.steady = now, 5_000
        self.sightings = Sightings(lambda: self.steady * 1_000_000 + 999_999)

    def pass_by(self, ms: int) -> None:
        self.wall, self.steady = self.wall + ms, self.steady + ms

    def left_of(self, *rows: NodeRow) -> list[int]:
        """For how long each is believed from now on."""
        return [row.lease_until - self.wall for row in self.sightings.judge(rows, self.wall)]


def row_of(lease_until: int, node: str = "other") -> NodeRow:
    return NodeRow(node, "x:1", 0, lease_until, "elsewhere", lease_ms=LEASE_MS)


@pytest.mark.parametrize("behind_ms", [0, 40_000, -3_600_000])
def test_one_that_renews_is_believed_whatever_its_clock_says(behind_ms: int) -> None:
    here = Machine()
    for _ in range(20):
        renewed = row_of(here.wall - behind_ms + LEASE_MS)
        assert here.left_of(renewed) == [LEASE_MS]
        here.pass_by(4_000)
        assert here.left_of(renewed) == [LEASE_MS - 4_000], "nothing new was seen"


def test_one_that_says_nothing_more_is_believed_for_a_lease_and_no_longer() -> None:
    here = Machine()
    last = row_of(here.wall + 3_600_000)  # its clock is an hour ahead
    assert here.left_of(last) == [LEASE_MS]
    here.pass_by(LEASE_MS)
    assert here.left_of(last) == [0]
    here.pass_by(60_000)
    assert here.left_of(last) == [-60_000]
    assert here.left_of(row_of(last.lease_until + 1)) == [LEASE_MS], "it is back"


def test_a_clock_that_is_set_here_ends_no_lease_and_makes_none_longer() -> None:
    here = Machine()
    row = row_of(here.wall + LEASE_MS)
    here.left_of(row)
    for by_ms in (3_600_000, -7_200_000):
        here.pass_by(1_000)
        here.wall += by_ms
        left = here.left_of(row)
    assert left == [LEASE_MS - 2_000]


def test_one_that_was_over_long_before_anybody_looked_is_gone_at_once() -> None:
    here = Machine()
    assert here.left_of(row_of(here.wall - STRAY_MS - 1)) == [0]
    assert here.sightings.strays == {"other"}
    there = Machine()
    assert there.left_of(row_of(there.wall - STRAY_MS, "another")) == [LEASE_MS], "a clock may be so wrong"


def test_one_that_comes_later_lives_however_wrong_its_clock_is() -> None:
    here = Machine()
    here.left_of()
    here.pass_by(2_000)
    assert here.left_of(row_of(here.wall - 3_600_000)) == [LEASE_MS]


def test_one_that_seemed_to_be_gone_and_renews_its_lease_lives() -> None:
    here = Machine()
    late = here.wall - 3_600_000
    here.left_of(row_of(late))
    here.pass_by(4_500)
    assert here.left_of(row_of(late + 4_500)) == [LEASE_MS]
    assert here.sightings.strays == set()


def test_a_row_that_did_not_change_reads_the_same_at_every_look() -> None:
    """Whoever starts takes a lease that ends later than before for one that was renewed."""
    here = Machine()
    row = row_of(here.wall + LEASE_MS)
    ends = set()
    for step in range(400):
        here.pass_by(7)
        here.wall += step % 3 - 1  # cut to milliseconds on both sides
        ends.update(one.lease_until for one in here.sightings.judge([row], here.wall))
    assert len(ends) == 1
    assert GRAIN_MS < 250


def test_one_that_left_and_came_back_is_seen_for_the_first_time() -> None:
    here = Machine()
    row = row_of(here.wall + LEASE_MS)
    here.left_of(row)
    here.pass_by(20_000)
    assert here.left_of() == []
    assert here.left_of(row) == [LEASE_MS]
