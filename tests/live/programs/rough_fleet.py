"""The program of `fleet.py`, for which `bucket:FOLDER` is slow and unreliable on the way, and one for all processes.

While there is a file `slow` or `down` in `$WAKEFUL_WEATHER`, each
request takes a second, or none is answered.
"""

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

from tests.live.programs.fleet import app as app
from wakeful.store.bucket import url
from wakeful.store.bucket.folder import FolderStorage
from wakeful.store.bucket.storage import Unsure
from wakeful.testing.buckets import EmulatedBucket

REFUSED, LOST = 0.03, 0.03
STRAY_MAX = 40  # requests, of which a node that is idle makes one every second or so
SLOW_S = 1.0
LATE = 0.003  # of so many requests the answer comes late
LATE_S = 6.0  # longer than the lease


class RoughBucket(EmulatedBucket):
    """An emulated bucket whose objects are files, so that it is the same in all processes."""

    def __init__(self, folder: str) -> None:
        super().__init__(seed=os.getpid(), refused=REFUSED, lost=LOST, stray_max=STRAY_MAX)
        self._files = FolderStorage(folder)
        self._weather = Path(os.environ["WAKEFUL_WEATHER"])
        self._chance = random.Random(os.getpid())
        self.on_request, self.on_answer = self._travel, self._return

    def _travel(self, verb: str, key: str) -> None:
        time.sleep(self._chance.choice((0.005, 0.01, 0.02, 0.08)))
        if (self._weather / "slow").exists():
            time.sleep(SLOW_S)
        if (self._weather / "down").exists():
            raise Unsure(f"{self.place}: connection refused")

    def _return(self, verb: str, key: str) -> None:
        if self._chance.random() < LATE:
            with (self._weather / "late").open("a", encoding="utf-8") as file:
                file.write(f"{time.time()} {os.getpid()} {verb} {key}\n")
            time.sleep(LATE_S)

    def get(self, key: str) -> bytes | None:
        with self._request("get", key) as request:
            return request.answer(lambda: self._files.get(key))

    def write_time(self, key: str) -> int | None:
        with self._request("head", key) as request:
            return request.answer(lambda: self._files.write_time(key))

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        with self._request("list", prefix) as request:
            return request.answer(lambda: self._files.keys(prefix, after=after, until=until))

    def delete(self, keys: Sequence[str]) -> None:
        with self._request("delete", "") as request:
            request.answer(lambda: self._files.delete(keys))

    def _create(self, key: str, data: bytes) -> bool:
        return self._files.create(key, data)

    def _set(self, key: str, data: bytes) -> None:
        self._files.put(key, data)


if "WAKEFUL_FLEET" in os.environ:  # the storage is opened when the program is known
    url.FolderStorage = RoughBucket  # type: ignore[assignment,misc]
