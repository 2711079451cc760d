"""Layer 5. What does a chart look like, and where is an object in it: as SVG, in which colours and lines?"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, tzinfo
from typing import Any

from wakeful.diagrams.chart_scene import read
from wakeful.diagrams.flow import Path, Point
from wakeful.diagrams.layout import Layout, Rect, lay_out
from wakeful.diagrams.scene import (
    CLOCK,
    LABEL_PAD,
    LINE_HEIGHT,
    PAD,
    ROW_GAP,
    TITLE_HEIGHT,
    ArrowRow,
    Box,
    Edge,
    Scene,
    label_size,
)
from wakeful.diagrams.texts import TextLine, escape, width
from wakeful.values.errors import BadOption

THEMES = ("auto", "light", "dark")


def draw(
    config: Mapping[str, Any],
    snapshot: Mapping[str, Any] | None = None,
    *,
    now: int | None = None,
    zone: tzinfo = UTC,
    heading: str | None = None,
    theme: str = "auto",
    delays: Mapping[str, Any] | None = None,
) -> str:
    """A chart as SVG; with a snapshot its active states and pending delays are marked, with `now` how long they have."""
    if theme not in THEMES:
        raise BadOption(f"theme must be one of {', '.join(THEMES)}, not {theme!r}", code="picture.theme")
    scene = read(config, snapshot, now=now, zone=zone, heading=heading, delays=delays)
    return write_svg(scene, lay_out(scene), theme=theme)


# How does a layout become SVG, in which colours and lines?

# Which colours and lines has a picture, by day and by night?

# Every class is ours by its prefix: inside a page, a picture changes nothing else.
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

_SHAPES = f"""
.wk-text {{ font-family: {_FONT}; font-size: 12px; }}
.wk-text tspan, .wk-text text {{ white-space: pre; }}
.wk-heading {{ font-size: 16px; font-weight: 650; }}
.wk-title {{ font-size: 14px; font-weight: 600; }}
.wk-event, .wk-due {{ font-weight: 600; }}
.wk-guard {{ font-style: italic; }}
.wk-sign {{ font-size: 12px; font-weight: 700; }}
.wk-box {{ stroke-width: 1.25; }}
.wk-active > .wk-box {{ stroke-width: 2.5; }}
.wk-active.wk-nest > .wk-box {{ stroke-width: 1.75; }}
.wk-region > .wk-box {{ stroke-dasharray: 6 4; }}
.wk-inner, .wk-rule {{ stroke-width: 1; fill: none; }}
.wk-edge {{ fill: none; stroke-width: 1.4; stroke-linejoin: round; }}
.wk-live > .wk-edge {{ stroke-width: 2; }}
.wk-default > .wk-edge {{ stroke-dasharray: 4 3; }}
.wk-pill {{ stroke-width: 1; }}
.wk-clock {{ fill: none; stroke-width: 1.3; stroke-linecap: round; }}
"""

_DAY = {
    "page": "#ffffff",
    "ink": "#1c2430",
    "soft": "#5b6675",
    "guard": "#7a4bb0",
    "do": "#476075",
    "leaf": "#ffffff",
    "inside": "#f5f7fa",
    "line": "#9aa5b3",
    "edge": "#7d8896",
    "pill": "#eceff4",
    "pill_line": "#dfe4eb",
    "live": "#1f6feb",
    "live_leaf": "#dbeafe",
    "live_inside": "#f0f6ff",
    "live_pill": "#e3eeff",
    "live_pill_line": "#b9d3fb",
    "due": "#9a5b00",
    "due_pill": "#fff1d6",
    "due_pill_line": "#f0b64e",
}
_NIGHT = {
    "page": "#0f141b",
    "ink": "#e4e9f0",
    "soft": "#98a4b3",
    "guard": "#c9a4f5",
    "do": "#a9bdd1",
    "leaf": "#1c2430",
    "inside": "#151b24",
    "line": "#4d596a",
    "edge": "#7c899b",
    "pill": "#253040",
    "pill_line": "#354256",
    "live": "#58a6ff",
    "live_leaf": "#163458",
    "live_inside": "#13202f",
    "live_pill": "#17304f",
    "live_pill_line": "#2a5a94",
    "due": "#ffc766",
    "due_pill": "#3b2b0c",
    "due_pill_line": "#a87420",
}


def _colours(of: dict[str, str]) -> str:
    return f"""
