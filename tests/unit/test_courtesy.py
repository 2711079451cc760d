"""Nodes that all want the next slot: nobody starves, and who is alone hardly waits."""

import heapq
import random
from itertools import count

import pytest

from wakeful.store.bucket.courtesy import ALONE_MAX, BURST, COMPANY_S, RUN_MAX, Courtesy

TRIP_S = 0.03


def race(
    busy: list[bool], seconds: float = 20.0, *, seed: int = 1, jitter: float = 0.2
) -> tuple[list[int], list[float]]:
    """So many slots each node wrote, and how long its records waited at most: busy ones always have one, others each 5 s.

    A request reaches the bucket after half a trip, its answer comes half a trip later.
    """
    dice = random.Random(seed)
    numbers = count()
    events: list[tuple[float, int, int, str, int]] = []
    slots: list[tuple[int, int]] = []  # who wrote it, and how often that one had lost
    won, worst = [0] * len(busy), [0.0] * len(busy)
    known, lost, since = [0] * len(busy), [0] * len(busy), [0.0] * len(busy)
    manners = [Courtesy() for _ in busy]

    def trip() -> float:
        return TRIP_S * dice.uniform(1 - jitter, 1 + jitter) / 2

    def push(at: float, node: int, what: str, slot: int = 0) -> None:
        heapq.heappush(events, (at, next(numbers), node, what, slot))

    for node in range(len(busy)):
        push(dice.uniform(0, 1), node, "want")
    while events and (event := heapq.heappop(events))[0] < seconds:
        now, _, node, what, slot = event
        if what == "want":
            since[node] = now
            push(now + manners[node].gap_s(now), node, "begin")
        elif what == "begin":
            push(now + trip(), node, "create", known[node])
        elif what == "create":
            if slot == len(slots):
                slots.append((node, lost[node]))
                push(now + trip(), node, "won")
            else:
                push(now + trip(), node, "lost")
        elif what == "lost":
            lost[node] += 1
            push(now + trip(), node, "read")
        elif what == "read":  # all that is there by then, a few at once
            push(now + trip(), node, "told", len(slots))
        elif what == "told":
            for other, waited in slots[known[node] : slot]:
                manners[node].note_other(str(other), waited, now)
            known[node] = slot
            push(now, node, "begin")
        elif what == "won":
            manners[node].note_trip(TRIP_S)
            manners[node].note_own()
            known[node] += 1
            worst[node] = max(worst[node], now - since[node])
            won[node], lost[node] = won[node] + 1, 0
            push(now if busy[node] else now + 5, node, "want")
    return won, worst


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("jitter", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_of_nodes_that_all_write_all_the_time_each_has_its_share(nodes: int, jitter: float, seed: int) -> None:
    won, worst = race([True] * nodes, seed=seed, jitter=jitter)
    fair = sum(won) / nodes
    assert min(won) > fair / 2, (won, worst)
    assert max(worst) < 3, worst


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_only_renews_its_lease_gets_through_beside_one_that_writes_all_the_time(seed: int) -> None:
    won, worst = race([True, False, False], seed=seed)
    assert worst[1] < 2
    assert worst[2] < 2
    assert won[0] > 0.5 * 20 / TRIP_S, "and that one is hardly slower"


def test_who_is_alone_hardly_waits() -> None:
    manners = Courtesy()
    manners.note_trip(TRIP_S)
    for _ in range(ALONE_MAX - 1):
        manners.note_own()
        assert manners.gap_s(1.0) == 0
    manners.note_own()
    assert manners.gap_s(1.0) > TRIP_S, "but for who has just come, and had no slot to say so"
    manners.note_other("b", 0, 2.0)
    manners.note_own()
    assert manners.gap_s(2.0) == 0
    for _ in range(RUN_MAX):
        manners.note_own()
    assert manners.gap_s(2.1) > TRIP_S
    for _ in range(ALONE_MAX - 1):
        manners.note_own()
    assert manners.gap_s(2.0 + COMPANY_S + 0.1) == 0


def test_who_says_that_it_waited_is_heeded_for_a_while() -> None:
    manners = Courtesy()
    manners.note_trip(TRIP_S)
    manners.note_other("b", 3, 1.0)
    assert manners.gap_s(1.0) == 0, "the last slot is not ours"
    for _ in range(BURST - 1):
        manners.note_own()
        assert manners.gap_s(1.0) == 0, "to change hands for each slot is what costs"
    manners.note_own()
    one = manners.gap_s(1.0)
    assert one > TRIP_S
    manners.note_other("c", 1, 1.1)
    for _ in range(BURST):
        manners.note_own()
    assert manners.gap_s(1.1) == 2 * one, "each of them is to have its turn"
