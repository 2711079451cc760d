"""Layer 5. The real clock, real chance and real keys, for nodes that are not in a test."""

import asyncio
import os
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from wakeful.notices.signatures import read_secrets
from wakeful.store import open_url
from wakeful.store.protocol import Store
from wakeful.store.sealed_store import with_keys
from wakeful.values.errors import BadOption
from wakeful.values.seals import KeyRing, parse_keys
from wakeful.values.times import Handle

KEYS, KEYS_FILE = "WAKEFUL_KEYS", "WAKEFUL_KEYS_FILE"
WEBHOOK, WEBHOOK_FILE = "WAKEFUL_WEBHOOK_SECRET", "WAKEFUL_WEBHOOK_SECRET_FILE"
DEFAULT_STORE = "sqlite:wakeful.db"  # in this folder
Keys = str | Path | Sequence[str]
"""Keys that values are sealed with, the newest first: as text, as several texts, or the path of a file that has them."""

# How often the wall clock is held against the steady one, and how far apart they must have moved to have been set.
# Slewing (adjtime, chrony) moves them by less than a millisecond in that time.
WATCH_S = 1.0
STEP_MS = 500


_rolls: list[float] = []  # drawn from the system many at a time: a system call for each costs as much as a small insert
os.register_at_fork(after_in_child=_rolls.clear)  # or parent and child would roll the same


class SystemDice:
    """The system's own randomness."""

    def random(self) -> float:
        if not _rolls:
            _rolls.extend([(number >> 11) * 2.0**-53 for number in array("Q", os.urandom(4096))])
        return _rolls.pop()


class SystemClock:
    """The machine's wall clock, with waits on the running event loop."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        loop = asyncio.get_running_loop()
        # Half a millisecond more: the loop may wake a hair early, and a timer must not.
        return loop.call_at(loop.time() + max(0.0, at_ms / 1000 - time.time()) + 0.0005, callback)

    async def sleep(self, length_ms: int) -> None:
        await asyncio.sleep(length_ms / 1000)

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        return _Watch(stepped)


class SteadyClock:
    """The machine's steady clock, which begins at the wall clock's time and can't be set.

    For nodes that follow another clock: what happens to the machine's own is nothing to them.
    """

    def __init__(self) -> None:
        self._apart = time.time() - time.monotonic()

    def now(self) -> int:
        return int((time.monotonic() + self._apart) * 1000)

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        # The loop's clock is the same one; half a millisecond more, because it may wake a hair early.
        return asyncio.get_running_loop().call_at(at_ms / 1000 - self._apart + 0.0005, callback)

    async def sleep(self, length_ms: int) -> None:
        await asyncio.sleep(length_ms / 1000)

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        return _Nothing()


class _Nothing:
    """There is nothing to hear."""

    def cancel(self) -> None:
        pass


class _Watch:
    """Holds the wall clock against the loop's steady one."""

    def __init__(self, stepped: Callable[[int], object]) -> None:
        self._stepped = stepped
        self._loop = asyncio.get_running_loop()
        self._apart = self._distance()
        self._handle = self._loop.call_later(WATCH_S, self._look)

    def cancel(self) -> None:
        self._handle.cancel()

    def _distance(self) -> int:
        return time.time_ns() // 1_000_000 - int(self._loop.time() * 1000)

    def _look(self) -> None:
        by_ms = self._distance() - self._apart
        self._handle = self._loop.call_later(WATCH_S, self._look)
        if abs(by_ms) >= STEP_MS:
            self._apart += by_ms
            self._stepped(by_ms)


def key_ring(keys: Keys | None = None) -> KeyRing | None:
    """The ring of these keys, else of those in the environment; None when there are none, so that nothing is sealed."""
    if keys is not None:
        return KeyRing(read_keys(keys), os.urandom)
    file = os.environ.get(KEYS_FILE)
    found = Path(file) if file else os.environ.get(KEYS) or None
    if found is None:
        return None
    try:
        return KeyRing(read_keys(found), os.urandom)
    except BadOption as error:
        raise BadOption(f"${KEYS_FILE if file else KEYS}: {error.message}", code=error.code) from None


def read_keys(keys: Keys) -> list[bytes]:
    """The keys, or `BadOption` with what is wrong, never with a key in it."""
    if isinstance(keys, Path):
        try:
            return parse_keys(keys.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            because = error.strerror if isinstance(error, OSError) else "it is not text"
            raise BadOption(
                f"the key file {keys} can't be read: {because}; make one: wakeful keys new > {keys}", code="keys.file"
            ) from None
    return parse_keys(keys if isinstance(keys, str) else "\n".join(keys))


def webhook_secrets() -> str | Path:
    """What signs webhooks whose secret the program does not say: of the environment, there or in a file."""
    file, text = os.environ.get(WEBHOOK_FILE), os.environ.get(WEBHOOK, "")
    given = Path(file) if file else text
    if given:
        try:
            read_secrets(given)
        except BadOption as error:
            wrong = f"${WEBHOOK_FILE} is {file!r}" if file else f"${WEBHOOK} is …"
            raise BadOption(f"{wrong}: {error.message}", code="config.value") from None
    return given


def default_store() -> str:
    """Where everything is kept when nothing else is said: what $WAKEFUL_STORE says, else a file in this folder."""
    return os.environ.get("WAKEFUL_STORE") or DEFAULT_STORE


def open_store(url: str | Store, keys: Keys | None = None) -> Store:
    """The store of that URL, not opened yet, with these keys or those of the environment."""
    return with_keys(open_url(url) if isinstance(url, str) else url, key_ring(keys))
