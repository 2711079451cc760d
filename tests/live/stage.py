"""A node and its callers in the test's own process, with a book of what they were told."""

import asyncio
import time
from typing import Any

from tests.live.harness import Book
from tests.live.programs.tally import make_app
from tests.yardstick import PATIENCE_S


class Stage:
    """Its app, and what was heard from it. Make it inside the event loop: errors that nobody awaited count as wrong."""

    def __init__(self, url: str, **limits: int) -> None:
        self.url = url
        self.book = Book()
        self.acks: list[float] = []
        self.app, self.tally = make_app(self.note, **limits)
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.book.wrong.append(f"{context['message']}: {context.get('exception')!r}")
        )

    def note(self, kind: str, *what: Any) -> None:
        self.book.note(kind, *what)
        if kind == "ack":
            self.acks.append(time.monotonic())

    @property
    def refusals(self) -> int:
        return sum(self.book.refused.values())

    async def acked_since(self, moment: float, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until that many calls were answered after the moment."""
        await self.until(lambda: sum(at > moment for at in self.acks[-count:]) >= count, "no answers", timeout_s)

    async def until(self, is_so: Any, what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until it is so."""
        until = time.monotonic() + timeout_s
        while not is_so():
            state = self.app.deployment.node.state if self.app.deployment.node else "no node"
            assert time.monotonic() < until, (
                f"{what}: node {state}, refused {self.book.refused}, wrong {self.book.wrong[:3]}"
            )
            await asyncio.sleep(0.01)
