"""Commands that are killed at every place where they change something; with pulling.c preloaded.

Each is run in a fork of this process, until it has been killed at all its places. After each time the state is held
against what may be, and the same command is run again, which has to finish the job. Says how often each was killed,
and what was wrong, as one JSON line.
"""

import asyncio
import ctypes
import importlib
import json
import os
import pkgutil
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
from pulled_app import PLACED

import wakeful.cli
import wakeful.importers
from wakeful.cli import run
from wakeful.importers import archive
from wakeful.store import open_url
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.url import parse_url
from wakeful.store_move import TableDigest, digest
from wakeful.values.errors import Conflict, SchemaTooOld, StoreError

for package in (wakeful.cli, wakeful.importers):  # before the forks, not in each of them
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
pulling = ctypes.CDLL(os.environ.pop("LD_PRELOAD"))
pulling.pulling_arm.argtypes = [ctypes.c_char, ctypes.c_long]
pulling.pulling_calls.restype = ctypes.c_long

NEVER = 1 << 40
APP = str(Path(__file__).parent / "pulled_app.py")
OLD = Path(__file__).parents[2] / "upgrade" / "data"
OLD_KEY, NEW_KEY = (f"wkk_{letter * 64}" for letter in "ab")


class Done(NamedTuple):
    code: int
    said: str
    calls: int


class Place:
    """A folder, and a store of either kind that is made anew for each kill."""

    def __init__(self, folder: Path, postgres: str) -> None:
        self.folder = folder
        self.postgres = postgres
        self.url = postgres or f"sqlite:{folder}/life/app.db"
        self.source = f"sqlite:{folder}/source.db"

    def clear(self) -> None:
        shutil.rmtree(self.folder / "life", ignore_errors=True)
        (self.folder / "life").mkdir()
        if self.postgres:
            self.sql(f'DROP SCHEMA IF EXISTS "{parse_url(self.postgres).schema}" CASCADE')

    def sql(self, text: str) -> None:
        async def execute() -> None:
            connection = await asyncpg.connect(parse_url(self.postgres).dsn)
            try:
                await connection.execute(text)
            finally:
                await connection.close()

        asyncio.run(execute())

    def old(self) -> None:
        """The store as the first version made it, with a row of everything."""
        self.clear()
        if self.postgres:
            schema = parse_url(self.postgres).schema
            text = Statements(schema).qualify((OLD / "v1_postgres.sql").read_text(encoding="utf-8"))
            self.sql(f'CREATE SCHEMA "{schema}"; {text}')
            return
        db = sqlite3.connect(self.folder / "life" / "app.db")
        db.executescript((OLD / "v1.sql").read_text(encoding="utf-8"))
        db.close()

    def holding(self, *names: str) -> None:
        """A store with these objects, which nobody runs."""
        self.clear()
        self.must("migrate")
        for name in names:
            self.must("call", "Plain", name, "touch", "1", "--app", APP)

    def must(self, *args: str) -> str:
        done = self.wakeful(*args)
        assert done.code == 0, (args, done)
        return done.said

    def wakeful(self, *args: str, how: str = "k", at: int = NEVER) -> Done:
        """The command in a process of its own, with that done to it at its n-th change."""
        if args == ("open",):
            return self.forked(self.open, how, at)
        if "--store" not in args and args[0] != "move":
            args = (*args, "--store", self.url)
        return self.forked(lambda: run(args), how, at)

    def open(self) -> int:
        """What a program does first with its store."""

        async def begin() -> None:
            store = open_url(self.url)
            await store.open(now=1)
            await store.close()

        asyncio.run(begin())
        return 0

    def forked(self, does: Callable[[], int], how: str, at: int) -> Done:
        read, write = os.pipe()
        said = self.folder / "said"
        pid = os.fork()
        if not pid:
            try:
                words = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
                os.dup2(words, 1)
                os.dup2(words, 2)
                os.close(words)
                pulling.pulling_arm(how.encode(), at)
                code = does()
                os.write(write, b"%d" % pulling.pulling_calls())
                sys.stdout.flush()
                os._exit(code)
            finally:
                os._exit(99)
        os.close(write)
        with os.fdopen(read, "rb") as counted:
            calls = counted.read()
        _, status = os.waitpid(pid, 0)
        return Done(os.waitstatus_to_exitcode(status), said.read_text(encoding="utf-8"), int(calls or 0))

    def parts(self, url: str = "") -> tuple[TableDigest, ...] | str:
        """What the store holds, as soon as a server has noticed that its client is gone; what it is else."""
        until = time.monotonic() + 30
        while True:
            try:
                return asyncio.run(digest(url or self.url, now=1))
            except Conflict as error:
                if time.monotonic() > until:
                    return str(error)
                time.sleep(0.01)
            except SchemaTooOld as error:
                return "nothing" if "has schema 0," in error.message else "old"
            except StoreError:
                return "nothing"


class Trial(NamedTuple):
    """A command, what it is run on, and what must be so after it was killed and run again."""

    fresh: Callable[[], None]
    args: tuple[str, ...]
    check: Callable[[Any], str]


