"""Layer 5. Where is everything?

Each box is laid out by itself, from the inside out: ranks along one axis, down or to the right, whichever needs the
smaller screen. A box through whose border arrows pass has the axis of the one around it, so that they go straight on.
"""

from collections.abc import Iterable

from msgspec import Struct

from wakeful.diagrams.flow import Flow, Path, Point, flow
from wakeful.diagrams.positions import PORT_EDGE, PORT_GAP
from wakeful.diagrams.scene import PAD, Box, Edge, Piece, Scene, Size, header_size, leaf_size, lift

# How do groups that no arrow connects stand beside each other?

GAP = 22.0


def pack(flows: list[Flow], *, ratio: float, is_down: bool, is_even: bool) -> Flow:
    """All of them in rows, in their order, about as wide to high as `ratio`; `is_even` gives a row one height."""
    best = min(
        (_rows(flows, limit) for limit in sorted({_upto(flows, count) for count in range(1, len(flows) + 1)})),
        key=lambda rows: max(_width(rows) / ratio, _height(rows)),
    )
    packed = Flow(0.0, 0.0, [], {}, [], {}, {})
    y = 0.0
    for row in best:
        high = max(part.h for part in row)
        x = 0.0
        for part in row:
            if is_even:
                _stretch(part, high)
            part.shift(x, y, 0.0, 0.0, is_down=is_down)
            packed.places += part.places
            packed.labels |= part.labels
            packed.paths += part.paths
            x += part.w + GAP
        packed.w = max(packed.w, x - GAP)
        y += high + GAP
    packed.h = y - GAP
    return packed


def _upto(flows: list[Flow], count: int) -> float:
    return sum(one.w for one in flows[:count]) + GAP * (count - 1)


def _rows(flows: list[Flow], limit: float) -> list[list[Flow]]:
    rows: list[list[Flow]] = [[]]
    wide = 0.0
    for one in flows:
        if rows[-1] and wide + one.w > limit + 0.5:
            rows.append([])
            wide = 0.0
        rows[-1].append(one)
        wide += one.w + GAP
    return rows


def _width(rows: list[list[Flow]]) -> float:
    return max(sum(one.w for one in row) + GAP * (len(row) - 1) for row in rows)


def _height(rows: list[list[Flow]]) -> float:
    return sum(max(one.h for one in row) for row in rows) + GAP * (len(rows) - 1)


def _stretch(one: Flow, high: float) -> None:
    for child in one.places:
        if child.box.is_region and child.loop is None:
            child.plan = child.plan.grown(child.plan.w, high)
    one.h = high


# A screen is wider than high; between the axes the one decides that has to be scaled down less.
RATIO = 1.45


class Rect(Struct, frozen=True):
    """A place and a size."""

    x: float
    y: float
    w: float
    h: float


class BoxPlan(Struct):
    """A box with the places of all in it, as seen from its own corner."""

    w: float
    h: float
    front: dict[Edge, float]  # where arrows pass the border, along the axis across
    back: dict[Edge, float]
    content: Flow | None
    is_down: bool

    def grown(self, w: float, h: float) -> "BoxPlan":
        """The same with more room at its back; what passes the border there goes on to it."""
        content = self.content
        if content is not None:
            paths = []
            for piece, points in content.paths:
                if piece.head is None:
                    points = [*points, (points[-1][0], h) if self.is_down else (w, points[-1][1])]
                paths.append((piece, points))
            content = Flow(content.w, content.h, content.places, content.labels, paths, content.front, content.back)
        return BoxPlan(w, h, self.front, self.back, content, self.is_down)


class Layout(Struct, frozen=True):
    """Everything with its place in the picture."""

    w: float
    h: float
    boxes: dict[Box, Rect]
    labels: dict[Edge, Rect]
    loops: dict[Box, Rect]  # the labels of ways from a box to itself
    paths: dict[Edge, Path]  # corner points, from the source to the target


def lay_out(scene: Scene) -> Layout:
    """Give everything its place; the same scene gives the same picture."""
    pieces = lift(scene.root, scene.edges)
    made = _Layouts(pieces)
    plan = made.best(scene.root)
    places = _Found()
    places.take(scene.root, plan, 0.0, 0.0)
    return Layout(
        w=plan.w,
        h=plan.h,
        boxes=places.boxes,
        labels=places.labels,
        loops=places.loops,
        paths={edge: _join(edge, parts) for edge, parts in places.parts.items()},
    )


