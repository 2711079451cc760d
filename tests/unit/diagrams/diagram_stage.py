"""Random charts, and what must not be in a picture of one: things on each other, arrows through boxes."""

import itertools
import random
from typing import Any

from wakeful.diagrams.layout import Layout, Rect
from wakeful.diagrams.scene import PAD, Box, Scene, header_size

NEAR = 0.5  # less than can be seen


def random_chart(dice: random.Random, *, states: int = 14, depth: int = 3) -> dict[str, Any]:
    """A chart with nested and parallel states, histories, delays, loops and arrows between any two states."""
    ids: list[str] = []

    def state(level: int) -> dict[str, Any]:
        id = f"s{len(ids)}"
        ids.append(id)
        made: dict[str, Any] = {"id": id}
        kind = dice.random()
        if level < depth and kind < 0.35 and len(ids) < states:
            inner = {f"k{n}": state(level + 1) for n in range(dice.randint(1, 4))}
            made["states"] = dict(inner)
            if dice.random() < 0.35:
                made["type"] = "parallel"
            else:
                made["initial"] = dice.choice(list(inner))
            if dice.random() < 0.3:
                history: dict[str, Any] = {"type": "history", "history": dice.choice(["deep", "shallow"])}
                made["states"]["h"] = {**history, "id": f"{id}h"}
                ids.append(f"{id}h")
                if dice.random() < 0.5:
                    made["states"]["h"]["target"] = dice.choice(list(inner))
        elif kind > 0.9:
            made["type"] = "final"
        return made

    inner = {f"k{n}": state(1) for n in range(dice.randint(1, 6))}
    root = {"id": "root", "states": inner, "initial": dice.choice(list(inner))}
    _wire(root, ids, dice)
    return root


def _wire(state: dict[str, Any], ids: list[str], dice: random.Random) -> None:
    if state.get("type") == "history":
        return
    if state.get("type") != "final":
        on: dict[str, Any] = {}
        for n in range(dice.choice([0, 1, 1, 2, 3])):
            target = f"#{dice.choice(ids)}"
            event = dice.choice(["A", "GO", "LONG_EVENT_NAME", "x.y", "an event with rather many words in it"]) + str(n)
            way = {"target": target, "guard": "ok", "actions": ["one", "two"]}
            on[event] = way if dice.random() < 0.4 else target
        if dice.random() < 0.1:
            on["IN"] = {"actions": "note"}
        state["on"] = on
        if dice.random() < 0.2:
            state["after"] = {"1000": f"#{dice.choice(ids)}"}
        if dice.random() < 0.2:
            state["entry"] = "do"
    for inner in state.get("states", {}).values():
        _wire(inner, ids, dice)


def faults(scene: Scene, layout: Layout) -> list[str]:
    """What is wrong with a picture."""
    return [*_boxes(scene.root, layout), *_labels(layout), *_paths(scene, layout), *_shared(scene, layout)]


def _boxes(box: Box, layout: Layout) -> list[str]:
    found = []
    outer = layout.boxes[box]
    for child in box.children:
        if not _is_in(layout.boxes[child], outer):
            found.append(f"{child.id} is not inside {box.id}: {layout.boxes[child]} {outer}")
        found += _boxes(child, layout)
    for one, two in itertools.combinations(box.children, 2):
        if _overlap(layout.boxes[one], layout.boxes[two]):
            found.append(f"{one.id} and {two.id} are on each other")
    return found


def _labels(layout: Layout) -> list[str]:
    labels = [(f"{edge.source.id}→{edge.target.id}", rect) for edge, rect in layout.labels.items()]
    labels += [(f"loop of {box.id}", rect) for box, rect in layout.loops.items()]
    found = [
        f"the labels {one} and {two} are on each other"
        for (one, rect), (two, other) in itertools.combinations(labels, 2)
        if _overlap(rect, other)
    ]
    leaves = [(box.id, rect) for box, rect in layout.boxes.items() if not box.children]
    found += [f"the label {one} is on {two}" for one, rect in labels for two, other in leaves if _overlap(rect, other)]
    return found


