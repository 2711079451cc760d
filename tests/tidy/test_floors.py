"""Floors of dependencies leave out releases with known advisories."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from tests.tidy import tidy_source as source

LIST = Path(__file__).with_name("advisories.txt")
_LINE = re.compile(r"([a-z0-9-]+)\s+([0-9.]+)\s+((?:CVE|GHSA)-[\w-]+) \S.*")
_FLOOR = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([0-9.]+)")


def number(text: str) -> tuple[int, ...]:
    """Releases are compared by number; the zeros at the end of one say nothing."""
    parts = [int(part) for part in re.match(r"[0-9.]*[0-9]", text)[0].split(".")]  # type: ignore[index]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def advisories() -> list[tuple[str, str, str]]:
    """Each as package, first release without the fault, and id."""
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    found = [_LINE.fullmatch(line) for line in lines]
    assert all(found), [line for line, one in zip(lines, found, strict=True) if one is None]
    return [(one[1], one[2], one[3]) for one in found if one is not None]


def floors(pyproject: str) -> dict[str, str]:
    """The lowest release of each package that what we publish, or our own tools, ask for."""
    project = tomllib.loads(pyproject)["project"]
    texts = project["dependencies"] + [one for extra in project["optional-dependencies"].values() for one in extra]
    found: dict[str, str] = {}
    for text in texts:
        if (match := _FLOOR.match(text)) is not None:
            name = match[1].lower().replace("_", "-")
            found[name] = min(match[2], found.get(name, match[2]), key=number)
    return found


def too_low(pyproject: str) -> list[str]:
    has = floors(pyproject)
    return [
        f"{name}>={has.get(name, '')}, and {id} is only fixed in {fixed}"
        for name, fixed, id in advisories()
        if name not in has or number(has[name]) < number(fixed)
    ]


def test_no_floor_lets_a_release_with_a_known_advisory_in() -> None:
    assert len(advisories()) >= 10
    assert too_low((source.ROOT / "pyproject.toml").read_text(encoding="utf-8")) == []


def test_what_is_installed_here_has_none_of_them() -> None:
    old = [
        f"{name} {metadata.version(name)}: {id}"
        for name, fixed, id in advisories()
        if number(metadata.version(name)) < number(fixed)
    ]
    assert old == []


def test_a_floor_that_is_too_low_or_missing_is_found() -> None:
    page = (source.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    low = too_low(page.replace("starlette>=1.3.1", "starlette>=0.49"))
    assert [one.split(",")[0] for one in low] == ["starlette>=0.49", "starlette>=0.49"]
    assert "h11>=, and CVE-2025-43859 is only fixed in 0.16.0" in too_low(page.replace('"h11>=0.16"', '"h11"'))
