"""Layer 5. Where along its rank does each thing stand, and where on a box does each arrow end?

Things keep their order and their distance; within that, links are as straight as they can be. For one rank that is
a regression over values that must not fall, solved exactly by joining neighbours that disagree.
"""

import itertools
from collections.abc import Sequence

from wakeful.diagrams.ranks import Item, RankChain, Ranked, RankLink, gap

# How many bends does a long arrow need?
#
# A staircase is as short as one step, so the shortest placement may well be a staircase. Here each stretch of bends and
# labels is put on one line as far as its neighbours leave room for that.

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


_SWEEPS = 12
PORT_GAP = 14.0  # between the ends of arrows on a box
PORT_EDGE = 12.0  # from the corner of a box to the end of an arrow
LABEL_EDGE = 7.0  # the same of a label

Wish = tuple[float, float]  # where, and how much


def place(ranked: Ranked) -> None:
    """Give each item its `at` and each link the ends on its items."""
    ups: dict[Item, list[RankLink]] = {}
    downs: dict[Item, list[RankLink]] = {}
    links = [link for chain in ranked.chains for link in chain.links]
    for link in links:
        downs.setdefault(link.upper, []).append(link)
        ups.setdefault(link.lower, []).append(link)
    for items in ranked.ranks:
        _ends_spread(items, ups, downs)
        at = 0.0
        for before, item in zip([None, *items], items, strict=False):
            at += gap(before, item) if before is not None else 0.0
            item.at = at
            at += item.cross
    best, least = [item.at for items in ranked.ranks for item in items], _bent(links)
    for sweep in range(_SWEEPS):
        is_last = sweep >= _SWEEPS - 4
        for items in ranked.ranks if sweep % 2 == 0 else reversed(ranked.ranks):
            _settle(items, ups if sweep % 2 == 0 or is_last else {}, downs if sweep % 2 == 1 or is_last else {})
        bent = _bent(links)
        if bent < least - 0.01:
            best, least = [item.at for items in ranked.ranks for item in items], bent
    for item, at in zip((item for items in ranked.ranks for item in items), best, strict=True):
        item.at = at
    straighten(ranked)
    for items in ranked.ranks:
        _ends_near([item for item in items if item.kind == "box"], ups, downs)
    for items in ranked.ranks:
        _ends_across([item for item in items if item.kind == "label"], ups, downs)
    least_at = min((item.at for items in ranked.ranks for item in items), default=0.0)
    for items in ranked.ranks:
        for item in items:
            item.at -= least_at


def isotonic(wishes: Sequence[Sequence[Wish]], gaps: Sequence[float]) -> list[float]:
    """Values at least `gaps` apart in their order, with the least sum of weighted distances from the wishes."""
    blocks: list[tuple[float, list[Wish], int]] = []
    shift, shifts = 0.0, []
    for place, wanted in enumerate(wishes):
        shift += gaps[place - 1] if place else 0.0
        shifts.append(shift)
        mine = [(at - shift, weight) for at, weight in wanted]
        block = (_median(mine), mine, 1)
        while blocks and blocks[-1][0] > block[0]:
            _, theirs, count = blocks.pop()
            joined = theirs + block[1]
            block = (_median(joined), joined, count + block[2])
        blocks.append(block)
    values = [value for value, _, count in blocks for _ in range(count)]
    return [value + shift for value, shift in zip(values, shifts, strict=True)]


def _median(wishes: list[Wish]) -> float:
    """The middle of where the weighted distances have their least sum."""
    ordered = sorted(wishes)
    half = sum(weight for _, weight in ordered) / 2
    passed = 0.0
    for place, (at, weight) in enumerate(ordered):
        passed += weight
        if passed > half + 1e-9:
            return at
        if passed >= half - 1e-9:
            return (at + ordered[min(place + 1, len(ordered) - 1)][0]) / 2
    return ordered[-1][0]


def _settle(items: list[Item], ups: dict[Item, list[RankLink]], downs: dict[Item, list[RankLink]]) -> None:
    wishes: list[list[Wish]] = []
    for item in items:
        wanted = [(link.upper.at + link.upper_off - link.lower_off, _weight(link)) for link in ups.get(item, ())]
        wanted += [(link.lower.at + link.lower_off - link.upper_off, _weight(link)) for link in downs.get(item, ())]
        wishes.append(wanted or [(item.at, 0.05)])
    gaps = [before.cross + gap(before, item) for before, item in itertools.pairwise(items)]
    for item, at in zip(items, isotonic(wishes, gaps), strict=True):
        item.at = at


