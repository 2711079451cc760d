"""Layer 2. How long is a server asked again that was lost, or can't be reached?

A server that restarts, fails over or stalls is away for seconds. Whoever asked waits for it as for a slow one, as long
as one statement may take: `?timeout=`.
"""

import asyncio
from contextlib import suppress

FIRST_S = 0.05
MOST_S = 1.0


class QuestionTime:
    """One question's time, with all that is tried for it."""

    __slots__ = ("_delay_s", "_until")

    def __init__(self, length_s: float) -> None:
        self._until = asyncio.get_running_loop().time() + length_s
        self._delay_s = FIRST_S

    async def waits(self) -> bool:
        """Wait a moment, to ask again; False when the time is over."""
        left_s = self._until - asyncio.get_running_loop().time()
        if left_s <= 0:
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), min(left_s, self._delay_s))
        self._delay_s = min(2 * self._delay_s, MOST_S)
        return True
