"""Layer 5. A bucket in memory, with everything that goes wrong with real ones, for tests of programs and of Wakeful.

bucket = EmulatedBucket(seed=7, lost=0.05)
app.run(bucket.url(cache=tmp_path))
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from wakeful.store.bucket.storage import Refused, Unsure, is_within
from wakeful.store.bucket.url import LENT

T = TypeVar("T")


class EmulatedBucket:
    """Objects under keys, with creates that succeed once, and faults drawn from one seed.

    `latency_s` passes in each request. Of so many requests, each a share of one: `refused` are answered with 409, 429 or
    503 and not done; of `lost` nobody hears, and a third each were done, were not done, and are done later, up to
    `stray_max` requests. `late_lists` show what was there so many requests ago. `ignores_conditions` makes it one of the storages that overwrite
    what a create should have left alone: a store must refuse it.

    >>> from wakeful.testing.buckets import EmulatedBucket
    >>> bucket = EmulatedBucket()
    >>> bucket.create("a", b"1"), bucket.create("a", b"2"), bucket.get("a"), bucket.counts["create"]
    (True, False, b'1', 2)
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        latency_s: float = 0.0,
        refused: float = 0.0,
        lost: float = 0.0,
        late_lists: int = 0,
        stray_max: int = 11,
        ignores_conditions: bool = False,
    ) -> None:
        self.latency_s = latency_s
        self.refused = refused
        self.lost = lost
        self.late_lists = late_lists
        self.stray_max = stray_max
        self.ignores_conditions = ignores_conditions
        self.is_down = False  # every request is lost, and none is done
        self.is_forbidden = False  # as with credentials that have expired
        self.objects: dict[str, bytes] = {}
        self.write_times: dict[str, int] = {}
        self.clock: Callable[[], int] = lambda: int(time.time() * 1_000)
        self.counts: Counter[str] = Counter()  # of requests by verb, and of bytes `sent` and `received`
        self.on_request: Callable[[str, str], None] = lambda verb, key: None  # may raise, or wait
        self.on_answer: Callable[[str, str], None] = lambda verb, key: None  # the same, once it was done
        self.place = f"bucket:@{id(self):x}"
        self._dice = random.Random(seed)
        self._lock = threading.RLock()
        self._strays: list[tuple[int, str, bytes]] = []  # creates that arrive with that request
        self._changes: list[
            tuple[int, str, bool]
        ] = []  # what lists are to show late: since which request, key, whether it is there

    def url(self, *, cache: str | Path) -> str:
        """How a program in this process names it."""
        name = f"{id(self):x}"
        LENT[name] = self
        return f"bucket:@{name}?cache={cache}"

    @property
    def requests(self) -> int:
        return sum(count for verb, count in self.counts.items() if verb not in ("sent", "received"))

    def create(self, key: str, data: bytes) -> bool:
        self.counts["sent"] += len(data)
        with self._request("create", key) as request:
            if request.is_stray:
                self._strays.append((self.requests + self._dice.randint(1, self.stray_max), key, data))
            return request.answer(lambda: self._create(key, data))

    def put(self, key: str, data: bytes) -> None:
        self.counts["sent"] += len(data)
        with self._request("put", key) as request:
            request.answer(lambda: self._set(key, data))

    def get(self, key: str) -> bytes | None:
        with self._request("get", key) as request:
            found = request.answer(lambda: self.objects.get(key))
            self.counts["received"] += len(found or b"")
            return found

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        with self._request("list", prefix) as request:
            return [key for key in request.answer(lambda: self._list(prefix)) if is_within(key, prefix, after, until)]

    def write_time(self, key: str) -> int | None:
        with self._request("head", key) as request:
            return request.answer(
                lambda: self.write_times.get(key, 0) // 1_000 * 1_000 if key in self.objects else None
            )

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with self._request("delete", key) as request:
                request.answer(lambda key=key: self._remove(key))  # type: ignore[misc]

    def _request(self, verb: str, key: str) -> "_Request":
        self.on_request(verb, key)
        if self.latency_s:
            time.sleep(self.latency_s)
        self._lock.acquire()
        try:
            self.counts[verb] += 1
            self._arrive()
            if self.is_forbidden:
                raise Refused(f"{self.place}: 403 ExpiredToken")
            if self.is_down:
                raise Unsure(f"{self.place}: connection refused")
            roll = self._dice.random()
            if roll < self.refused:
                raise Unsure(
                    f"{self.place}: {self._dice.choice(['409 Conflict', '429 Too Many Requests', '503 Slow Down'])}"
                )
            fate = self._dice.choice(["done", "not done", "stray"]) if roll < self.refused + self.lost else ""
        except BaseException:
            self._lock.release()
            raise
        fate = fate if fate != "stray" or verb == "create" else "not done"
        return _Request(self._lock, self.place, fate, lambda: self.on_answer(verb, key))

    def _arrive(self) -> None:
        arrived = [stray for stray in self._strays if stray[0] <= self.requests]
        self._strays = [stray for stray in self._strays if stray[0] > self.requests]
        for _, key, data in arrived:
            self._create(key, data)

    def _create(self, key: str, data: bytes) -> bool:
        if key in self.objects and not self.ignores_conditions:
            return False
        self._set(key, data)
        return True

    def _set(self, key: str, data: bytes) -> None:
        if key not in self.objects:
            self._changes.append((self.requests, key, True))
        self.objects[key] = data
        self.write_times[key] = self.clock()

    def _remove(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            self._changes.append((self.requests, key, False))

    def _list(self, prefix: str) -> list[str]:
        shown = set(self.objects)
        self._changes = [change for change in self._changes if change[0] > self.requests - self.late_lists]
        for _, key, is_there in reversed(self._changes):
            (shown.discard if is_there else shown.add)(key)
        return sorted(key for key in shown if key.startswith(prefix))


class _Request:
    """One request that is under way, alone at the bucket."""

    def __init__(self, lock: Any, place: str, fate: str, on_answer: Callable[[], None]) -> None:
        self._lock = lock
        self._place = place
        self._fate = fate
        self._on_answer = on_answer

    @property
    def is_stray(self) -> bool:
        return self._fate == "stray"

    def answer(self, work: Callable[[], T]) -> T:
        if self._fate in ("not done", "stray"):
            raise Unsure(f"{self._place}: the answer was lost")
        found = work()
        if self._fate == "done":
            raise Unsure(f"{self._place}: the answer was lost")
        return found

    def __enter__(self) -> "_Request":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._lock.release()
        if kind is None:
            self._on_answer()
