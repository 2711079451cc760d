"""Layer 5. How wide is a text, and where does it break?

Nobody can measure a font that the reader chooses, so widths are those of a wide one: others leave a little air.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

_WIDTHS = {
    **dict.fromkeys("ijlI.,:;'|!`", 0.32),
    **dict.fromkeys('ftr()[]{}/\\- "', 0.41),
    **dict.fromkeys("mwMW@%&", 0.95),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ", 0.70),
    "_": 0.52,
    "·": 0.34,
}
_BOLD = 1.1
_OTHER = 0.61
# What XML can't hold even when it is escaped.
_UNSEEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Where a long name may be broken: after its signs, and before a capital.
_BREAKS = re.compile(r"(?<=[\s_.\-/:,|&])|(?<=[a-z0-9])(?=[A-Z])")

CUT = "…"


class TextSpan(Struct, frozen=True):
    """A piece of a line in one style."""

    text: str
    style: str = ""


class TextLine(Struct, frozen=True):
    """What stands on one line."""

    spans: tuple[TextSpan, ...]

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def width(text: str, size: float, *, is_bold: bool = False) -> float:
    """The room that a text needs."""
    return sum(map(_width_of, text), 0.0) * size * (_BOLD if is_bold else 1.0)


def _width_of(sign: str) -> float:
    found = _WIDTHS.get(sign)
    if found is not None:
        return found
    return _OTHER if sign.isascii() else _foreign(sign)


def _foreign(sign: str) -> float:
    if unicodedata.combining(sign):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF":
        return 1.05
    return 0.75 if sign.isupper() else 0.66


def line_width(line: TextLine, size: float, bold: Sequence[str] = ()) -> float:
    """The room that a line needs; spans of the styles in `bold` are wider."""
    return sum(width(span.text, size, is_bold=span.style in bold) for span in line.spans)


def escape(text: str) -> str:
    """Text that is safe inside XML, in content and attributes alike."""
    seen = _UNSEEN.sub("\ufffd", text)
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        seen = seen.replace(sign, written)
    return seen


def one_line(text: str) -> str:
    """Text without line breaks and the like, for a label."""
    return " ".join(text.split()) or "∅"


def break_lines(
    spans: Iterable[TextSpan], *, size: float, width_max: float, lines_max: int, bold: Sequence[str] = ()
) -> tuple[TextLine, ...]:
    """Spans as lines no wider than that; what is too long for so many lines ends with an ellipsis."""
    lines: list[list[TextSpan]] = [[]]
    room = width_max
    for span in spans:
        is_bold = span.style in bold
        for part in _parts(span.text, size, width_max, is_bold=is_bold):
            need = width(part.rstrip(), size, is_bold=is_bold)
            if need > room and lines[-1]:
                if len(lines) == lines_max:
                    return _end_with_cut(lines, size, width_max, bold)
                lines.append([])
                room = width_max
                part = part.lstrip()
            lines[-1].append(TextSpan(part, span.style))
            room -= width(part, size, is_bold=is_bold)
    return tuple(_join_spans(line) for line in lines if line)


def _parts(text: str, size: float, width_max: float, *, is_bold: bool) -> Iterator[str]:
    """The text in pieces that each fit a line, in one pass and no further than somebody asks: names can be long."""
    scale = size * (_BOLD if is_bold else 1.0)
    for part in filter(None, _BREAKS.split(text)):
        start, total = 0, 0.0
        for n, sign in enumerate(part):
            needed = _width_of(sign)
            if n > start and (total + needed) * scale > width_max:
                yield part[start:n]
                start, total = n, 0.0
            total += needed
        yield part[start:]


def _end_with_cut(
    lines: list[list[TextSpan]], size: float, width_max: float, bold: Sequence[str]
) -> tuple[TextLine, ...]:
    done = [_join_spans(line) for line in lines]
    spans = list(done[-1].spans)
    while spans:
        cut = TextLine((*spans[:-1], TextSpan(spans[-1].text.rstrip() + CUT, spans[-1].style)))
        if line_width(cut, size, bold) <= width_max:
            return (*done[:-1], cut)
        shorter = spans[-1].text[:-1]
        spans = [*spans[:-1], TextSpan(shorter, spans[-1].style)] if shorter else spans[:-1]
    return (*done[:-1], TextLine((TextSpan(CUT),)))


def _join_spans(spans: list[TextSpan]) -> TextLine:
    merged: list[TextSpan] = []
    for span in spans:
        if merged and merged[-1].style == span.style:
            merged[-1] = TextSpan(merged[-1].text + span.text, span.style)
        else:
            merged.append(span)
    if merged:
        merged[-1] = TextSpan(merged[-1].text.rstrip(), merged[-1].style)
    return TextLine(tuple(merged))
