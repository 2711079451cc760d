"""Every link inside the documentation leads somewhere, every page is in the navigation, every name in the reference."""

import importlib
import re
from pathlib import Path

import pytest

from tests.tidy import tidy_pages as tidy

DOORS = ("wakeful", "wakeful.testing", "wakeful.store")


def broken(path: Path, text: str) -> list[str]:
    """The links of a page that lead to no file, or to no heading of it."""
    found = []
    for link in tidy.links(text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists():
            found.append(f"{link}: there is no such file")
        elif anchor and target.suffix == ".md":
            there = text if target == path else target.read_text(encoding="utf-8")
            if anchor not in tidy.anchors(there):
                found.append(f"{link}: no heading makes #{anchor}")
    return found


def astray(entries: list[str], pages: list[str]) -> list[str]:
    """Pages that no entry of the navigation names, and entries that name no page."""
    stars = [entry[:-1] for entry in entries if entry.endswith("*")]
    plain = [entry for entry in entries if not entry.endswith("*")]
    found = [
        f"{page} is not in the navigation of mkdocs.yml: put it where people would look for it"
        for page in pages
        if page not in plain and not page.startswith(tuple(stars))
    ]
    found += [f"mkdocs.yml names {entry}, which is not there" for entry in plain if entry not in pages]
    return found + [f"mkdocs.yml names {entry} twice" for entry in set(plain) if plain.count(entry) > 1]


@pytest.mark.parametrize("path", tidy.pages(), ids=tidy.name_of)
def test_links_and_anchors_lead_somewhere(path: Path) -> None:
    assert broken(path, path.read_text(encoding="utf-8")) == []


def test_every_page_is_in_the_navigation() -> None:
    pages = [path.relative_to(tidy.DOCS).as_posix() for path in tidy.pages() if tidy.DOCS in path.parents]
    assert astray(tidy.in_navigation(), pages) == []


def test_every_public_name_is_in_the_reference_once() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (tidy.DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    wanted = {f"{door}.{name}" for door in DOORS for name in importlib.import_module(door).__all__}
    assert wanted - set(shown) == set(), "add `::: NAME` to a page of docs/reference"
    assert [name for name in set(shown) if shown.count(name) > 1] == []


def test_pictures_say_what_they_show() -> None:
    found = [
        f"{tidy.name_of(path)}: {link}"
        for path in tidy.pages()
        for text, link in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", tidy.prose(path.read_text(encoding="utf-8")))
        if not text.strip()
    ]
    assert found == []


@pytest.mark.parametrize("text", ["[a](nothing.md)", "[a](#nowhere)", "[a](concepts.md#nowhere)", "![a](no.png)"])
def test_a_link_that_leads_nowhere_is_found(text: str) -> None:
    assert broken(tidy.DOCS / "index.md", f"# Title\n\n{text}\n")


def test_a_link_that_leads_somewhere_is_not() -> None:
    text = "# Title\n\n[a](#title) [b](concepts.md#1-object) [c](https://example.com/x#y)\n\n```sh\n[d](nowhere)\n```\n"
    assert broken(tidy.DOCS / "index.md", text) == []


def test_a_page_that_is_astray_is_found() -> None:
    assert astray(["a.md"], ["a.md", "b.md"])
    assert astray(["a.md", "b.md"], ["a.md"])
    assert astray(["a.md", "a.md"], ["a.md"])
    assert astray(["a.md", "how/*"], ["a.md", "how/b.md"]) == []
