"""Layer 5. How do groups that no arrow connects stand beside each other?"""

from wakeful.diagrams.flow import Flow

GAP = 22.0


def pack(flows: list[Flow], *, ratio: float, is_down: bool, is_even: bool) -> Flow:
    """All of them in rows, in their order, about as wide to high as `ratio`; `is_even` gives a row one height."""
    best = min(
        (_rows(flows, limit) for limit in sorted({_upto(flows, count) for count in range(1, len(flows) + 1)})),
        key=lambda rows: max(_width(rows) / ratio, _height(rows)),
    )
    found = Flow(0.0, 0.0, [], {}, [], {}, {})
    y = 0.0
    for row in best:
        high = max(one.h for one in row)
        x = 0.0
        for one in row:
            if is_even:
                _stretch(one, high)
            one.shift(x, y, 0.0, 0.0, is_down=is_down)
            found.places += one.places
            found.labels |= one.labels
            found.paths += one.paths
            x += one.w + GAP
        found.w = max(found.w, x - GAP)
        y += high + GAP
    found.h = y - GAP
    return found


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
