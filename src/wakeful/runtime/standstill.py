"""Layer 3. Did this process stand still: frozen, starved of its processor, or on a machine that was paused?

Whoever stood still for longer than its lease is thought dead, and its first question to the store runs out of time as
it wakes. That looks like a database that is away; only the process itself can tell that it was not. So it does if its
loop is held up again and again for less: an answer that came at once is read whenever the loop gets to it.
"""

import asyncio
import logging
from collections import deque

from wakeful.values.times import Clock, Handle

log = logging.getLogger("wakeful.node")

BEAT_MS = 250
STILL_MS = 1_000  # who is held up for so long at once was held up by more than a long turn or two
HELD_MS = 20  # less is a loop that works
HELD_KEPT = 256  # of a minute all that a beat can see
LONG_S = 3_600
FRESH_MS = 60_000  # for so long what happens is put down to it


class Standstill:
    """A beat now and then, by the loop's steady time: what comes late says for how long nothing could run.

    And what the loop then takes for one turn says how long everybody waits who is ready: a beat may be due just then.
    """

    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self._due = 0.0  # when the next beat should be, by the loop
        self._handle: Handle | None = None
        self._held: deque[tuple[float, int]] = deque(maxlen=HELD_KEPT)  # when it ended, and for how many ms
        self._stood_ms = 0
        self._stood_at = 0.0
        # Of an hour, when it ended and for how many ms: each is longer than all that came after it.
        self._long: deque[tuple[float, int]] = deque()

    def start(self) -> None:
        self.stop()
        self._due = asyncio.get_running_loop().time() + BEAT_MS / 1000
        self._handle = self._clock.call_at(self._clock.now() + BEAT_MS, self._beat)

    def stop(self) -> None:
        """No more beats; one that is late by now is still counted."""
        if self._handle is not None:
            self._look()
            self._handle.cancel()
            self._handle = None

    def _beat(self) -> None:
        self._look()
        loop = asyncio.get_running_loop()
        self._due = loop.time()
        self._handle = loop.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._look()
        self._handle = None
        self.start()

    def _look(self) -> None:
        """Count how late it is by now, once."""
        now = asyncio.get_running_loop().time()
        late_ms = round((now - self._due) * 1000)
        if late_ms < HELD_MS:
            return
        self._due = now  # counted
        self._held.append((now, late_ms))
        if late_ms < STILL_MS:
            return
        self._stood_ms, self._stood_at = late_ms, now
        while self._long and self._long[-1][1] <= late_ms:
            self._long.pop()
        self._long.append((now, late_ms))
        log.warning(
            "this process stood still for %.1f s: it was frozen or overloaded, or its machine was paused",
            late_ms / 1000,
            extra={"code": "node.paused"},
        )

    def stood(self) -> dict[str, int] | None:
        """For how long it stood still last, and how long ago that ended; None if it did not of late."""
        if self._handle is not None:
            self._look()
        if not self._stood_ms:
            return None
        ago_ms = round((asyncio.get_running_loop().time() - self._stood_at) * 1000)
        return {"for_ms": self._stood_ms, "ago_ms": ago_ms} if ago_ms < FRESH_MS else None

    def longest_ms(self) -> int:
        """The longest that it stood still in the last hour."""
        if self._handle is not None:
            self._look()
        since = asyncio.get_running_loop().time() - LONG_S
        while self._long and self._long[0][0] < since:
            self._long.popleft()
        return self._long[0][1] if self._long else 0

    def held_up(self, within_ms: int) -> dict[str, int] | None:
        """For how long its loop was held up within that time, in all and at most at once; None if it was not."""
        if self._handle is not None:
            self._look()
        now = asyncio.get_running_loop().time()
        since = now - within_ms / 1000
        # What began before counts from then on.
        lengths = [min(ms, round((at - since) * 1000)) for at, ms in self._held if at > since]
        if not lengths:
            return None
        longest_ms = max(ms for at, ms in self._held if at > since)
        return {"for_ms": sum(lengths), "longest_ms": longest_ms, "within_ms": within_ms}

    def held_lately(self) -> dict[str, int] | None:
        """Of the last lease."""
        return self.held_up(self._lease_ms)

    def is_to_blame(self) -> bool:
        """A lease that is over by now is so because of this process: for most of it the loop could not run."""
        held = self.held_lately()
        return held is not None and held["for_ms"] * 2 >= held["within_ms"]

    def words(self) -> str:
        """What it stood still for, for a line of the log; empty if it did not."""
        stood = self.stood()
        if stood is not None:
            return (
                f"this process stood still for {stood['for_ms'] / 1000:.1f} s: look at this node (frozen, overloaded, "
                "a paused machine), not at the database"
            )
        held = self.held_lately()
        if held is None or not self.is_to_blame():
            return ""
        return (
            f"the event loop of this process was held up for {held['for_ms'] / 1000:.1f} of the last "
            f"{held['within_ms'] / 1000:g} s, for up to {held['longest_ms'] / 1000:.1f} s at once: a handler computes or "
            "blocks in it (await asyncio.to_thread(…)), or it has too little CPU; look at this node, not at the database"
        )
