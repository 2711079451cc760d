"""The SQLite store on a disk where each write, sync and truncation fails in its turn; with failing.c preloaded.

Every life commits a few turns of one object, each of which puts rows and sets the alarm, and what is found afterwards
is held against what was said. Says how many lives there were and what was wrong with any, as one JSON line.
"""

import asyncio
import ctypes
import itertools
import json
import os
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from wakeful.store.sqlite import SqliteStore, writer
from wakeful.values.commits import USER, Commit, Start
from wakeful.values.errors import OutcomeUnknown, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM, Timer

ID = ObjectId("Tally", "a")
COMMITS = 5
FOREVER = 1 << 30
failing = ctypes.CDLL(os.environ["LD_PRELOAD"])


class Life:
    """One store on a new file, and what became of its commits."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        template = folder.parent / "template.db"
        if template.exists():
            shutil.copy(template, folder / "app.db")
        self.folder = folder
        self.store = SqliteStore(str(folder / "app.db"))
        self.acked: set[int] = set()
        self.unknown: set[int] = set()
        self.epoch = 0

    async def open(self) -> None:
        await self.store.open(now=1)
        self.epoch = (await self.store.claim("n", range(256), now=1))[shard_of(ID)]

    async def commit(self, number: int) -> None:
        seq = self.epoch << 39 | number << 8
        commit = Commit(
            id=ID,
            shard=shard_of(ID),
            epoch=self.epoch,
            now=number,
            # No two pages alike: a write that failed where the very same page had been before would not have been missed.
            puts={(USER, "last"): b"%d" % number, (USER, f"row:{number}"): (b"%d;" % number) * 1_500},
            sets=[Timer(ID, ALARM, number, number, seq)],
        )
        try:
            assert await self.store.commit("n", [commit]) == [None]
        except OutcomeUnknown:
            self.unknown.add(number)
            raise
        self.acked.add(number)
        note = Commit(id=ID, shard=shard_of(ID), epoch=self.epoch, now=number, starts=[Start(ALARM, seq, 0)])
        await self.store.commit("n", [note])

    async def run(self, ending: str) -> bool:
        """Commit until all are or one fails; True when one did."""
        has_failed = False
        for number in range(1, COMMITS + 1):
            try:
                await self.commit(number)
            except Unavailable:
                has_failed = True
                if ending != "go on":
                    break
                for _ in range(4):  # as a node does, until it is back
                    with suppress(Unavailable):
                        await self.open()
                        break
        return has_failed

    def wrong(self, path: Path) -> str:
        """What in the file is not as it was said to be."""
        db = sqlite3.connect(path)
        try:
            sound = db.execute("PRAGMA integrity_check").fetchone()[0]
            names = [name for (name,) in db.execute("SELECT name FROM kv").fetchall()]
            last = db.execute("SELECT value FROM kv WHERE name = 'last'").fetchone()
            alarm = db.execute("SELECT nominal_at FROM timers").fetchone()
            counted = db.execute("SELECT rows FROM objects").fetchone()
        finally:
            db.close()
        rows = {int(name[4:]) for name in names if name != "last"}
        state = int(last[0]) if last else 0
        found = []
        if sound != "ok":
            found.append(f"damaged: {sound}")
        if (alarm[0] if alarm else 0) != state or (counted[0] if counted else 0) != len(names):
            found.append(f"half a turn: rows of {state}, alarm {alarm}, {counted} of {len(names)} rows")
        if self.acked - rows:
            found.append(f"lost {self.acked - rows}")
        if rows - self.acked - self.unknown:
            found.append(f"there though refused {rows - self.acked - self.unknown}")
        return "; ".join(found)


async def one(folder: Path, kinds: str, at: int, ending: str, *, is_short: bool, is_once: bool) -> tuple[bool, str]:
    """A life in which that call fails; whether it came to it, and what is wrong."""
    life = Life(folder)
    failing.failing_arm(b"", ctypes.c_long(0), ctypes.c_long(0), 0)
    await life.open()
    failing.failing_arm(kinds.encode(), ctypes.c_long(at), ctypes.c_long(at if is_once else FOREVER), int(is_short))
    has_failed = await life.run(ending)
    image = folder / "image"
    if ending == "crash":  # what whoever opens it after a kill -9 finds: the index of the log is made anew
        image.mkdir()
        for name in ("app.db", "app.db-wal"):
            shutil.copy(folder / name, image / name)
    with suppress(Unavailable, sqlite3.Error):
        await life.store.close()
    was_hit = failing.failing_calls() >= at
    failing.failing_arm(b"", ctypes.c_long(0), ctypes.c_long(0), 0)
    wrong = life.wrong((image if ending == "crash" else folder) / "app.db")
    if not has_failed and len(life.acked) < COMMITS:
        wrong += "; not all were acknowledged, and nothing failed"
    shutil.rmtree(folder)
    return was_hit, wrong


async def main(folder: Path, is_long: bool) -> None:
    writer.CHECKPOINT_PAGES = 8
    empty = Life(folder / "empty")
    await empty.store.open(now=1)
    await empty.store.close()
    shutil.copy(folder / "empty" / "app.db", folder / "template.db")
    lives: Counter[str] = Counter()
    wrong: list[Any] = []
    ways = itertools.product(("w", "s", "t"), ("crash", "stop", "go on"), (False, True), (True, False))
    for kinds, ending, is_short, is_once in ways:
        if (is_short and kinds != "w") or (ending == "go on" and not is_once):
            continue
        if not is_long and kinds == "w" and (is_short or is_once != (ending != "stop")):
            continue
        for at in itertools.count(1):
            name = f"{kinds} {ending}{' short' * is_short}{' once' * is_once}"
            was_hit, found = await one(folder / "life", kinds, at, ending, is_short=is_short, is_once=is_once)
            if not was_hit:
                break
            lives[name] += 1
            if found:
                wrong.append([name, at, found])
    print(json.dumps({"lives": lives, "wrong": wrong}))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "long"))
