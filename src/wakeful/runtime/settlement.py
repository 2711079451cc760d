"""Layer 3. Which commits of one object are on disk, and who waits for them?

Commits of one activation are numbered; an answer waits for the number it rests on.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.runtime.calls import for_caller, resolve
from wakeful.runtime.committer import Failure
from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId
from wakeful.values.trace import TRACE, UNSAMPLED

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


class Settling:
    """The part of an activation that sends commits on their way and lets answers go."""

    __slots__ = ("_durable", "_failure", "_submitted", "_waiters")

    id: ObjectId
    node: "Node"

    def __init__(self) -> None:
        self._submitted = self._durable = 0  # the last commit that was sent on its way, and that is on disk
        # In order of their numbers: what is to be said to whom when that commit is on disk.
        self._waiters: list[tuple[int, asyncio.Future[Any], Any, BaseException | None]] = []
        self._failure: Failure | None = None

    def submit(self, commit: Commit) -> int:
        """Send a commit on its way; its number."""
        if self._failure is not None:
            raise for_caller(self.id, self._failure)  # built on something that is not there
        self._submitted = number = self._submitted + 1
        done: Callable[[Failure | None], None] = partial(self._committed, number, commit)
        tracer = self.node.tracer
        if tracer is not None and TRACE.get() != UNSAMPLED:
            done = tracer.follow("commit", self.id, done)
        self.node.committer.submit(commit, done)
        return number

    async def durable(self, number: int) -> None:
        """Wait until that commit, and so all before it, is on disk, and until it is sure that this copy is the one."""
        if self._failure is not None:  # also of what is on disk: a reader may have looked since this copy is no more
            raise for_caller(self.id, self._failure)
        if number <= self._durable and not self.node.is_doubted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((number, future, None, None))
        await future

    async def settled(self) -> None:
        """Wait until every finished turn is on disk."""
        await self.durable(self._submitted)

    def _committed(self, number: int, commit: Commit, failure: Failure | None) -> None:
        """What became of that commit."""
        raise NotImplementedError

    def release(self, number: int | None = None) -> None:
        """That much is on disk, or all that was: let the answers go that rest on no more. Its owner is sure of it."""
        number = self._durable if number is None else number
        waiters = self._waiters
        all_ready = number == self._submitted
        self._waiters = [] if all_ready else [waiter for waiter in waiters if waiter[0] > number]
        for by, future, result, error in waiters:
            if by <= number:
                resolve(future, result, error)
