"""Layer 3. Who asks the owner of an object for what is new, and waits there: what while it can't be reached?"""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from wakeful.policy.retry import platform_delay_ms
from wakeful.values.errors import DeadlineExceeded, NotRunning, Unavailable
from wakeful.values.ids import ObjectId

WAIT_MS = 20_000  # how long a watcher waits at the owner before it asks again
T = TypeVar("T")


class LongPoll(ABC, Generic[T]):
    """One who asks, again and again."""

    def __init__(self, app: Any, target: ObjectId) -> None:
        self._app = app
        self._target = target
        self._tries = 0

    @abstractmethod
    async def look(self) -> list[T]:
        """What is new; nothing when that is nothing for a while."""

    async def wait(self) -> list[T]:
        """The same, also while the object can't be reached: nothing then, and it is asked again later."""
        try:
            return await self.look()
        except (Unavailable, DeadlineExceeded) as error:
            node = self._app.node
            if node is None or (isinstance(error, NotRunning) and node.state in ("stopping", "stopped")):
                raise
            self._tries += 1
            await node.clock.sleep(platform_delay_ms(self._tries, node.dice.random()))
            return []

    async def _ask(self, operation: str, *args: Any) -> Any:
        answer = await self._app.send(self._target, operation, args, {}, deadline_ms=WAIT_MS + 10_000, request_key=None)
        self._tries = 0
        return answer
