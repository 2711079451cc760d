"""Layer 5. Which rows has somebody else's SQLite file? It is only looked at."""

import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wakeful.importers.findings import bad

MAGIC = b"SQLite format 3\x00"
ROWS_MAX = 100_000  # of one table: far more than one actor has


class Tables:
    """The tables of a file, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self.names = [
            str(name)
            for (name,) in self._run("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")[1]
            if not str(name).startswith("sqlite_")
        ]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table, by their columns' names."""
        if name not in self._rows:
            columns, rows = self._run(f'SELECT * FROM "{name}" LIMIT {ROWS_MAX + 1}')  # one of the names of the file
            if len(rows) > ROWS_MAX:
                raise bad(f"{self._path}: {name}", f"there are more than {ROWS_MAX:,} rows; this is not one actor's")
            self._rows[name] = [dict(zip(columns, row, strict=True)) for row in rows]
        return self._rows[name]

    def _run(self, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        url = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        try:
            connection = sqlite3.connect(url, uri=True, timeout=5)
            try:
                cursor = connection.execute(statement)
                return [column[0] for column in cursor.description], cursor.fetchall()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise bad(str(self._path), f"it can't be read as SQLite: {error}") from None
