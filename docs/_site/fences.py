"""Examples and drawings in docstrings are code: fence them, so that Markdown leaves them as they are."""

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


class Fences(griffe.Extension):
    """Asked for each object that has a page."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
