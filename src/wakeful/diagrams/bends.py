"""Layer 5. How many bends does a long arrow need?

A staircase is as short as one step, so the shortest placement may well be a staircase. Here each stretch of bends and
labels is put on one line as far as its neighbours leave room for that.
"""

from wakeful.diagrams.ranks import Item, RankChain, Ranked, gap

_PASSES = 4
_FAR = 1e9


def straighten(ranked: Ranked) -> None:
    """Move bends and labels, within the room they have, so that arrows turn seldom."""
    neighbours: dict[Item, tuple[Item | None, Item | None]] = {}
    for items in ranked.ranks:
        for place, item in enumerate(items):
            before = items[place - 1] if place else None
            after = items[place + 1] if place + 1 < len(items) else None
            neighbours[item] = (before, after)
    long = [chain for chain in ranked.chains if len(chain.items) > 2]
    for turn in range(_PASSES):
        # From the right, then from the left: who stands outside makes room for the others.
        long.sort(key=lambda chain: sum(item.at for item in chain.items[1:-1]) / (len(chain.items) - 2))
        for chain in reversed(long) if turn % 2 == 0 else long:
            _straighten(chain, neighbours)


def _straighten(chain: RankChain, neighbours: dict[Item, tuple[Item | None, Item | None]]) -> None:
    inner = chain.items[1:-1]
    start = chain.links[0].upper.at + chain.links[0].upper_off
    end = chain.links[-1].lower.at + chain.links[-1].lower_off
    runs: list[tuple[list[Item], float, float]] = []
    for item in inner:
        low, high = _room(item, neighbours[item])
        if runs and max(runs[-1][1], low) <= min(runs[-1][2], high):
            items, least, most = runs[-1]
            runs[-1] = ([*items, item], max(least, low), min(most, high))
        else:
            runs.append(([item], low, high))
    at = start
    for place, (items, low, high) in enumerate(runs):
        # Where it comes from, unless going where it has to go saves a turn.
        ahead = runs[place + 1][1:] if place + 1 < len(runs) else (end, end)
        wish = min(max(at, ahead[0]), ahead[1]) if low <= min(max(at, ahead[0]), ahead[1]) <= high else at
        at = min(max(wish, low), high)
        for item in items:
            item.at = at - item.cross / 2


def _room(item: Item, around: tuple[Item | None, Item | None]) -> tuple[float, float]:
    """From where to where the middle of an item can move."""
    before, after = around
    half = item.cross / 2
    low = before.at + before.cross + gap(before, item) + half if before is not None else -_FAR
    high = after.at - gap(item, after) - half if after is not None else _FAR
    return min(low, item.at + half), max(high, item.at + half)
