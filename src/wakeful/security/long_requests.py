"""Layer 5. What goes on for longer than a request: whose is it, and are they still let in?

A stream or a socket was let in once. Its caller is looked at again every few seconds, once for all that they have open,
and when their token or session is over, so is whatever they opened with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING

from wakeful.security.scopes import Caller
from wakeful.values.errors import WakefulError

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.security")

LOOK_MS = 2_000

End = Callable[[], None]


class Lasting:
    """What is open, by whom."""

    def __init__(self, is_still: Callable[["Node", Caller], Awaitable[bool]]) -> None:
        self._is_still = is_still
        self._open: dict[Caller, dict[object, End]] = {}
        self._node: Node | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def open(self, node: "Node", caller: Caller, end: End) -> Iterator[None]:
        """While the block lasts, `end` is called once the caller would not be let in any more."""
        mark = object()
        self._open.setdefault(caller, {})[mark] = end
        if self._task is None or self._task.done() or node is not self._node:
            self._node = node
            # Its own context: it belongs to no request.
            self._task = asyncio.get_running_loop().create_task(self._look(node), context=Context())
            node.keep(self._task)
        try:
            yield
        finally:
            ends = self._open.get(caller, {})
            ends.pop(mark, None)
            if not ends:
                self._open.pop(caller, None)

    async def _look(self, node: "Node") -> None:
        """Until nothing is open."""
        while self._open and not node.is_dead and node is self._node:
            await node.clock.sleep(LOOK_MS)
            for caller in list(self._open):
                try:
                    if await self._is_still(node, caller):
                        continue
                except WakefulError:  # a store that can't be read now says nothing about the token
                    continue
                ends = self._open.pop(caller, {})
                if ends:
                    words = "%s is let in no more; %d of its connections end"
                    log.info(words, caller.name, len(ends), extra={"code": "token.ended"})
                for end in ends.values():
                    end()