def trials(place: Place) -> dict[str, Trial]:
    whole: dict[str, Any] = {}
    rows = lambda found: {part.table: part.rows for part in found} if isinstance(found, tuple) else found  # noqa: E731

    def again(*args: str) -> str:
        done = place.wakeful(*args)
        return "" if done.code == 0 else f"again: {done.code} {done.said}"

    def opened(done: Done) -> str:
        """It is as new to whoever looks, and opens again."""
        found = place.parts()
        is_new = found == "nothing" or not sum(part.rows for part in found if isinstance(part, TableDigest))
        return again("open") if is_new and found != "old" else f"half made: {found}"

    def migrated(done: Done) -> str:
        wrong = again("migrate")
        found = place.parts()
        return wrong or ("" if found == whole.setdefault("migrate", found) else f"{found} is not {whole['migrate']}")

    def moved(done: Done) -> str:
        there, source = place.parts(), place.parts(place.source)
        wrong = ""
        if there != source:
            if isinstance(there, tuple) and sum(part.rows for part in there):
                return f"half of it: {there}"
            wrong = again("move", place.source, place.url)
        if place.parts() != source or place.parts(place.source) != whole.setdefault("source", source):
            wrong += "; target and source differ"
        return wrong

    def exported(done: Done) -> str:
        file = place.folder / "life" / "o.object"
        if (data := file.read_bytes()) != b"before":
            archive.read(data, "o.object")
        return again("export", "Plain", "a", "-o", str(file), "--store", place.source)

    def imported(done: Done) -> str:
        there = rows(place.parts())
        second = place.wakeful("import", f"{place.folder}/a.object")
        is_there = there["storage"] > 1
        if second.code != (1 if is_there else 0) or is_there != ("[import.exists]" in second.said):
            return f"again: {second}, it was there: {is_there}"
        found = rows(place.parts())
        return "" if found == whole.setdefault("import", found) else f"{found} is not {whole['import']}"

    def arrived(done: Done) -> str:
        """Machines that came before the end are not taken twice, and the others come."""
        before = len(json.loads(place.must("ls", "Order", "--json")))
        second = place.wakeful(*machines)
        is_there = before == 3
        wrong = ""
        if second.code != (1 if is_there else 0) or is_there != ("[import.exists]" in second.said):
            wrong = f"again: {second}, {before} were there"
        held = json.loads(place.must("ls", "Order", "--json"))
        delays = json.loads(place.must("due", "--json"))
        delays = [one for one in delays if one["class"] == "Order"]
        return wrong or ("" if len(held) == len(delays) == 3 else f"{len(held)} machines, {len(delays)} delays")

    def sealed() -> None:
        """All of it under the old key, and the new one at hand."""
        os.environ["WAKEFUL_KEYS"] = OLD_KEY
        place.holding("a", "b")
        os.environ["WAKEFUL_KEYS"] = f"{NEW_KEY} {OLD_KEY}"

    def rotated(done: Done) -> str:
        wrong = again("show", "Plain", "a") or again("keys", "rotate")
        os.environ["WAKEFUL_KEYS"] = NEW_KEY
        return wrong or again("keys", "check") or again("show", "Plain", "a")

    machines = ("import", f"{place.folder}/machines.json", "--as", "xstate", "--class", "Order", "--app", APP)
    output = f"{place.folder}/life/o.object"

    def before() -> None:
        place.clear()
        Path(output).write_bytes(b"before")

    return {
        "open": Trial(place.clear, ("open",), opened),
        "migrate": Trial(place.old, ("migrate",), migrated),
        "move": Trial(place.clear, ("move", place.source, place.url), moved),
        "export": Trial(before, ("export", "Plain", "a", "-o", output, "--store", place.source), exported),
        "import": Trial(lambda: place.holding("other"), ("import", f"{place.folder}/a.object"), imported),
        "machines": Trial(lambda: place.holding("other"), machines, arrived),
        "keys": Trial(sealed, ("keys", "rotate"), rotated),  # the last: from then on there are keys
    }


def prepare(place: Place) -> None:
    """A source with a few objects, one of them exported, and a file of machines."""
    place.clear()
    for key in ("a", "b", "c"):
        place.must("call", "Plain", key, "touch", "3", "--app", APP, "--store", place.source)
    place.must("export", "Plain", "a", "-o", f"{place.folder}/a.object", "--store", place.source)
    (place.folder / "machines.json").write_text(json.dumps([{**PLACED, "key": key} for key in "xyz"]))


def main(folder: Path, postgres: str, ways: str, most: int, names: list[str]) -> None:
    place = Place(folder, postgres)
    prepare(place)
    kills: Counter[str] = Counter()
    wrong: list[Any] = []
    for name, trial in trials(place).items():
        if names and name not in names:
            continue
        for how in ways:
            trial.fresh()
            whole = place.wakeful(*trial.args, how=how)
            assert whole.code == 0, (name, whole)
            step = 1 if name == "open" or not most else max(1, whole.calls // most)
            for at in range(1 + step // 2, whole.calls + 1, step):
                trial.fresh()
                done = place.wakeful(*trial.args, how=how, at=at)
                kills[name] += 1
                found = trial.check(done)
                if found or "bug in Wakeful" in done.said:
                    wrong.append([name, how, at, found, done])
    print(json.dumps({"kills": kills, "wrong": wrong}))


main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
