"""Layer 5. In which order do the things of a rank stand, so that few arrows cross?"""

from bisect import bisect_right, insort

from wakeful.diagrams.ranks import Item, Ranked, RankLink

_SWEEPS = 16
# Past so many links a sweep is slow, and nobody counts the crossings of such a picture.
_LINKS_FINE = 400


def order(ranked: Ranked) -> None:
    """Sort each rank, from the order that it has; the same input gives the same order."""
    ups: dict[Item, list[RankLink]] = {}
    downs: dict[Item, list[RankLink]] = {}
    gaps: list[list[RankLink]] = [[] for _ in ranked.ranks]
    for chain in ranked.chains:
        for link in chain.links:
            downs.setdefault(link.upper, []).append(link)
            ups.setdefault(link.lower, []).append(link)
            gaps[link.upper.rank].append(link)
    _first(ranked, ups)
    best = _snapshot(ranked)
    fewest = _crossings(gaps)
    sweeps = _SWEEPS if sum(map(len, gaps)) <= _LINKS_FINE else 4
    for sweep in range(sweeps):
        if fewest == 0:
            break
        is_down = sweep % 2 == 0
        for items in ranked.ranks if is_down else reversed(ranked.ranks):
            _sort(items, ups if is_down else downs, is_down=is_down, keeps_ties=sweep % 4 < 2)
        if sweeps == _SWEEPS:
            for items in ranked.ranks:
                _swap(items, ups, downs)
        count = _crossings(gaps)
        if count < fewest:
            fewest, best = count, _snapshot(ranked)
    for items, kept in zip(ranked.ranks, best, strict=True):
        items[:] = kept
        _number(items)


def _first(ranked: Ranked, ups: dict[Item, list[RankLink]]) -> None:
    """From front to back, each under what leads to it."""
    for items in ranked.ranks:
        _number(items)
    for items in ranked.ranks[1:]:
        _sort(items, ups, is_down=True, keeps_ties=True)


def _snapshot(ranked: Ranked) -> list[list[Item]]:
    return [list(items) for items in ranked.ranks]


def _number(items: list[Item]) -> None:
    items.sort(key=lambda item: item.kind != "title")
    for place, item in enumerate(items):
        item.order = place


def _upper(link: RankLink) -> float:
    item = link.upper
    return item.order + _share(item.back.get(link.edge), item)


def _lower(link: RankLink) -> float:
    item = link.lower
    return item.order + _share(item.front.get(link.edge), item)


def _share(offset: float | None, item: Item) -> float:
    return 0.45 if offset is None or not item.cross else 0.9 * offset / item.cross


def _sort(items: list[Item], links: dict[Item, list[RankLink]], *, is_down: bool, keeps_ties: bool) -> None:
    """By the mean of the neighbours; what has none stays where it is."""
    wish = {}
    for item in items:
        found = [_upper(link) if is_down else _lower(link) for link in links.get(item, ())]
        if found:
            wish[item] = sum(found) / len(found)
    movable = [item for item in items if item in wish]
    movable.sort(key=lambda item: (wish[item], item.order if keeps_ties else -item.order))
    rest = iter(movable)
    items[:] = [next(rest) if item in wish else item for item in items]
    _number(items)


def _swap(items: list[Item], ups: dict[Item, list[RankLink]], downs: dict[Item, list[RankLink]]) -> None:
    """Swap neighbours as long as that takes crossings away."""
    is_better = True
    rounds = 0
    while is_better and rounds < 6:
        is_better = False
        rounds += 1
        for place in range(len(items) - 1):
            one, two = items[place], items[place + 1]
            if one.kind == "title":
                continue
            now = _between(one, two, ups, downs)
            then = _between(two, one, ups, downs)
            if then < now:
                items[place], items[place + 1] = two, one
                one.order, two.order = two.order, one.order
                is_better = True


def _between(one: Item, two: Item, ups: dict[Item, list[RankLink]], downs: dict[Item, list[RankLink]]) -> int:
    """The crossings between the links of two neighbours, when `one` stands first."""
    count = 0
    for links, place in ((ups, _upper), (downs, _lower)):
        seconds = sorted(place(link) for link in links.get(two, ()))
        for link in links.get(one, ()):
            at = place(link)
            count += sum(1 for other in seconds if other < at)
    return count


def _crossings(gaps: list[list[RankLink]]) -> int:
    count = 0
    for links in gaps:
        seen: list[float] = []
        for _, lower in sorted((_upper(link), _lower(link)) for link in links):
            count += len(seen) - bisect_right(seen, lower)
            insort(seen, lower)
    return count