.wk-page {{ fill: {of["page"]}; }}
.wk-text, .wk-text text {{ fill: {of["ink"]}; }}
.wk-text .wk-soft, .wk-text .wk-word, .wk-text .wk-tag {{ fill: {of["soft"]}; }}
.wk-text .wk-guard {{ fill: {of["guard"]}; }}
.wk-text .wk-do {{ fill: {of["do"]}; }}
.wk-text .wk-due {{ fill: {of["due"]}; }}
.wk-box {{ fill: {of["leaf"]}; stroke: {of["line"]}; }}
.wk-nest > .wk-box {{ fill: {of["inside"]}; }}
.wk-nest.wk-odd > .wk-box {{ fill: {of["leaf"]}; }}
.wk-active > .wk-box {{ fill: {of["live_leaf"]}; stroke: {of["live"]}; }}
.wk-active.wk-nest > .wk-box {{ fill: {of["live_inside"]}; }}
.wk-inner, .wk-rule {{ stroke: {of["line"]}; }}
.wk-active > .wk-inner {{ stroke: {of["live"]}; }}
.wk-dot {{ fill: {of["edge"]}; }}
.wk-edge {{ stroke: {of["edge"]}; }}
.wk-head {{ fill: {of["edge"]}; }}
.wk-pill {{ fill: {of["pill"]}; stroke: {of["pill_line"]}; }}
.wk-clock {{ stroke: {of["soft"]}; }}
.wk-live > .wk-edge {{ stroke: {of["live"]}; }}
.wk-live > .wk-head {{ fill: {of["live"]}; }}
.wk-live > .wk-pill {{ fill: {of["live_pill"]}; stroke: {of["live_pill_line"]}; }}
.wk-pending > .wk-pill, .wk-due-pill {{ fill: {of["due_pill"]}; stroke: {of["due_pill_line"]}; }}
.wk-pending .wk-clock {{ stroke: {of["due"]}; }}
"""


def sheet(*, theme: str = "auto") -> str:
    """The style sheet; `auto` follows what the reader prefers."""
    if theme == "dark":
        return _SHAPES + _colours(_NIGHT)
    night = f"@media (prefers-color-scheme: dark) {{{_colours(_NIGHT)}}}\n" if theme == "auto" else ""
    return _SHAPES + _colours(_DAY) + night


MARGIN = 20.0
_HEADING = 30.0
_CORNER = 7.0  # of arrows
_HEAD = 9.0  # an arrow's head: its length


def write_svg(scene: Scene, layout: Layout, *, theme: str = "auto") -> str:
    """The picture as one SVG document."""
    head = (_HEADING if scene.heading else 0.0) + (18.0 if scene.facts else 0.0)
    notes = _notes(scene, layout.h + head + 12)
    wide = max(
        layout.w,
        width(scene.heading, 16, is_bold=True),
        width(" · ".join(scene.facts), 12),
        *(x + w for x, _, w, _ in (note for note, _ in notes)),
        1.0,
    )
    high = head + layout.h + max((y + h - layout.h - head for (_, y, _, h), _ in notes), default=0.0)
    w, h = math.ceil(wide + 2 * MARGIN), math.ceil(high + 2 * MARGIN)
    name = escape(scene.heading or "statechart")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{name}">',
        f"<title>{name}</title>",
        f"<style>{sheet(theme=theme)}</style>",
        f'<rect class="wk-page" width="{w}" height="{h}"/>',
        f'<g class="wk-text" transform="translate({_n(MARGIN)} {_n(MARGIN)})">',
        *_head(scene),
        f'<g transform="translate(0 {_n(head)})">',
        *_states(scene.root, layout),
        *(part for edge in _drawn_order(scene.edges) for part in _edge(edge, layout)),
        *(part for box in layout.loops for part in _loop(box, layout)),
        "</g>",
        *(part for _, parts in notes for part in parts),
        "</g>",
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def _head(scene: Scene) -> Iterable[str]:
    y = 0.0
    if scene.heading:
        yield f'<text class="wk-heading" x="0" y="15">{escape(scene.heading)}</text>'
        y = _HEADING
    if scene.facts:
        yield f'<text class="wk-soft" x="0" y="{_n(y + 4)}">{escape(" · ".join(scene.facts))}</text>'


def _notes(scene: Scene, top: float) -> list[tuple[tuple[float, float, float, float], list[str]]]:
    """Pending delays that no arrow stands for, under the chart."""
    notes = []
    for row in scene.notes:
        w, h = label_size([row])
        rect = Rect(0.0, top, w, h)
        notes.append(((0.0, top, w, h), ['<g class="wk-pending">', *_pill(rect, [row]), "</g>"]))
        top += h + 8
    return notes


def _states(box: Box, layout: Layout) -> Iterable[str]:
    rect = layout.boxes[box]
    classes = [f"wk-{box.kind}"]
    classes += ["wk-nest", "wk-odd"][: 1 + box.depth % 2] if box.children else []
    classes += ["wk-active"] if box.is_active and box.parent is not None else []
    classes += ["wk-region"] if box.is_region else []
    yield f'<g class="{" ".join(classes)}" data-state="{escape(box.id)}">'
    if box.tip:
        yield f"<title>{escape(box.tip)}</title>"
    cx, cy = rect.x + rect.w / 2, rect.y + rect.h / 2
    if box.kind == "dot":
        yield f'<circle class="wk-dot" cx="{_n(cx)}" cy="{_n(cy)}" r="{_n(rect.w / 2)}"/>'
    elif box.kind == "history":
        yield f'<rect class="wk-box" {_rect(rect)} rx="{_n(min(rect.w, rect.h) / 2)}"/>'
        yield f'<text class="wk-sign" x="{_n(cx)}" y="{_n(cy + 4)}" text-anchor="middle">{box.sign}</text>'
    else:
        radius = 10 if box.children else 8
        yield f'<rect class="wk-box" {_rect(rect)} rx="{radius}"/>'
        if box.kind == "final":
            inner = Rect(rect.x + 4, rect.y + 4, rect.w - 8, rect.h - 8)
            yield f'<rect class="wk-inner" {_rect(inner)} rx="{radius - 3}"/>'
        yield from _inside(box, rect)
    for child in box.children:
        yield from _states(child, layout)
    yield "</g>"


def _inside(box: Box, rect: Rect) -> Iterable[str]:
    """Title and rows of a box: in the middle of a leaf, at the upper left of others."""
    rows = sum(len(row.lines) for row in box.rows) * LINE_HEIGHT
    y = rect.y + 9
    if not box.children and not box.rows:
        y = rect.y + (rect.h - len(box.title) * TITLE_HEIGHT) / 2
    for line in box.title:
        if box.children:
            x, anchor = rect.x + PAD, ""
        else:
            x, anchor = rect.x + rect.w / 2, ' text-anchor="middle"'
        yield f'<text class="wk-title" x="{_n(x)}" y="{_n(y + 15)}"{anchor}>{_spans(line, is_title=True)}</text>'
        y += TITLE_HEIGHT
    if rows and box.title:
        y += 7
        if not box.children:
            yield f'<path class="wk-rule" d="M{_n(rect.x)} {_n(y - 2)}h{_n(rect.w)}"/>'
    for row in box.rows:
        yield from _row(row, rect.x + PAD, y)
        y += len(row.lines) * LINE_HEIGHT


def _row(row: ArrowRow, x: float, y: float) -> Iterable[str]:
    """The lines of a row, with a clock before a delay, and all of it for who points at it."""
    yield '<g class="wk-row wk-pending">' if row.is_pending else '<g class="wk-row">'
    if row.whole != "".join(line.text for line in row.lines):
        yield f"<title>{escape(row.whole)}</title>"
    left = x
    if row.has_clock:
        cx, cy = x + 5.5, y + 8.5
        yield (
            f'<path class="wk-clock" d="M{_n(cx - 5)} {_n(cy)}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0'
            f'M{_n(cx)} {_n(cy - 2.8)}V{_n(cy)}L{_n(cx + 2.2)} {_n(cy + 1.2)}"/>'
        )
        left += CLOCK
    for place, line in enumerate(row.lines):
        yield f'<text x="{_n(left)}" y="{_n(y + place * LINE_HEIGHT + 12.5)}">{_spans(line)}</text>'
    yield "</g>"


def _spans(line: TextLine, *, is_title: bool = False) -> str:
    return "".join(
        escape(span.text)
        if is_title or not span.style
        else f'<tspan class="wk-{span.style}">{escape(span.text)}</tspan>'
        for span in line.spans
    )


def _drawn_order(edges: list[Edge]) -> list[Edge]:
    """What can be taken next lies over the others."""
    return sorted(edges, key=lambda edge: edge.is_live)


def _edge(edge: Edge, layout: Layout) -> Iterable[str]:
    path = layout.paths[edge]
    classes = ["wk-way", f"wk-{edge.kind}"] + (["wk-live"] if edge.is_live else [])
    if any(row.is_pending for row in edge.rows):
        classes.append("wk-pending")
    yield f'<g class="{" ".join(classes)}">'
    yield f'<path class="wk-edge" d="{_round_corners(path)}"/>'
    yield f'<path class="wk-head" d="{_arrow(path)}"/>'
    if edge.rows:
        yield from _pill(layout.labels[edge], edge.rows)
    yield "</g>"


def _loop(box: Box, layout: Layout) -> Iterable[str]:
    """Ways from a box to itself: out to their label and back."""
    rect, label = layout.boxes[box], layout.loops[box]
    if label.x >= rect.x + rect.w:
        x, y = rect.x + rect.w, label.y + label.h / 2
        out, back = ((x, y - 6), (label.x, y - 6)), ((label.x, y + 6), (x, y + 6))
    else:
        x, y = label.x + label.w / 2, rect.y + rect.h
        out, back = ((x - 7, y), (x - 7, label.y)), ((x + 7, label.y), (x + 7, y))
    classes = ["wk-way"] + (["wk-live"] if box.is_live else [])
    classes += ["wk-pending"] if any(row.is_pending for row in box.loops) else []
    yield f'<g class="{" ".join(classes)}">'
    yield f'<path class="wk-edge" d="{_round_corners(out, is_headed=False)}{_round_corners(back)}"/>'
    yield f'<path class="wk-head" d="{_arrow(back)}"/>'
    yield from _pill(label, box.loops)
    yield "</g>"


def _pill(rect: Rect, rows: Iterable[ArrowRow]) -> Iterable[str]:
    given = list(rows)
    yield f'<rect class="wk-pill" {_rect(rect)} rx="7"/>'
    y = rect.y + 3
    for place, row in enumerate(given):
        if place:
            yield f'<path class="wk-pill" d="M{_n(rect.x + 1)} {_n(y - ROW_GAP / 2)}h{_n(rect.w - 2)}"/>'
        yield from _row(row, rect.x + LABEL_PAD, y)
        y += len(row.lines) * LINE_HEIGHT + ROW_GAP


def _round_corners(path: Path, *, is_headed: bool = True) -> str:
    """A line through the corners with soft bends; it ends where the head begins."""
    points = list(path)
    if is_headed and len(points) > 1:
        points[-1] = _toward(points[-1], points[-2], _HEAD - 2)
    said = [f"M{_p(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        soft = min(_CORNER, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
        said.append(f"L{_p(_toward(corner, before, soft))}Q{_p(corner)} {_p(_toward(corner, after, soft))}")
    said.append(f"L{_p(points[-1])}")
    return "".join(said)


def _arrow(path: Path) -> str:
    tip, before = path[-1], path[-2]
    base = _toward(tip, before, _HEAD)
    dx, dy = (base[0] - tip[0]) / _HEAD * 4, (base[1] - tip[1]) / _HEAD * 4
    return f"M{_p(tip)}L{_p((base[0] - dy, base[1] + dx))}L{_p((base[0] + dy, base[1] - dx))}Z"


def _toward(one: Point, other: Point, far: float) -> Point:
    length = math.dist(one, other)
    if length < 0.001:
        return one
    share = min(1.0, far / length)
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share


def _rect(rect: Rect) -> str:
    return f'x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.w)}" height="{_n(rect.h)}"'


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(value: float) -> str:
    """A number with as many digits as can be seen."""
    return (
        f"{value:.1f}".removesuffix(".0").replace("-0", "0") if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")
    )
