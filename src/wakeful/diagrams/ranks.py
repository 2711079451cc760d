"""Layer 5. In which rank, from front to back, is each box, label and bend, and in which order do those of a rank stand?

States are in even ranks and labels in odd ones between them, so that a label has a place of its own.
"""

import itertools
from bisect import bisect_right, insort

from msgspec import Struct

from wakeful.diagrams.scene import Box, Edge, Piece

GAP = 22.0  # between boxes of a rank
BEND_GAP = 14.0  # between things of which one is a bend or a port
_TIGHTENINGS = 4


class Item:
    """Something with a place in a rank. Its `cross` is its size along the rank, `main` the one from front to back."""

    __slots__ = ("at", "back", "body", "box", "cross", "edge", "front", "kind", "main", "order", "rank", "reach", "top")

    def __init__(self, kind: str, *, cross: float = 0.0, main: float = 0.0) -> None:
        self.kind = kind  # box, label, bend, port or title
        self.box: Box | None = None
        self.edge: Edge | None = None
        self.cross = cross
        self.main = main
        self.reach = cross  # arrows end on this part of it; the rest are its loops
        self.body = main  # likewise along the other axis, in the middle
        self.front: dict[Edge, float] = {}  # where arrows pass its border on their way in, if that is fixed
        self.back: dict[Edge, float] = {}
        self.rank = 0
        self.order = 0
        self.at = 0.0
        self.top = 0.0


class RankLink:
    """A straight part of a piece, from a rank to the next."""

    __slots__ = ("edge", "lower", "lower_off", "upper", "upper_off")

    def __init__(self, edge: Edge, upper: Item, lower: Item) -> None:
        self.edge = edge
        self.upper = upper
        self.lower = lower
        self.upper_off = 0.0
        self.lower_off = 0.0


class RankChain(Struct):
    """A piece with all it passes: its ends, bends and label, from front to back."""

    piece: Piece
    items: list[Item]
    links: list[RankLink]
    label: Item | None = None


class Ranked(Struct, frozen=True):
    """Items by rank, and the chains that connect them."""

    ranks: list[list[Item]]
    chains: list[RankChain]


def rank(
    boxes: dict[Box, Item],
    pieces: list[Piece],
    labels: dict[Edge, tuple[float, float]],
    title: tuple[float, float] | None,
) -> Ranked:
    """Give everything its rank; `labels` are their sizes, `title` is kept free where arrows come in at the front."""
    dots = {piece.tail: piece for piece in pieces if piece.tail is not None and piece.tail.kind == "dot"}
    _spread(boxes, [piece for piece in pieces if piece.tail not in dots])
    for dot, piece in dots.items():
        assert dot is not None
        assert piece.head is not None
        boxes[dot].rank = boxes[piece.head].rank - (2 if piece.is_labelled else 1)
    ranks = [item.rank for item in boxes.values()]
    front = [piece for piece in pieces if piece.tail is None]
    back = [piece for piece in pieces if piece.head is None]
    # Dots may stand before rank 0 already; a port is before everything.
    first = min([*ranks, 0]) if not front else min([*ranks, -2 if any(one.is_labelled for one in front) else -1])
    last = max([*ranks, 0]) if not back else max(ranks) + (2 if any(one.is_labelled for one in back) else 1)
    placed = list(boxes.values())
    if title is not None and front:
        item = Item("title", cross=title[0], main=title[1])
        item.rank = first
        placed.append(item)
    load: dict[int, float] = {}
    chains = []
    for piece in pieces:
        chain = _chain(piece, boxes, first, last)
        placed += [item for item in chain.items if item.kind == "port"]
        if piece.is_labelled:
            chain.label = _label(chain, labels[piece.edge], load)
            placed.append(chain.label)
        chains.append(chain)
    return _fill(placed, chains)


def _spread(boxes: dict[Box, Item], pieces: list[Piece]) -> None:
    """Ranks of the states: each after those that lead to it, and as near to its neighbours as can be."""
    into: dict[Box, list[Box]] = {box: [] for box in boxes}
    out: dict[Box, list[Box]] = {box: [] for box in boxes}
    for piece in pieces:
        if piece.tail is not None and piece.head is not None:
            into[piece.head].append(piece.tail)
            out[piece.tail].append(piece.head)
    waits = {box: len(tails) for box, tails in into.items()}
    ready = [box for box in boxes if not waits[box]]
    order = []
    while ready:
        box = ready.pop(0)
        order.append(box)
        for head in out[box]:
            boxes[head].rank = max(boxes[head].rank, boxes[box].rank + 2)
            waits[head] -= 1
            if not waits[head]:
                ready.append(head)
    for _ in range(_TIGHTENINGS):
        for box in reversed(order):
            if len(out[box]) > len(into[box]):
                boxes[box].rank = min(boxes[head].rank for head in out[box]) - 2
    lowest = min((item.rank for box, item in boxes.items() if box.kind != "dot"), default=0)
    for item in boxes.values():
        item.rank -= lowest


def _chain(piece: Piece, boxes: dict[Box, Item], first: int, last: int) -> RankChain:
    ends = []
    for box, at in ((piece.tail, first), (piece.head, last)):
        if box is None:
            item = Item("port")
            item.edge = piece.edge
            item.rank = at
        else:
            item = boxes[box]
        ends.append(item)
    return RankChain(piece=piece, items=ends, links=[])


def _label(chain: RankChain, size: tuple[float, float], load: dict[int, float]) -> Item:
    """A label in the emptiest of the ranks it passes, the nearest to where the arrow starts if several are."""
    tail, head = chain.items
    odd = [at for at in range(tail.rank + 1, head.rank) if at % 2]
    start = head.rank if chain.piece.is_turned else tail.rank
    at = min(odd, key=lambda one: (load.get(one, 0.0), abs(one - start)))
    load[at] = load.get(at, 0.0) + size[0]
    item = Item("label", cross=size[0], main=size[1])
    item.edge = chain.piece.edge
    item.rank = at
    return item


def _fill(placed: list[Item], chains: list[RankChain]) -> Ranked:
    """Ranks without gaps, with a bend wherever a piece passes one."""
    used = sorted({item.rank for item in placed})
    dense = {at: place for place, at in enumerate(used)}
    ranks: list[list[Item]] = [[] for _ in used]
    for item in placed:
        item.rank = dense[item.rank]
        ranks[item.rank].append(item)
    for chain in chains:
        tail, head = chain.items
        items = [tail]
        for at in range(tail.rank + 1, head.rank):
            if chain.label is not None and chain.label.rank == at:
                items.append(chain.label)
                continue
            bend = Item("bend")
            bend.edge = chain.piece.edge
            bend.rank = at
            ranks[at].append(bend)
            items.append(bend)
        items.append(head)
        chain.items = items
        chain.links = [RankLink(chain.piece.edge, upper, lower) for upper, lower in itertools.pairwise(items)]
    return Ranked(ranks=ranks, chains=chains)


def gap(before: Item, item: Item) -> float:
    """The room between two neighbours of a rank."""
    return BEND_GAP if {before.kind, item.kind} & {"bend", "port"} else GAP


# In which order do the things of a rank stand, so that few arrows cross?

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
            left, right = items[place], items[place + 1]
            if left.kind == "title":
                continue
            now = _between(left, right, ups, downs)
            then = _between(right, left, ups, downs)
            if then < now:
                items[place], items[place + 1] = right, left
                left.order, right.order = right.order, left.order
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
