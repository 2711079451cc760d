"""Layer 5. The base class for those who want one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from wakeful.jobs.jobs import Jobs
from wakeful.runtime.context import Context
from wakeful.runtime.storage import Storage
from wakeful.schedules.records import Schedule
from wakeful.schedules.schedules import Schedules
from wakeful.specs.fluent import Every
from wakeful.sql.feature import Sql

if TYPE_CHECKING:
    from wakeful.sync_view import BlockingView


class DurableObject:
    """Keeps `ctx` and offers `self.storage`, `self.sql`, `self.state`, `self.schedules`, `self.every` and `self.jobs`. A class without it works the same.

    Declare `state: YourDataclass` to have a typed value saved with each turn that changed it.
    Attributes set on `self` live only as long as the object is awake.

    >>> from dataclasses import dataclass
    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @dataclass
    ... class Purse:
    ...     coins: int = 0
    >>> @app.object
    ... class Wallet(DurableObject):
    ...     state: Purse
    ...     async def earn(self, coins: int) -> int:
    ...         self.state.coins += coins
    ...         return self.state.coins
    >>> async with app.world() as world:
    ...     await world.get(Wallet, "ann").earn(3)
    ...     await world.crash()
    ...     await world.restart()
    ...     print(await world.get(Wallet, "ann").earn(4))
    7
    """

    migrations: ClassVar[Sequence[str | Callable[[Any], Any]]] = ()  # what each object gets once, in order, as it wakes
    history: ClassVar[Any] = None  # "30d": for so long its objects can be as they were (`ctx.restore`)

    __wakeful_names__: tuple[str, ...] = ("ctx", "storage", "sql", "state", "schedules", "every", "jobs", "blocking")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    __init__.__wakeful_own__ = True  # type: ignore[attr-defined]

    @property
    def storage(self) -> Storage:
        return self.ctx.storage

    @property
    def sql(self) -> Sql:
        """`self.sql("SELECT …", …)`: the object's own database."""
        found: Sql = self.ctx.sql
        return found

    @property
    def schedules(self) -> Schedules:
        return Schedules(self.ctx)

    @property
    def every(self) -> Every[Awaitable[Schedule]]:
        """`self.every.monday.at("9am")(self.report)` adds a schedule to this object."""
        return Schedules(self.ctx).every

    @property
    def jobs(self) -> Jobs:
        """`await self.jobs.schedule(stub.method, …)`: commits with the turn."""
        return Jobs(self.ctx)

    @property
    def blocking(self) -> "BlockingView":
        """All of these for `@in_thread` and `@in_process` methods: `self.blocking.storage.get(…)`, without awaiting."""
        from wakeful.sync_view import BlockingView

        return BlockingView(self.ctx)

    if TYPE_CHECKING:
        state: Any
    else:

        @property
        def state(self):
            return self.ctx.state

        @state.setter
        def state(self, value):
            self.ctx.state = value
