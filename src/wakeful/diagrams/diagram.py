"""Layer 5. What does a chart look like, and where is an object in it?"""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any

from wakeful.diagrams.chart_scene import read
from wakeful.diagrams.layout import lay_out
from wakeful.diagrams.svg import written
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
) -> str:
    """A chart as SVG; with a snapshot its active states and pending delays are marked, with `now` how long they have."""
    if theme not in THEMES:
        raise BadOption(f"theme must be one of {', '.join(THEMES)}, not {theme!r}", code="picture.theme")
    scene = read(config, snapshot, now=now, zone=zone, heading=heading)
    return written(scene, lay_out(scene), theme=theme)
