"""Layer 5. Few may do something at once that holds everybody up: who waits for it, and who is next?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wakeful.policy.shares import Asker, Rounds, Shares, Verdict
from wakeful.security.crowd import Crowding


class Turnstile:
    """Lets a few through at a time, asker by asker; no more wait than there are places, and nobody has all of these."""

    def __init__(self, at_once: int, places: int, what: str, crowding: Crowding) -> None:
        """`what` is what errors call those that wait."""
        self.shares = Shares(places)
        self._left = at_once
        self._rounds: Rounds[asyncio.Future[None]] = Rounds()
        self._what = what
        self._crowding = crowding

    @asynccontextmanager
    async def passed(self, asker: Asker) -> AsyncIterator[None]:
        """Around what is done; `TooMany` or `Unavailable` when too many wait."""
        verdict = self.shares.take(asker)
        if verdict is not Verdict.TAKEN:
            raise self._crowding.refusal(verdict, self._what, self.shares, asker)
        try:
            await self._through(asker)
            try:
                yield
            finally:
                self._leave()
        finally:
            self.shares.give(asker)

    async def _through(self, asker: Asker) -> None:
        if self._left and not self._rounds:
            self._left -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rounds.add(asker, future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave()  # it was this one's turn already
            raise

    def _leave(self) -> None:
        while self._rounds:
            future = self._rounds.next()
            if not future.done():
                future.set_result(None)
                return
        self._left += 1
