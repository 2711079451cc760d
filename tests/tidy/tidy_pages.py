"""What the tests of the documentation read: pages, their blocks with the marks above them, their links and anchors."""

import ast
import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import yaml

from tests.tidy import tidy_source as source

DOCS = source.ROOT / "docs"
_FENCE = re.compile(r"^(?P<tick>```+)(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=tick)\s*$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!--\s*(?P<mark>[\w ]+?)\s*(?::\s*(?P<why>(?:(?!-->).)*?))?\s*-->\s*\Z", re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<link>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its language, its text, and what the comment right above it says of it."""

    language: str
    body: str
    mark: str  # "", "not run", "in the background"
    why: str
    line: int


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [source.ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_site" not in path.parts)]


# Pages that test_pages.py runs, in ways of their own.
APART = (
    "specs.md",
    "schedules.md",
    "late-and-missed.md",
    "tenants-and-dags.md",
    "jobs.md",
    "cluster.md",
    "machines.md",
    "sockets.md",
    "standalone.md",
    "cloudflare.md",
    "client.md",
)


def name_of(path: Path) -> str:
    return path.relative_to(source.ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    found = []
    for match in _FENCE.finditer(text):
        above = text[: match.start()]
        marked = _MARK.search(above)
        if marked and "\n\n" in above[marked.start() :]:
            marked = None  # a comment that stands for itself
        mark, why = (marked["mark"], marked["why"] or "") if marked else ("", "")
        found.append(Block(match["language"], match["body"], mark, why, above.count("\n") + 1))
    return found


async def untrue(text: str) -> list[str]:
    """Run the Python blocks of a page as one program: what they print against what the page says."""
    space = vars(sys.modules.setdefault("page", ModuleType("page")))  # a module, as a program's functions are of one
    space.clear()
    space["__name__"] = "page"
    wrong = []
    found = blocks(text)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "python" or block.mark == "not run":
            continue
        out = io.StringIO()
        with redirect_stdout(out):
            done = eval(compile(block.body, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
            if done is not None:
                await done
        if after is not None and after.language == "text" and out.getvalue() != after.body:
            wrong.append(f"line {block.line} prints\n{out.getvalue()}not\n{after.body}")
    return wrong


def prose(text: str) -> str:
    """The page without its code: what is in there is no link and no heading."""
    without = _FENCE.sub("", text)
    return re.sub(r"`[^`\n]*`", lambda match: match[0].replace("](", "]\0("), without)


def links(text: str) -> list[str]:
    return [match["link"] for match in _LINK.finditer(prose(text))]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as mkdocs makes them."""
    from markdown.extensions.toc import slugify, unique

    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        unique(slugify(re.sub(r"[`*]", "", plain), "-"), found)
    return found


def in_navigation() -> list[str]:
    """The entries of the site's navigation: pages, and patterns that end in a star."""
    nav = yaml.safe_load((source.ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return list(_leaves(nav))


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for inner in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
        yield from _leaves(inner)
