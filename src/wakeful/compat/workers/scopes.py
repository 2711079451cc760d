"""Layer 5. Which of the transactions that an event has begun at once goes first?

They may be gathered: each then waits for the one before it, as there, since what one undoes must be its own. One that
begins inside another waits only for those inside the same one.
"""

from asyncio import Lock
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from wakeful.runtime.turn import Turn


class Scope:
    """A turn, or a transaction in it: one at a time of those right inside has it to itself."""

    def __init__(self, turn: "Turn", parent: Optional["Scope"] = None) -> None:
        self.turn = turn
        self._parent = parent
        self._inside = Lock()
        self._is_over = False

    @asynccontextmanager
    async def entered(self) -> AsyncIterator["Scope"]:
        """A new one inside the one that runs this code; it must be `close`d before what it wrote is settled."""
        while True:
            above = self._here()
            async with above._inside:
                if above._is_over:
                    continue  # it ended while this waited
                made = Scope(self.turn, above)
                token = _INSIDE.set(made)
                try:
                    yield made
                finally:
                    _INSIDE.reset(token)
                    made._is_over = True
                return

    async def close(self) -> None:
        """Wait for what runs inside it; nothing begins there any more."""
        async with self._inside:
            self._is_over = True

    def _here(self) -> "Scope":
        found = _INSIDE.get()
        while found is not None and (found.turn is not self.turn or found._is_over):
            found = found._parent
        return found or self


_INSIDE: ContextVar[Scope | None] = ContextVar("wakeful.workers.scope", default=None)
