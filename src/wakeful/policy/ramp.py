"""Layer 1, pure. How much may a node take on that has just started?

Two ramps: how many shards it may have claimed by now, and how many turns it may run at once. Both
only ever grow with its age.
"""

from collections.abc import Iterable, Set

from wakeful.values.errors import BadOption


def shards_allowed(age_ms: int, *, first: int, double_every_ms: int, total: int) -> int:
    """How many shards a node of that age may have claimed since it started: `first`, then twice as many each period.

    A period of 0 means all of them at once.
    """
    if first < 1:
        raise BadOption(
            f"first must be at least 1, or the node would never own a shard, not {first}", code="ramp.option"
        )
    if double_every_ms <= 0:
        return total
    doublings = max(0, age_ms) // double_every_ms
    if doublings >= total.bit_length():
        return total
    return min(total, first << doublings)


def claimable(owned: Set[int], wanted: Iterable[int], allowed: int, *, claimed: int = 0) -> list[int]:
    """Which of the wanted shards it may claim now, in the order given: those it lacks, as far as the budget goes.

    What it owns already is never counted against it. `claimed` is how many of those it owns were claimed
    on this ramp, when the budget is for the ramp as a whole and not for this one round.
    """
    lacking = [shard for shard in wanted if shard not in owned]
    return lacking[: max(0, allowed - claimed)]


def turns_allowed(age_ms: int, *, initial: int, limit: int, over_ms: int) -> int:
    """How many turns may run at once at that age: from `initial` evenly up to `limit`, which it reaches after `over_ms`.

    0 for `over_ms` is off: the limit holds at once, and only then may `initial` be 0.
    """
    check_slow_start(initial, over_ms)
    if over_ms <= 0 or age_ms >= over_ms or initial >= limit:
        return limit
    return initial + (limit - initial) * max(0, age_ms) // over_ms


def check_slow_start(initial: int, over_ms: int) -> None:
    """`BadOption` when nothing at all could run at first."""
    if over_ms > 0 and initial < 1:
        raise BadOption(
            f"slow_start_turns must be at least 1 while slow_start_ms is {over_ms}, not {initial}; "
            "slow_start_ms=0 turns slow start off",
            code="limit.option",
        )
