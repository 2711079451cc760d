"""Layer 5. How do the boxes of one box and the arrows between them flow from front to back?

Ranks, orders and tracks know no directions but along and across; here they become down and right.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from wakeful.diagrams.positions import place
from wakeful.diagrams.ranks import Item, RankChain, Ranked, RankLink, order, rank
from wakeful.diagrams.scene import LOOP, Box, Edge, Piece, label_size

Point = tuple[float, float]
Path = tuple[Point, ...]


class Sized(Protocol):
    """A box that is laid out inside."""

    w: float
    h: float
    front: dict[Edge, float]
    back: dict[Edge, float]

    def grown(self, w: float, h: float) -> "Sized": ...


class BoxPlace(Struct):
    """A box inside another one."""

    box: Box
    plan: Any
    x: float
    y: float
    loop: tuple[float, float, float, float] | None = None  # the label of its ways to itself


class Flow(Struct):
    """Boxes and arrows, as seen from the corner of what they are in."""

    w: float
    h: float
    places: list[BoxPlace]
    labels: dict[Edge, tuple[float, float, float, float]]
    paths: list[tuple[Piece, list[Point]]]
    front: dict[Edge, float]
    back: dict[Edge, float]

    def shift(self, x: float, y: float, w: float, h: float, *, is_down: bool) -> None:
        """Move all of it into a box of that size, and let what passes its border reach it."""
        for one in self.places:
            one.x += x
            one.y += y
            if one.loop is not None:
                one.loop = (one.loop[0] + x, one.loop[1] + y, *one.loop[2:])
        self.labels = {edge: (at[0] + x, at[1] + y, *at[2:]) for edge, at in self.labels.items()}
        moved = [(piece, [(px + x, py + y) for px, py in points]) for piece, points in self.paths]
        self.paths = [(piece, _reaching(piece, points, w, h, is_down=is_down)) for piece, points in moved]
        across = x if is_down else y
        self.front = {edge: at + across for edge, at in self.front.items()}
        self.back = {edge: at + across for edge, at in self.back.items()}


def _reaching(piece: Piece, points: list[Point], w: float, h: float, *, is_down: bool) -> list[Point]:
    if piece.tail is None:
        points = [(points[0][0], 0.0) if is_down else (0.0, points[0][1]), *points]
    if piece.head is None:
        points = [*points, (points[-1][0], h) if is_down else (w, points[-1][1])]
    return points


def flow(
    plans: Mapping[Box, Sized], pieces: list[Piece], title: tuple[float, float] | None, *, is_down: bool, is_even: bool
) -> Flow:
    """Lay out boxes of known sizes; `is_even` makes those of one rank equally thick."""
    items = {box: _item(box, plan, is_down=is_down) for box, plan in plans.items()}
    labels = {piece.edge: _turn(label_size(piece.edge.rows), is_down=is_down) for piece in pieces if piece.is_labelled}
    ranked = rank(items, pieces, labels, title)
    order(ranked)
    place(ranked)
    if is_even:
        for rank_items in ranked.ranks:
            thick = max((item.main for item in rank_items if item.kind == "box"), default=0.0)
            for item in rank_items:
                if item.kind == "box" and item.box is not None and item.box.is_region:
                    item.main = thick
    main, tracks = stack(ranked)
    cross = max((item.at + item.cross for rank_items in ranked.ranks for item in rank_items), default=0.0)
    w, h = _turn((cross, main), is_down=is_down)
    laid_out = Flow(w, h, [], {}, [], {}, {})
    for box, item in items.items():
        laid_out.places.append(_place(box, plans[box], item, is_down=is_down))
    for chain in ranked.chains:
        points = [_turn(point, is_down=is_down) for point in _points(chain, tracks)]
        laid_out.paths.append((chain.piece, points))
        if chain.label is not None:
            x, y = _turn((chain.label.at, chain.label.top), is_down=is_down)
            laid_out.labels[chain.piece.edge] = (x, y, *_turn((chain.label.cross, chain.label.main), is_down=is_down))
        if chain.items[0].kind == "port":
            laid_out.front[chain.piece.edge] = chain.items[0].at
        if chain.items[-1].kind == "port":
            laid_out.back[chain.piece.edge] = chain.items[-1].at
    return laid_out


def _turn(pair: tuple[float, float], *, is_down: bool) -> tuple[float, float]:
    """Across and along as x and y, or the other way round."""
    return pair if is_down else (pair[1], pair[0])


def _item(box: Box, plan: Sized, *, is_down: bool) -> Item:
    cross, main = _turn((plan.w, plan.h), is_down=is_down)
    item = Item("box", cross=cross, main=main)
    item.box = box
    item.front, item.back = plan.front, plan.back
    item.body = main
    if box.loops:
        wide, thick = _turn(label_size(box.loops), is_down=is_down)
        item.cross += LOOP + wide
        item.main = max(main, thick)
    return item


def _place(box: Box, plan: Sized, item: Item, *, is_down: bool) -> BoxPlace:
    if item.body != item.main and not box.loops:
        item.body = item.main  # it was made as thick as its neighbours
        w, h = _turn((item.reach, item.main), is_down=is_down)
        plan = plan.grown(w, h)
    x, y = _turn((item.at, item.top + (item.main - item.body) / 2), is_down=is_down)
    loop = None
    if box.loops:
        wide, thick = _turn(label_size(box.loops), is_down=is_down)
        left, top = _turn((item.at + item.reach + LOOP, item.top + (item.main - thick) / 2), is_down=is_down)
        loop = (left, top, *_turn((wide, thick), is_down=is_down))
    return BoxPlace(box, plan, x, y, loop)


def _points(chain: RankChain, tracks: dict[RankLink, list[float]]) -> list[Point]:
    """The corners of a piece, from front to back."""
    points: list[Point] = []
    for link in chain.links:
        start, end = link.upper.at + link.upper_off, link.lower.at + link.lower_off
        points.append((start, _end_of(link.upper)))
        if link in tracks:
            first, last = tracks[link][0], tracks[link][-1]
            between = end if first == last else (start + end) / 2
            points += [(start, first), (between, first), (between, last), (end, last)]
        points.append((end, _start_of(link.lower)))
        if link.lower.kind == "label":
            points.append((end, link.lower.top + link.lower.main / 2))
            after = chain.links[chain.links.index(link) + 1]
            points.append((after.upper.at + after.upper_off, link.lower.top + link.lower.main / 2))
    return points


def _start_of(item: Item) -> float:
    return item.top + (item.main - item.body) / 2


def _end_of(item: Item) -> float:
    return item.top + (item.main + item.body) / 2


# How far is it from one rank to the next, and on which track does each link go sideways?
#
# Between two ranks a link goes down, sideways on a track, and down again. Tracks are chosen so that links cross no more
# than they must and never lie on each other.

TRACK = 11.0  # between two tracks
_LEAD = 12.0  # from a rank to the first track
_ARROW = 18.0  # from the last track to the next rank: room for a head
_PLAIN = 26.0  # between ranks with no track
_SHORT = 10.0  # to and from a rank of ports
_SAME = 0.75  # nearer than this is straight
_CLOSE = 7.0  # ends nearer than this would lie on each other
_ON_EACH_OTHER = 20  # as bad as so many crossings
_LINKS_FINE = 160  # more links in one gap get tracks by their place alone


def stack(ranked: Ranked) -> tuple[float, dict[RankLink, list[float]]]:
    """Give each item its `top`; the size of all ranks together, and the tracks of each link that goes sideways."""
    gaps: list[list[RankLink]] = [[] for _ in ranked.ranks]
    for chain in ranked.chains:
        for link in chain.links:
            gaps[link.upper.rank].append(link)
    top = 0.0
    lanes: dict[RankLink, list[float]] = {}
    for number, items in enumerate(ranked.ranks):
        thick = max((item.main for item in items), default=0.0)
        for item in items:
            item.top = top + (thick - item.main) / 2
            if item.kind in ("title", "port") and number == 0:
                item.top = top
        top += thick
        if number == len(ranked.ranks) - 1:
            break
        sideways = [link for link in gaps[number] if abs(_start(link) - _end(link)) > _SAME]
        tracks = _tracks(sideways)
        is_short = all(item.kind in ("port", "title") for item in (*items,)) or all(
            item.kind == "port" for item in ranked.ranks[number + 1]
        )
        lead = _SHORT if is_short and number == 0 else _LEAD
        count = 1 + max((max(some) for some in tracks.values()), default=-1)
        for link, some in tracks.items():
            lanes[link] = [top + lead + track * TRACK for track in some]
        plain = _ARROW + 4 if is_short else _PLAIN
        top += max(plain, lead + (count - 1) * TRACK + _ARROW) if count else plain
    return top, lanes


def _start(link: RankLink) -> float:
    return link.upper.at + link.upper_off


def _end(link: RankLink) -> float:
    return link.lower.at + link.lower_off


def _tracks(links: list[RankLink]) -> dict[RankLink, list[int]]:
    """One track for each link, 0 is the nearest to the front; two where one would lead onto another link."""
    if len(links) > _LINKS_FINE:
        rough = sorted(links, key=lambda link: (_start(link), _end(link)))
        return {link: [number] for number, link in enumerate(rough)}
    below: dict[RankLink, list[RankLink]] = {link: [] for link in links}  # what should be nearer to the front than it
    must: dict[RankLink, list[RankLink]] = {link: [] for link in links}  # and of that, what would lie on it otherwise
    stuck: list[RankLink] = []
    for number, link_a in enumerate(links):
        for link_b in links[number + 1 :]:
            if not _meet(link_a, link_b):
                continue
            first, second = _cost(link_a, link_b), _cost(link_b, link_a)
            if min(first, second) >= _ON_EACH_OTHER:
                stuck.append(link_a)  # neither order will do, so it takes both
                below[link_b].append(link_a)
                must[link_b].append(link_a)
            elif first != second:
                near, far = (link_a, link_b) if first < second else (link_b, link_a)
                below[far].append(near)
                if abs(first - second) >= _ON_EACH_OTHER // 2:
                    must[far].append(near)
    track_of: dict[RankLink, int] = {}
    rest = sorted(links, key=lambda link: (min(_start(link), _end(link)), _start(link)))
    while rest:
        # A circle of wishes can't be granted: then one goes without, if possible one that only crosses.
        ready = (
            link_a for wanted in (below, must) for link_a in rest if all(other in track_of for other in wanted[link_a])
        )
        link = next(ready, rest[0])
        rest.remove(link)
        track = 1 + max((track_of[other] for other in below[link] if other in track_of), default=-1)
        while any(track_of[other] == track and _meet(link, other) for other in track_of):
            track += 1
        if any(other not in track_of for other in must[link]):
            stuck.append(link)
        track_of[link] = track
    last = max(track_of.values(), default=0)
    tracks = {link: [track] for link, track in track_of.items()}
    for number, link in enumerate(dict.fromkeys(stuck)):
        # Half of the way before the others, half behind them.
        tracks[link].append(last + 1 + number)
    return tracks


def _meet(one: RankLink, two: RankLink) -> bool:
    low, high = sorted((_start(one), _end(one)))
    other_low, other_high = sorted((_start(two), _end(two)))
    return low - _CLOSE < other_high and other_low - _CLOSE < high


def _cost(near: RankLink, far: RankLink) -> int:
    """Crossings when `near` has the track closer to the front; lying on each other counts for many."""
    low, high = sorted((_start(near), _end(near)))
    cost = 1 if low < _start(far) < high else 0
    low, high = sorted((_start(far), _end(far)))
    cost += 1 if low < _end(near) < high else 0
    if abs(_end(near) - _start(far)) < _CLOSE:
        cost += _ON_EACH_OTHER
    return cost
