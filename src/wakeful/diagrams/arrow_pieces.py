"""Layer 5. Which pieces of an arrow lie in which box, and does each go with the flow or against it?

An arrow between two states is drawn in the smallest box that holds both, between the boxes there; what is left of it
runs inside those, from a port in their border. In each box the pieces flow from front to back; an arrow that would
close a circle is turned around for that, and only its head stays where it belongs.
"""

import itertools

from msgspec import Struct

from wakeful.diagrams.scene import Box, Edge


class Piece(Struct, frozen=True):
    """A part of an arrow inside one box; None stands for a port: in the front as tail, in the back as head."""

    edge: Edge
    tail: Box | None
    head: Box | None
    is_turned: bool  # the arrow points from head to tail here
    is_labelled: bool


def lift(root: Box, edges: list[Edge]) -> dict[Box, list[Piece]]:
    """The pieces of all arrows, by the box in which they lie."""
    homes: dict[Box, list[tuple[Edge, list[Box], list[Box]]]] = {}
    for edge in edges:
        home, source, target = _home(edge)
        homes.setdefault(home, []).append((edge, source, target))
    pieces: dict[Box, list[Piece]] = {}
    ahead = [root]
    while ahead:
        box = ahead.pop()
        ahead += reversed(box.children)
        _lift_in(box, homes.get(box, []), pieces)
    return pieces


def _home(edge: Edge) -> tuple[Box, list[Box], list[Box]]:
    """The box in which an arrow has its label, and the ways down from there to its ends."""
    source, target = edge.source.ancestors()[::-1], edge.target.ancestors()[::-1]
    common = 0
    while common < min(len(source), len(target)) and source[common] is target[common]:
        common += 1
    return source[common - 1], source[common:], target[common:]


def _lift_in(box: Box, own: list[tuple[Edge, list[Box], list[Box]]], pieces: dict[Box, list[Piece]]) -> None:
    inner = [(source[0], target[0]) for _, source, target in own if source and target]
    turned = _against(box, inner)
    for edge, source, target in own:
        is_turned = bool(source and target) and (source[0], target[0]) in turned
        first, last = (target, source) if is_turned else (source, target)
        piece = Piece(
            edge=edge,
            tail=first[0] if first else None,
            head=last[0] if last else None,
            is_turned=is_turned,
            is_labelled=bool(edge.rows),
        )
        pieces.setdefault(box, []).append(piece)
        for above, below in itertools.pairwise(first):
            rest = Piece(edge=edge, tail=below, head=None, is_turned=is_turned, is_labelled=False)
            pieces.setdefault(above, []).append(rest)
        for above, below in itertools.pairwise(last):
            rest = Piece(edge=edge, tail=None, head=below, is_turned=is_turned, is_labelled=False)
            pieces.setdefault(above, []).append(rest)


def _against(box: Box, links: list[tuple[Box, Box]]) -> set[tuple[Box, Box]]:
    """The links that lead back to where a walk from the first state came from."""
    ways: dict[Box, list[Box]] = {}
    for tail, head in links:
        ways.setdefault(tail, []).append(head)
    back_links: set[tuple[Box, Box]] = set()
    entered: set[Box] = set()
    left: set[Box] = set()
    for start in box.children:
        if start in entered:
            continue
        entered.add(start)
        walk = [(start, iter(ways.get(start, ())))]
        while walk:
            at, rest = walk[-1]
            onward = next(rest, None)
            if onward is None:
                left.add(at)
                walk.pop()
            elif onward not in entered:
                entered.add(onward)
                walk.append((onward, iter(ways.get(onward, ()))))
            elif onward not in left:
                back_links.add((at, onward))
    return back_links
