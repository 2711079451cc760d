"""Layer 3. Did this process stand still: frozen, starved of its processor, or on a machine that was paused?

Whoever stood still for longer than its lease is thought dead, and its first question to the store runs out of time as
it wakes. That looks like a database that is away; only the process itself can tell that it was not.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from wakeful.values.clock import Handle

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.node")

BEAT_MS = 1_000
STILL_MS = 1_000  # a beat that comes so much later was held up by more than a long turn or two
FRESH_MS = 60_000  # for so long what happens is put down to it


class Standstill:
    """A beat now and then, by the loop's steady time: what comes late says for how long nothing could run."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._due = 0.0  # when the next beat should be, by the loop
        self._handle: Handle | None = None
        self._stood_ms = 0
        self._stood_at = 0.0

    def start(self) -> None:
        self.stop()
        self._due = asyncio.get_running_loop().time() + BEAT_MS / 1000
        self._handle = self._node.clock.call_at(self._node.clock.now() + BEAT_MS, self._beat)

    def stop(self) -> None:
        """No more beats; one that is late by now is still counted."""
        if self._handle is not None:
            self._look()
            self._handle.cancel()
            self._handle = None

    def _beat(self) -> None:
        self._look()
        self._handle = None
        self.start()

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        late_ms = round((now - self._due) * 1000)
        if late_ms < STILL_MS:
            return
        self._due = now  # counted
        self._stood_ms, self._stood_at = late_ms, now
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

    def words(self) -> str:
        """The same for a line of the log; empty if it did not."""
        stood = self.stood()
        if stood is None:
            return ""
        return (
            f"this process stood still for {stood['for_ms'] / 1000:.1f} s: look at this node (frozen, overloaded, "
            "a paused machine), not at the database"
        )