class _Layouts:
    def __init__(self, pieces: dict[Box, list[Piece]]) -> None:
        self._pieces = pieces
        self._plans: dict[tuple[Box, bool], BoxPlan] = {}

    def best(self, box: Box) -> BoxPlan:
        """The plan along the better axis."""
        down = self.plan(box, is_down=True)
        across = self.plan(box, is_down=False)
        return across if _screen(across) < 0.92 * _screen(down) else down

    def plan(self, box: Box, *, is_down: bool) -> BoxPlan:
        """The plan along that axis."""
        key = (box, is_down)
        if key not in self._plans:
            self._plans[key] = self._plan_box(box, is_down=is_down)
        return self._plans[key]

    def _plan_box(self, box: Box, *, is_down: bool) -> BoxPlan:
        if not box.children:
            w, h = leaf_size(box)
            room = self._room(box)
            w, h = (max(w, room), h) if is_down else (w, max(h, room))
            return BoxPlan(w, h, {}, {}, None, is_down)
        pieces = self._pieces.get(box, [])
        plans = {child: self._child(child, is_down=is_down) for child in box.children}
        head = header_size(box)
        content = self._content(box, plans, pieces, head, is_down=is_down)
        top = max(head[1], PAD) + (6.0 if head[1] else 0.0)
        w = max(content.w + 2 * PAD, head[0])
        # A narrow chart under a long title stands in the middle.
        left = (w - content.w) / 2
        h = top + content.h + PAD
        content.shift(left, top, w, h, is_down=is_down)
        return BoxPlan(w, h, content.front, content.back, content, is_down)

    def _room(self, box: Box) -> float:
        """What the arrows need that end on one side of a box."""
        around = self._pieces.get(box.parent, []) if box.parent is not None else []
        count = max(sum(piece.tail is box for piece in around), sum(piece.head is box for piece in around))
        return 2 * PORT_EDGE + PORT_GAP * (count - 1) if count > 1 else 0.0

    def _child(self, child: Box, *, is_down: bool) -> BoxPlan:
        passes = any(
            child not in (piece.edge.source, piece.edge.target)
            for piece in self._pieces.get(child, ())
            if piece.tail is None or piece.head is None
        )
        return self.plan(child, is_down=is_down) if passes or not child.children else self.best(child)

    def _content(self, box: Box, plans: dict[Box, BoxPlan], pieces: list[Piece], head: Size, *, is_down: bool) -> Flow:
        title = (head[0], 0.0) if is_down and head[1] else None
        groups = _groups(box, pieces)
        if len(groups) == 1 or any(piece.tail is None or piece.head is None for piece in pieces):
            return flow(plans, pieces, title, is_down=is_down, is_even=box.is_parallel)
        flows = [
            flow(
                {child: plans[child] for child in group},
                [piece for piece in pieces if piece.tail in group],
                None,
                is_down=is_down,
                is_even=False,
            )
            for group in groups
        ]
        return pack(flows, ratio=RATIO, is_down=is_down, is_even=box.is_parallel)


def _screen(plan: BoxPlan) -> float:
    return max(plan.w / RATIO, plan.h)


def _groups(box: Box, pieces: Iterable[Piece]) -> list[list[Box]]:
    """The boxes inside that arrows connect, in the order of the chart."""
    group = {child: [child] for child in box.children}
    for piece in pieces:
        if piece.tail is None or piece.head is None:
            continue
        members, two = group[piece.tail], group[piece.head]
        if members is not two:
            members += two
            for child in two:
                group[child] = members
    groups: list[list[Box]] = []
    place = {child: at for at, child in enumerate(box.children)}
    for child in box.children:
        if not any(group[child] is known for known in groups):
            groups.append(group[child])
    for members in groups:
        members.sort(key=lambda child: place[child])
    return groups


class _Found:
    """Collects the places of everything, as seen from the corner of the picture."""

    def __init__(self) -> None:
        self.boxes: dict[Box, Rect] = {}
        self.labels: dict[Edge, Rect] = {}
        self.loops: dict[Box, Rect] = {}
        self.parts: dict[Edge, list[tuple[Box, list[Point]]]] = {}

    def take(self, box: Box, plan: BoxPlan, x: float, y: float) -> None:
        self.boxes[box] = Rect(x, y, plan.w, plan.h)
        if plan.content is None:
            return
        for child in plan.content.places:
            self.take(child.box, child.plan, x + child.x, y + child.y)
            if child.loop is not None:
                left, top, w, h = child.loop
                self.loops[child.box] = Rect(x + left, y + top, w, h)
        for edge, (left, top, w, h) in plan.content.labels.items():
            self.labels[edge] = Rect(x + left, y + top, w, h)
        for piece, points in plan.content.paths:
            moved = [(x + px, y + py) for px, py in points]
            self.parts.setdefault(piece.edge, []).append((box, moved[::-1] if piece.is_turned else moved))


def _join(edge: Edge, parts: list[tuple[Box, list[Point]]]) -> Path:
    """The whole way of an arrow: out of the boxes around its source, then into those around its target."""
    sources, targets = set(edge.source.ancestors()), set(edge.target.ancestors())

    def key(part: tuple[Box, list[Point]]) -> tuple[int, int]:
        box = part[0]
        if box in sources and box in targets:
            return (1, 0)
        return (0, -box.depth) if box in sources else (2, box.depth)

    points: list[Point] = []
    for _, some in sorted(parts, key=key):
        points += some
    return simplify(points)


def simplify(points: list[Point]) -> Path:
    """Corner points only."""
    corners: list[Point] = []
    for point in points:
        if corners and abs(corners[-1][0] - point[0]) < 0.01 and abs(corners[-1][1] - point[1]) < 0.01:
            continue
        if len(corners) > 1 and _is_on_the_way(corners[-2], corners[-1], point):
            corners[-1] = point
        else:
            corners.append(point)
    return tuple(corners)


def _is_on_the_way(one: Point, two: Point, three: Point) -> bool:
    return any(abs(one[axis] - two[axis]) < 0.01 and abs(two[axis] - three[axis]) < 0.01 for axis in (0, 1))
