"""Layer 5. `env.SERVICE` and `ctx.exports`: how does a Worker call another of the program, or an entrypoint of its own?

In this process, by a new instance of the entrypoint for each call. What is given and answered is copied as it is
between objects, so that nothing changes when one of them becomes an object.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.entrypoints import WorkerEntrypoint
from wakeful.compat.workers.failures import JsTypeError, MissingBinding
from wakeful.compat.workers.rpc import (
    Given,
    Packed,
    Path,
    Property,
    RpcPromise,
    loans_of,
    promise,
    reach,
    unpack_call,
)
from wakeful.compat.workers.values import option_of
from wakeful.compat.workers.web import Freight, Request, Response, pack, unpack
from wakeful.runtime.events_turn import StandingTurn
from wakeful.runtime.turn import CURRENT

if TYPE_CHECKING:
    import asyncio

    from wakeful.compat.workers.bindings.desk import BindingDesk, BindingHome


class ServiceBinding:
    """An entrypoint of a Worker: `fetch`, and its methods. A call is on its way when it returns, awaited or not."""

    def __init__(self, home: "BindingHome", name: str, service: str, entrypoint: str | None, props: Any = None) -> None:
        self._home = home
        self._name = name
        self._service = service
        self._entrypoint = entrypoint or "Default"
        self._props = dict(props or {})

    def __call__(self, options: Any = None, **named: Any) -> "ServiceBinding":
        """The same one with these `props` in its `ctx`."""
        props = option_of(options, named, "an export").get("props") or {}
        return ServiceBinding(self._home, self._name, self._service, self._entrypoint, props)

    def fetch(self, input: Any, init: Any = None, **options: Any) -> "asyncio.Task[Response]":
        """Its answer to a request, or to a URL."""
        is_whole = isinstance(input, Request) and not init and not options
        request = input if is_whole else Request(input, init, **options)
        return self._begin(self._target().answer_as(self._entrypoint, self._props, request), "fetch")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Property(self, (name,))

    def __repr__(self) -> str:
        return f"<service {self._service}.{self._entrypoint}>"

    @property
    def _is_there(self) -> bool:
        return self._service in self._home.desk.workers

    def _target(self) -> Any:
        if not self._is_there:
            raise MissingBinding(f"env.{self._name} is the Worker {self._service}, which is not in this program")
        return self._home.desk.workers[self._service]

    def _begin(self, work: Any, what: str) -> RpcPromise:
        return promise(work, f"{self!r}.{what}()", self._home.keep)

    def _use(self, path: Path, given: Given | None) -> RpcPromise:
        turn = CURRENT.get()
        loans = loans_of(self._home.app.deployment.node)
        mine, theirs = loans.freight(turn.activation if isinstance(turn, StandingTurn) else None), loans.freight()
        packed = Packed(given, f"{self!r}.{'.'.join(path)}", mine)  # now: what is changed afterwards is not in it
        return self._begin(self._reach(path, packed, mine, theirs), ".".join(path))

    def _reference(self) -> list[Any]:
        """How it is sent to somebody else, who gets one like it."""
        return ["service", self._service, self._entrypoint, self._props]

    async def _reach(self, path: Path, packed: Packed, mine: Freight, theirs: Freight) -> Any:
        made = self._target().entrypoint(self._entrypoint, self._props)
        answer = await reach(made, path, unpack_call(packed.take(), theirs))
        return unpack(pack(answer, f"answer of {self!r}.{'.'.join(path)}()", theirs), mine)


def service_of(desk: "BindingDesk", service: str, entrypoint: str, props: dict[str, Any]) -> ServiceBinding:
    """One that was sent."""
    if service not in desk.workers:
        raise JsTypeError(f"an entrypoint of the Worker {service}, which is not in this program, can't be had here")
    return ServiceBinding(desk.workers[service], service, service, entrypoint, props)


class Exports:
    """`ctx.exports`: the Worker's own entrypoints, and the objects of its classes, by the names of the classes."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = dict(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._known:
            raise AttributeError(f"ctx.exports has no {name!r}; there are {', '.join(sorted(self._known)) or 'none'}")
        return self._known[name]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __dir__(self) -> list[str]:
        return sorted(self._known)


def exports_of(home: "BindingHome", module: Any, namespaces: Mapping[str, Any]) -> Exports:
    """What the module of a Worker exports: its entrypoints, and of its other classes those that objects are of."""
    known = dict(namespaces)
    for name, cls in vars(module).items():
        if isinstance(cls, type) and issubclass(cls, WorkerEntrypoint) and cls is not WorkerEntrypoint:
            known[name] = ServiceBinding(home, f"exports.{name}", home.config.name, name)
    if "Default" in known:
        known["default"] = known["Default"]
    return Exports(known)
