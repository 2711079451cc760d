"""Layer 5. How does a binding call the object behind it? As a stub calls any other, through the same gates."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.namespaces import Stub

if TYPE_CHECKING:
    import asyncio

    from wakeful.app import App


class _SystemClass(NamedTuple):
    name: str


class _SystemNamespace(NamedTuple):
    app: "App"
    hosted: _SystemClass


class _SystemId(NamedTuple):
    key: str
    name: str | None = None
    is_hashed: bool = False


class SystemStub(Stub):
    """Stands for an object of Wakeful's own that a binding is kept in: its key is what the wrangler file calls it."""

    def __init__(self, app: "App", cls: str, key: str) -> None:
        super().__init__(cast("Any", _SystemNamespace(app, _SystemClass(cls))), cast("Any", _SystemId(key)))


class ObjectBinding:
    """A name in `env` with an object behind it. What it does is on its way when a call returns, awaited or not."""

    def __init__(self, app: "App", cls: str, key: str) -> None:
        self._app = app
        self._stub = SystemStub(app, cls, key)

    def _begin(self, work: Coroutine[Any, Any, Any], what: str) -> "asyncio.Task[Any]":
        return self._stub._begin(work, what)

    def _now(self) -> int:
        return now_of(self._app)

    def __repr__(self) -> str:
        return repr(self._stub)


def now_of(app: "App") -> int:
    """The deployment's time, in milliseconds."""
    node = app.deployment.node
    if node is None:
        raise JsException("the Worker is not running")
    return node.clock.now()