def _paths(scene: Scene, layout: Layout) -> list[str]:
    found = []
    for edge in scene.edges:
        path = layout.paths[edge]
        name = f"{edge.source.id}→{edge.target.id}"
        for end, box in ((path[0], edge.source), (path[-1], edge.target)):
            if not _is_on_border(end, layout.boxes[box]):
                found.append(f"{name} does not end on the border of {box.id}: {end} {layout.boxes[box]}")
        ends = (edge.source, edge.target)
        for one, two in itertools.pairwise(path):
            if abs(one[0] - two[0]) > 1.0 and abs(one[1] - two[1]) > 1.0:
                found.append(f"{name} goes aslant from {one} to {two}")
            line = _line(one, two)
            for box, rect in layout.boxes.items():
                if not box.children and box not in ends and _overlap(line, rect):
                    found.append(f"{name} goes through {box.id}")
            for box, rect in layout.boxes.items():
                if box.title and box.children and _overlap(line, _header(box, rect)):
                    found.append(f"{name} goes through the title of {box.id}")
            for other, rect in layout.labels.items():
                if other is not edge and _overlap(line, rect):
                    found.append(f"{name} goes through the label of {other.source.id}→{other.target.id}")
    return found


def _header(box: Box, rect: Rect) -> Rect:
    wide, high = header_size(box)
    return Rect(rect.x + PAD, rect.y + 4, wide - 2 * PAD, high - 8)


def _shared(scene: Scene, layout: Layout) -> list[str]:
    """Arrows that lie on each other, so that nobody can tell them apart."""
    found = []
    lines = [(edge, one, two) for edge in scene.edges for one, two in itertools.pairwise(layout.paths[edge])]
    for (edge, *one), (other, *two) in itertools.combinations(lines, 2):
        if edge is other:
            continue
        for along, across in ((0, 1), (1, 0)):
            is_flat = all(abs(line[0][across] - line[1][across]) < 0.1 for line in (one, two))
            if is_flat and abs(one[0][across] - two[0][across]) < 2:
                low = max(min(line[0][along], line[1][along]) for line in (one, two))
                high = min(max(line[0][along], line[1][along]) for line in (one, two))
                if high - low > 2:
                    names = [f"{each.source.id}→{each.target.id}" for each in (edge, other)]
                    found.append(f"{' and '.join(names)} lie on each other for {high - low:.0f}")
    return found


def _line(one: tuple[float, float], two: tuple[float, float]) -> Rect:
    x, y = min(one[0], two[0]), min(one[1], two[1])
    return Rect(x - NEAR, y - NEAR, abs(one[0] - two[0]) + 2 * NEAR, abs(one[1] - two[1]) + 2 * NEAR)


def _overlap(one: Rect, two: Rect) -> bool:
    return (
        one.x + one.w > two.x + NEAR
        and two.x + two.w > one.x + NEAR
        and one.y + one.h > two.y + NEAR
        and two.y + two.h > one.y + NEAR
    )


def _is_in(inner: Rect, outer: Rect) -> bool:
    return (
        inner.x >= outer.x - NEAR
        and inner.y >= outer.y - NEAR
        and inner.x + inner.w <= outer.x + outer.w + NEAR
        and inner.y + inner.h <= outer.y + outer.h + NEAR
    )


def _is_on_border(point: tuple[float, float], rect: Rect) -> bool:
    x, y = point
    is_near = rect.x - 1 <= x <= rect.x + rect.w + 1 and rect.y - 1 <= y <= rect.y + rect.h + 1
    is_deep = rect.x + 1 < x < rect.x + rect.w - 1 and rect.y + 1 < y < rect.y + rect.h - 1
    return is_near and not is_deep
