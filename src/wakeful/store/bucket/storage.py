"""Layer 2. The seam beneath the bucket store: what must object storage be able to do?

Six verbs, called in threads. Everything that must be right rests on one of them: `create` makes an object unless there
is one of that name, and of two who try one succeeds. It has three outcomes: yes, no, and *can't know*; what can't be
known is asked again with the same bytes, and then the bytes that are there tell whose they are.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from wakeful.values.errors import OutcomeUnknown, StoreDown, StoreError

# How often a request is tried before the storage counts as away, and how long it rests between: 9 s in all.
TRIES = 9
REST_S = 0.05
REST_MAX_S = 2.5
THREADS = 16  # requests of one caller at once

A = TypeVar("A")
T = TypeVar("T")
Wait = Callable[[float], object]  # so many seconds; ends earlier when the store is closed


class Unsure(StoreDown):
    """The storage can't say now, or nobody heard what it said: the request may have been done, or be done yet."""

    default_code = "store.bucket"


class Refused(StoreDown):
    """The storage said no to who asks (credentials, permissions, no such bucket): it was not done, and to ask again at once is no use."""

    default_code = "store.bucket"


class ObjectStorage(Protocol):
    """Objects under keys, all below one prefix. Each verb may raise `Unsure` or `Refused`, and blocks."""

    @property
    def place(self) -> str:
        """What two URLs of the same bucket and prefix have in common."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Make the object unless there is one of that key; False when there is."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Make or replace the object."""
        ...

    def get(self, key: str) -> bytes | None:
        """What is there, as the last successful write left it; None when nothing is."""
        ...

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        """Keys that begin so, in byte order: those behind `after`, up to `until`. It may be late, so nothing may rest on it
        but tidying, and finding out that something is missing.
        """
        ...

    def write_time(self, key: str) -> int | None:
        """When what is there was written, by the storage's own clock: whole seconds, in milliseconds; None when nothing is."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Remove these, also when some are gone."""
        ...


def is_within(key: str, prefix: str, after: str, until: str | None) -> bool:
    return key.startswith(prefix) and key > after and (until is None or key <= until)


class Patient:
    """A storage with patience: what it can't say now is asked again, and a create settled by whose bytes are there."""

    def __init__(self, storage: ObjectStorage, wait: Wait, *, tries: int = TRIES) -> None:
        self.storage = storage
        self.wait = wait
        self._tries = tries

    def create(self, key: str, data: bytes) -> bool:
        """Whether it was made of these very bytes, by this call or one before it; no two writers may give the same bytes."""
        return self.create_or_get(key, data) == data

    def create_or_get(self, key: str, data: bytes) -> bytes:
        """What is there now: these bytes, or those of whoever was quicker."""
        unsure: Unsure | None = None
        for rest_s in self._rests():
            try:
                if self.storage.create(key, data):
                    return data
                there = self.storage.get(key)
                if there is not None:
                    return there
            except Unsure as error:
                unsure = error
            except Refused as error:
                if unsure is None:
                    raise
                raise OutcomeUnknown(
                    f"{error.message}; what was on its way may have arrived", code=error.code
                ) from None
            self._rest(rest_s, unsure)
        raise OutcomeUnknown(
            f"{self.storage.place} did not say whether {key} was written: {unsure.message if unsure else 'it comes and goes'}"
        )

    def _rest(self, seconds: float, unsure: Unsure | None) -> None:
        """The store may be closed meanwhile, which leaves open what became of the request."""
        try:
            self.wait(seconds)
        except StoreDown as error:
            if unsure is None:
                raise
            raise OutcomeUnknown(f"{error.message}, and {unsure.message}", code=error.code) from None

    def get(self, key: str) -> bytes | None:
        return self._try(lambda: self.storage.get(key))

    def put(self, key: str, data: bytes) -> None:
        self._try(lambda: self.storage.put(key, data))

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        return self._try(lambda: self.storage.keys(prefix, after=after, until=until))

    def write_time(self, key: str) -> int | None:
        return self._try(lambda: self.storage.write_time(key))

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            self._try(lambda: self.storage.delete(keys))

    def each(self, ask: Callable[[A], T], what: Sequence[A]) -> list[T]:
        """The answers for all of these, in their order; asked at once."""
        if len(what) < 2:
            return [ask(one) for one in what]
        with ThreadPoolExecutor(min(THREADS, len(what))) as threads:
            return list(threads.map(ask, what))

    def _try(self, ask: Callable[[], T]) -> T:
        last: Unsure | None = None
        for rest_s in self._rests():
            try:
                return ask()
            except Unsure as error:
                last = error
            self.wait(rest_s)
        assert last is not None
        raise last

    def _rests(self) -> list[float]:
        return [min(REST_MAX_S, REST_S * 2**n) for n in range(self._tries)]


# Does this storage heed the condition of a create? What doesn't would let two owners overwrite each other.


def check_conditions(storage: Patient, name: str) -> None:
    """Create, create again (must fail), read back: `StoreError` names what the storage does wrong. `name` is nobody else's."""
    key, first, second = f"probe/{name}", b"first " + name.encode(), b"second " + name.encode()
    if not storage.create(key, first):
        raise StoreError(f"{storage.storage.place}: {key} was there before it was made; give another prefix")
    try:
        is_made_again = storage.create(key, second)
        there = storage.get(key)
        if is_made_again or there != first:
            raise StoreError(
                f"{storage.storage.place} ignores the condition of a create (If-None-Match: *), so two processes could "
                "overwrite each other's writes; use S3, Azure Blob Storage, Google Cloud Storage, or a server that honours it",
                code="store.conditions",
            )
    finally:
        storage.delete([key])


def newest(exists: Callable[[int], bool], known: int = 0) -> int:
    """The highest number that exists, of numbers that were given from 1 on without a gap and never taken back; `known` does (0: none).

    By asking for single ones, which is never late as a list may be: about 2 · log2 of how many have come since.

    >>> newest(lambda n: n <= 1_000), newest(lambda n: False), newest(lambda n: n <= 7, known=7)
    (1000, 0, 7)
    """
    step = 1
    low = known
    while exists(low + step):
        low += step
        step *= 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if exists(middle):
            low = middle
        else:
            high = middle
    return low
