"""Layer 2. Is this file ours, of which version, and how does it come up to date?"""

import errno
import os
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote

from wakeful.values.errors import NotADatabase, SchemaTooNew, SchemaTooOld, StoreError

_MAGIC = b"SQLite format 3\0"
APPLICATION = 0x57414B45  # "WAKE", as `file` and `PRAGMA application_id` show it


class Migration(NamedTuple):
    """One step of the schema; its number is where `PRAGMA user_version` stands after it."""

    number: int
    name: str
    sql: str


def _migrations() -> tuple[Migration, ...]:
    folder = files(__package__).joinpath("migrations")
    names = sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name, folder.joinpath(f"{name}.sql").read_text()) for name in names)


MIGRATIONS = _migrations()


def check_header(path: str) -> None:
    """Refuse what is plainly something else before anything is made beside it.

    SQLite looks into it, not we: to close a file of one's own takes away all locks that this process has on it, and
    whoever closes the database next would then remove the log under its owner, with what was written since.
    """
    if os.path.isdir(path):
        raise NotADatabase(f"{path} is a folder; name a file in it")
    if not os.path.exists(path):
        return
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path} can't be read: {os.strerror(errno.EACCES)}")
    db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    try:
        db.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        return  # it is locked or out of reach, which says nothing of what it is; to open it in earnest will say why
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB and not _has_magic(path):
            raise NotADatabase(f"{path} is not an SQLite database; name another file, or move this one away") from None
    finally:
        db.close()


def _has_magic(path: str) -> bool:
    """It says that it is one, damaged as it is; nobody has it open as a database."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def version_of(db: sqlite3.Connection, path: str) -> int | None:
    """The number of the last migration the database was given; None when it is empty."""
    try:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise NotADatabase(f"{path} is not a sound SQLite database ({error}); restore it from a backup") from None
    if application == APPLICATION:
        return version
    if tables == 0 and application == 0:
        return None
    raise NotADatabase(f"{path} is another program's SQLite database; name another file")


def check_version(db: sqlite3.Connection, path: str) -> None:
    """Pass only what this version of Wakeful reads and writes."""
    version, latest = version_of(db, path), MIGRATIONS[-1].number
    if version is None:
        raise StoreError(f"{path} is empty; start the program that owns it once, which makes the schema")
    if version > latest:
        raise SchemaTooNew(f"{path} has schema {version}, this Wakeful knows up to {latest}; upgrade Wakeful")
    if version < latest:
        raise SchemaTooOld(
            f"{path} has schema {version}, this Wakeful needs {latest}; stop its owner, run: wakeful migrate"
        )


def pending(db: sqlite3.Connection, path: str) -> Sequence[Migration]:
    """The migrations that the database still has to be given."""
    version = version_of(db, path) or 0
    return [step for step in MIGRATIONS if step.number > version]


def apply(db: sqlite3.Connection, *steps: Migration, now: int) -> None:
    """Give the database these migrations, all or none: a new file whose process dies meanwhile is still an empty one."""
    given = "".join(
        f"{step.sql}\nINSERT INTO migrations (name, applied_at) VALUES ('{step.name}', {int(now)});\n" for step in steps
    )
    try:
        db.executescript(
            f"BEGIN IMMEDIATE;\n{given}"
            f"PRAGMA application_id = {APPLICATION};\nPRAGMA user_version = {steps[-1].number};\nCOMMIT;"
        )
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