def _weight(link: RankLink) -> float:
    """Bends in the middle of an arrow hurt most: a reader follows it there by its straightness alone."""
    soft = (link.upper.kind in ("box", "title")) + (link.lower.kind in ("box", "title"))
    return (6.0, 3.0, 1.0)[soft] if link.edge.kind != "initial" else 4.0


def _bent(links: list[RankLink]) -> float:
    return sum(_weight(link) * abs(link.upper.at + link.upper_off - link.lower.at - link.lower_off) for link in links)


def _ends_spread(items: list[Item], ups: dict[Item, list[RankLink]], downs: dict[Item, list[RankLink]]) -> None:
    """Ends of arrows side by side in the order of where they come from."""
    for item in items:
        for is_front, links in ((True, ups.get(item, [])), (False, downs.get(item, []))):
            free = []
            for link in sorted(links, key=lambda link: _far_order(link, is_front=is_front)):
                fixed = (item.front if is_front else item.back).get(link.edge)
                if fixed is not None:
                    _set_off(link, fixed, is_front=is_front)
                else:
                    free.append(link)
            step = min(item.reach / (len(free) + 1), 2.5 * PORT_GAP)
            for place, link in enumerate(free):
                _set_off(link, item.reach / 2 + (place - (len(free) - 1) / 2) * step, is_front=is_front)


def _far_order(link: RankLink, *, is_front: bool) -> float:
    item = link.upper if is_front else link.lower
    inner = (item.back if is_front else item.front).get(link.edge, item.reach / 2)
    return item.order + inner / (item.cross + 1)


def _set_off(link: RankLink, off: float, *, is_front: bool) -> None:
    if is_front:
        link.lower_off = off
    else:
        link.upper_off = off


def _ends_near(items: list[Item], ups: dict[Item, list[RankLink]], downs: dict[Item, list[RankLink]]) -> None:
    """Ends of arrows right across from where they come from, as far as the box reaches."""
    for item in items:
        for is_front, links in ((True, ups.get(item, [])), (False, downs.get(item, []))):
            ports = item.front if is_front else item.back
            free = [link for link in links if link.edge not in ports]
            if not free or item.reach <= 2 * PORT_EDGE:
                continue
            free.sort(key=lambda link: _far_order(link, is_front=is_front))
            for link, off in zip(free, _near(item, free, list(ports.values()), is_front=is_front), strict=True):
                _set_off(link, off, is_front=is_front)


def _ends_across(items: list[Item], ups: dict[Item, list[RankLink]], downs: dict[Item, list[RankLink]]) -> None:
    """Arrows go straight through a label where it is wide enough, else through its middle."""
    for item in items:
        for is_front, links in ((True, ups[item]), (False, downs[item])):
            link = links[0]
            far = link.upper.at + link.upper_off if is_front else link.lower.at + link.lower_off
            if LABEL_EDGE <= far - item.at <= item.reach - LABEL_EDGE:
                _set_off(link, far - item.at, is_front=is_front)


def _near(item: Item, links: list[RankLink], taken: list[float], *, is_front: bool) -> list[float]:
    low, high = PORT_EDGE, item.reach - PORT_EDGE
    step = min(PORT_GAP, (high - low) / max(1, len(links) - 1)) if len(links) > 1 else 0.0
    wishes: list[list[Wish]] = []
    for place, link in enumerate(links):
        far = link.upper.at + link.upper_off if is_front else link.lower.at + link.lower_off
        # Room for those before and after it, so that the order can be kept within the box.
        wishes.append([(min(max(far - item.at, low + place * step), high - (len(links) - 1 - place) * step), 1.0)])
    offsets = isotonic(wishes, [step] * (len(links) - 1))
    if not taken:
        return offsets
    kept = list(taken)
    for place, off in enumerate(offsets):
        offsets[place] = _aside(off, kept, low, high)
        kept.append(offsets[place])
    return offsets


def _aside(off: float, taken: list[float], low: float, high: float) -> float:
    """Not where another arrow passes through the same border."""
    steps = [0.0, *(sign * step * 3.0 for step in range(1, 40) for sign in (1, -1))]
    for step in steps:
        if low <= off + step <= high and all(abs(off + step - other) >= PORT_GAP - 3 for other in taken):
            return off + step
    return off
