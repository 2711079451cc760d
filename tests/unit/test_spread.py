"""Which server has which slot, and which moves make it even: the fewest that do."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.policy.spread import (
    Move,
    SpreadMap,
    arrive,
    begin,
    end,
    first_map,
    plan_moves,
    servers_in_use,
    with_servers,
)
from wakeful.values.errors import BadOption, Conflict
from wakeful.values.ids import SHARDS


def moved(known: SpreadMap, moves: list[Move]) -> SpreadMap:
    for move in moves:
        known = end(arrive(begin(known, move), move), move)
    return known


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 256])
def test_the_first_map_is_dealt_evenly(count: int) -> None:
    known = first_map("x", [f"s{n}" for n in range(count)])
    assert max(known.counts().values()) - min(known.counts().values()) <= 1
    assert plan_moves(known, known.servers) == []


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_every_change_of_servers_takes_the_fewest_moves_and_ends_even(sizes: list[int]) -> None:
    known = first_map("x", ["s0"])
    for size in sizes:
        names = [f"s{n}" for n in range(size)]
        known = with_servers(known, [*names, *(name for name in known.servers if name not in names)])
        before = known.counts()
        moves = plan_moves(known, names)
        known = moved(known, moves)
        after = known.counts()
        assert sum(after.values()) == SHARDS
        assert {name for name, count in after.items() if count} == set(names)
        share = [after[name] for name in names]
        assert max(share) - min(share) <= 1
        # No slot moved that need not: each server gave or took only its difference.
        assert len(moves) == sum(max(0, before[name] - after[name]) for name in before)
        for name in names:
            assert not (before[name] > -(-SHARDS // size) and after[name] < SHARDS // size)
        assert plan_moves(known, names) == []


def test_what_is_under_way_counts_as_if_it_had_arrived_and_is_not_moved_again() -> None:
    known = first_map("x", ["a", "b"], full="a")
    moves = plan_moves(known, ["a", "b"])
    for move in moves[:100]:
        known = begin(known, move)
    for move in moves[:50]:
        known = arrive(known, move)
    rest = plan_moves(known, ["a", "b"])
    assert [(move.slot, move.target) for move in rest] == [(move.slot, move.target) for move in moves[100:]]
    back = plan_moves(known, ["a"])
    assert not {move.slot for move in back} & {move.slot for move in moves[:100]}
    assert servers_in_use(known) == {"a", "b"}


def test_a_move_is_begun_once_and_under_the_next_term() -> None:
    known = first_map("x", ["a", "b"], full="a")
    move = Move(3, "a", "b", 1)
    begun = begin(known, move)
    for wrong, where in ((move, begun), (Move(3, "a", "b", 2), known), (Move(3, "b", "a", 1), known)):
        with pytest.raises(Conflict, match="plan again"):
            begin(where, wrong)
    there = arrive(begun, move)
    assert (there.slots[3], there.terms[3], there.moves, there.rests) == ("b", 1, (), (move,))
    with pytest.raises(Conflict, match="plan again"):
        begin(there, Move(3, "b", "a", 2))  # before its old rows are gone
    assert arrive(there, move) is there
    done = end(there, move)
    assert (done.rests, done.version) == ((), known.version + 3)
    assert end(done, move) is done


def test_servers_come_by_name_and_go_only_when_nothing_is_on_them() -> None:
    known = first_map("x", ["a", "b"])
    assert with_servers(known, ["a", "b"]) is known
    assert with_servers(known, ["a", "b", "c"]).servers == ("a", "b", "c")
    with pytest.raises(BadOption, match="has to be the first"):
        with_servers(known, ["b", "a"])
    with pytest.raises(BadOption, match="'b': has objects"):
        with_servers(known, ["a"])
    gone = moved(known, plan_moves(known, ["a"]))
    assert gone.counts() == {"a": 256, "b": 0}
    assert with_servers(gone, ["a"]) is gone
    with pytest.raises(BadOption, match="'z': no server of this spread; there are a, b"):
        plan_moves(known, ["a", "z"])
    with pytest.raises(BadOption, match="no server is left to have the slots; one of a, b has to stay"):
        plan_moves(known, [])
    assert [name for name, _ in product(gone.servers, [0])] == ["a", "b"]
