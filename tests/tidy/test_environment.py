"""Every environment variable that the sources know is on docs/configuration.md, with its option, and no other."""

import re

from tests.tidy import tidy_source as source
from wakeful.cli.settings_file import settings

PAGE = source.ROOT / "docs" / "configuration.md"
_NAME = re.compile(r"\b_?WAKEFUL_[A-Z]+(?:_[A-Z]+)*\b")
_ROW = re.compile(r"^\| `(_?WAKEFUL_[A-Z_]+)` \| (?:`([a-z-]+)`)? ?\|", re.M)


def in_sources() -> set[str]:
    """In code, templates and texts alike: what is named to people must exist as well."""
    files = [path for path in source.PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {name for path in files for name in _NAME.findall(path.read_bytes().decode("utf-8", "replace"))}


def test_the_page_has_every_variable_of_the_sources_and_no_other() -> None:
    listed = [name for name, _ in _ROW.findall(PAGE.read_text(encoding="utf-8"))]
    assert len(listed) == len(set(listed))
    assert set(listed) == in_sources()
    assert len(listed) > 15


def test_the_page_names_the_option_of_each() -> None:
    listed = {option: name for name, option in _ROW.findall(PAGE.read_text(encoding="utf-8")) if option}
    assert listed == {key: one.env for key, one in settings().items()}


def test_every_page_names_only_variables_that_there_are() -> None:
    known = in_sources()
    for path in [source.ROOT / "README.md", *sorted((source.ROOT / "docs").rglob("*.md"))]:
        named = {
            name for name in _NAME.findall(path.read_text(encoding="utf-8")) if not name.startswith("WAKEFUL_TEST")
        }
        assert named <= known, f"{path.name}: {sorted(named - known)}"
