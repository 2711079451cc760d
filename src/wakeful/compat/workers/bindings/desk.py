"""Layer 5. What do the bindings of all Workers of a program share, and what is the one given that makes them?"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from wakeful.compat.workers.config import Config
from wakeful.compat.workers.failures import JsTypeError
from wakeful.runtime.context import runtime_of

if TYPE_CHECKING:
    from asyncio import Task

    from wakeful.app import App
    from wakeful.runtime.context import Context

DESK = "bindings"


class DatabaseFiles(NamedTuple):
    """What a D1 database gets when it wakes, and the table that says which of it it has had."""

    table: str
    migrations: tuple[tuple[str, str], ...]  # name and text of each, in order


class BindingDesk:
    """What objects behind bindings find at the node that they are on: what the files of the program's Workers say."""

    def __init__(self) -> None:
        self.databases: dict[str, DatabaseFiles] = {}
        self.workers: dict[str, Any] = {}  # by name
        self.consumers: dict[str, Any] = {}  # by the queue's name
        self.workflows: dict[str, Any] = {}  # by the name in the wrangler file
        self.namespaces: dict[str, Any] = {}  # by the name under which their objects are stored
        # Stubs and the like that were sent, by what they are of.
        self.references: dict[str, Callable[..., Any]] = {"stub": self._stub}

    def _stub(self, cls: str, id: str, name: str | None) -> Any:
        namespace = self.namespaces.get(cls)
        if namespace is None:
            raise JsTypeError(f"a stub of {cls}, which no Worker of this program has, can't be had here")
        found = namespace.idFromString(id)
        found.name = name
        return namespace.get(found)


class BindingHome(Protocol):
    """The Worker whose bindings are made."""

    @property
    def app(self) -> "App": ...

    @property
    def config(self) -> Config: ...

    @property
    def desk(self) -> BindingDesk: ...

    @property
    def module(self) -> Any: ...

    @property
    def env(self) -> Any: ...

    @property
    def exports(self) -> Any: ...

    async def queue(self, batch: Any) -> None: ...

    def keep(self, task: "Task[Any]") -> None: ...


def desk_of(ctx: "Context") -> BindingDesk:
    """That of the program which runs this object."""
    features: dict[str, Any] = runtime_of(ctx).node.features
    return cast("BindingDesk", features[DESK])
