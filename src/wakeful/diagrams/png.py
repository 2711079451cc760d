"""Layer 5. How does a picture become PNG, for those who can't show SVG?"""

import re

from wakeful.values.errors import MissingExtra

SCALE = 2.0  # of the SVG's size: screens and printers show finer dots than its units
_NIGHT = re.compile(r"@media \(prefers-color-scheme: dark\) \{.*?\n\}\n", re.DOTALL)


def to_png(svg: str) -> bytes:
    """The picture by day, as dots; `MissingExtra` when what draws them is not installed."""
    try:
        import resvg_py
    except ImportError:
        raise MissingExtra(
            "pictures as PNG need resvg; pip install 'wakeful[pictures]', or write an .svg", code="extra.pictures"
        ) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=_NIGHT.sub("", svg), zoom=SCALE))
