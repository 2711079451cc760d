"""Layer 2. Where is the SQL, and how does it get its schema, its optional parts and its arguments?

The files under sql/ can be read and run as they are, but for three things: `$name` is an argument, lines
between `--? name` and `--.` are only there when that part is asked for, and the schema `wakeful` is
replaced by the one in the store's URL.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

from msgspec import Struct

_NAME = re.compile(r"\$([a-z_]+)")
_COMMENT = re.compile(r"\s*--.*")
_SCHEMA = re.compile(r"\bwakeful\.")


class Statement(Struct, frozen=True):
    """SQL as the server gets it, and the names of its arguments in order."""

    text: str
    names: tuple[str, ...]

    def args(self, values: Mapping[str, object]) -> list[object]:
        return list(map(values.__getitem__, self.names))


class Statements:
    """All statements for one schema, each made once."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._made: dict[tuple[str, frozenset[str]], Statement] = {}
        self._texts: dict[str, str] = {}

    def get(self, name: str, parts: Iterable[str] = ()) -> Statement:
        """The statement of that file with these optional parts."""
        wanted = frozenset(parts)
        found = self._made.get((name, wanted))
        if found is None:
            found = self._made[name, wanted] = self._make(name, wanted)
        return found

    def qualify(self, sql: str) -> str:
        """The SQL with its tables in this store's schema."""
        return _SCHEMA.sub(f'"{self.schema}".', sql)

    def _make(self, name: str, wanted: frozenset[str]) -> Statement:
        if name not in self._texts:
            self._texts[name] = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
        text = self.qualify("\n".join(_keep_lines(self._texts[name].splitlines(), wanted)))
        order: dict[str, int] = {}
        numbered = _NAME.sub(lambda match: f"${order.setdefault(match[1], len(order) + 1)}", text)
        return Statement(numbered, tuple(order))


def _keep_lines(lines: Iterable[str], wanted: frozenset[str]) -> list[str]:
    """The lines that are in no optional part, or only in wanted ones, without comments."""
    kept: list[str] = []
    nested: list[bool] = []
    for line in lines:
        mark = line.strip()
        if mark.startswith("--?"):
            nested.append(mark[3:].strip() in wanted)
        elif mark == "--.":
            nested.pop()
        elif all(nested):
            kept.append(_COMMENT.sub("", line))
    assert not nested, "a part of the SQL file has no end"
    return [line for line in kept if line]
