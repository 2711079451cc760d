"""What do other Python libraries do with the same work?

Each in a process of its own, set to survive a power cut as Wakeful does, with a handler that does
nothing (which favours them: ours writes a key). Every run checks that all its jobs really ran.
"""

import sqlite3
import threading
import time

# Schedule far ahead, as the works of Wakeful do.
DAY_S = 86_400


# Arming takes no longer than this, whatever a peer's pace: fewer jobs then, which its note says.
ARMING_S = 6


def affordable(count: int, pace: float) -> tuple[int, float]:
    """How many jobs to arm at that pace, and how many seconds ahead, so that arming is over before they are due."""
    count = max(1, min(count, int(ARMING_S * pace)))
    return count, 1 + 2.5 * count / pace


class Tally:
    """Counts handlers as they run, in whatever thread, and knows when the last of `count` did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.expect(0)

    def expect(self, count: int) -> None:
        self.count = count
        self.ran = 0
        self.done = threading.Event()

    def hit(self) -> None:
        with self._lock:
            self.ran += 1
            if self.ran >= self.count:
                self.done.set()

    def wait(self, seconds: float) -> None:
        if not self.done.wait(seconds):
            raise AssertionError(f"only {self.ran} of {self.count} jobs ran within {seconds:.0f} s")

    def check(self) -> None:
        """To be called after the clock was stopped: none ran twice."""
        time.sleep(0.05)
        if self.ran != self.count:
            raise AssertionError(f"{self.ran} runs of {self.count} jobs")


def make_wal(url: str) -> str:
    """The path of the file, which is in WAL mode from here on, as Wakeful's is: its default journal is slower."""
    path = url.removeprefix("sqlite:")
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    return path


def sqlalchemy_url(url: str) -> str:
    """The store's place as SQLAlchemy with psycopg 3 names it."""
    if url.startswith("sqlite:"):
        return f"sqlite:///{make_wal(url)}"
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
