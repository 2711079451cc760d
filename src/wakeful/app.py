"""Layer 5. The program's classes, and a node to run them: where everything is put together."""

import os
import platform
import random
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from wakeful.logic.limits import Limits
from wakeful.runtime.node import Node, make_stub
from wakeful.runtime.registry import Registry
from wakeful.store import open_url
from wakeful.store.protocol import Store
from wakeful.system import SystemClock
from wakeful.transport.control import ControlServer
from wakeful.values.errors import NotRunning
from wakeful.values.ids import ObjectId
from wakeful.values.times import Duration, duration_ms

if TYPE_CHECKING:
    from wakeful.testing.world import World

T = TypeVar("T")


class App:
    """Classes of durable objects. `async with app.run(url)` starts a node that runs them."""

    def __init__(self, *, idle: Duration = "10s", limits: Limits | None = None) -> None:
        self.registry = Registry()
        self.limits = limits or Limits()
        self.idle_ms = duration_ms(idle, what="idle")
        self.node: Node | None = None

    @overload
    def object(self, cls: type[T], /) -> type[T]: ...

    @overload
    def object(self, /, *, name: str | None = None) -> Callable[[type[T]], type[T]]: ...

    def object(self, cls: type[T] | None = None, /, *, name: str | None = None) -> Any:
        """Register a class; its name is the class name unless `name` says otherwise."""

        def register(found: type[T]) -> type[T]:
            self.registry.add(found, name)
            return found

        return register if cls is None else register(cls)

    def get(self, cls: type[T], key: str, *, deadline: Duration | None = None, request_key: str | None = None) -> T:
        """A stub of the object: its methods are calls, and type checkers see the class.

        `request_key` makes a call repeatable: the first answer is remembered and given again.
        """
        return cast("T", make_stub(self, self.registry.of_class(cls), key, deadline, request_key))

    @asynccontextmanager
    async def run(self, url: str | Store = "sqlite:wakeful.db", *, paranoid: bool = False) -> AsyncIterator[Node]:
        """A node on that store (`memory:`, `sqlite:PATH`, `postgresql://…`) for as long as the block lasts.

        `paranoid` makes every object sleep after each turn, so that one which relies on memory fails early.
        """
        store = open_url(url) if isinstance(url, str) else url
        node = Node(
            name=uuid.uuid4().hex[:12],
            registry=self.registry,
            store=store,
            clock=SystemClock(),
            dice=random.SystemRandom(),
            limits=self.limits,
            idle_ms=self.idle_ms,
            about=f"{platform.node()} pid {os.getpid()} {os.path.basename(sys.argv[0])}",  # no arguments: they may hold a password
            sleep_after_turn=paranoid,
        )
        control = ControlServer(node)
        await control.listen()
        try:
            await node.start()
            self.attach(node)
            try:
                yield node
            finally:
                self.detach(node)
                await node.stop()
        finally:
            await control.close()

    def world(self, **options: Any) -> "World":
        """A virtual world for tests: see `wakeful.testing.World`."""
        from wakeful.testing.world import World

        return World(self, **options)

    def attach(self, node: Node) -> None:
        """Calls go to this node from here on."""
        if self.node is not None:
            raise NotRunning("this app is running already; one node per App in a process")
        self.node = node

    def detach(self, node: Node) -> None:
        if self.node is node:
            self.node = None

    def send(
        self,
        target: ObjectId,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_ms: int | None,
        request_key: str | None,
    ) -> Coroutine[Any, Any, Any]:
        """Router of the app's own stubs: to the node that runs now."""
        if self.node is None:
            raise NotRunning(f"{target}.{method}: the app is not running; call it inside `async with app.run(…)`")
        return self.node.send(target, method, args, kwargs, deadline_ms=deadline_ms, request_key=request_key)
