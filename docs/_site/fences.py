"""What docstrings need for a page: fences around examples and drawings, and the comments behind fields as their text."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*\Z", re.MULTILINE | re.DOTALL)
_LAYER = re.compile(r"\ALayer \d+(?:, pure)?\. ")  # for those who work on it
_DRAWN = re.compile(r"(?:^[^\n]+\n)*^[^\n]*[├└][^\n]*\n(?:^[^\n]+\n)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The docstring for people outside: its tree, if it draws one, and its example, which is always the end, in fences."""
    text = _LAYER.sub("", text)
    text = _DRAWN.sub(lambda match: f"```text\n{match[0]}```\n", text)
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```", text)


def remark(obj: griffe.Object) -> str:
    """What the comment behind a field says of it."""
    line = "".join(obj.lines[:1])
    _, mark, said = line.partition("  # ")
    return said[:1].upper() + said[1:] + "." * (not said.endswith((".", ";", ":"))) if mark else ""


class Fences(griffe.Extension):
    """Asked for each object that has a page."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.is_attribute and obj.docstring is None and remark(obj):
            obj.docstring = griffe.Docstring(remark(obj), parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
