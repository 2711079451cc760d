"""Layer 5. Which colours and lines has a picture, by day and by night?"""

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
