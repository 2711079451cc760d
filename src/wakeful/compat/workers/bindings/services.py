"""Layer 5. `env.SERVICE` and `ctx.exports`: how does a Worker call another of the program, or an entrypoint of its own?

In this process, by a new instance of the entrypoint for each call. What is given and answered is copied as it is
between objects, so that nothing changes when one of them becomes an object.
"""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.entrypoints import WorkerEntrypoint
from wakeful.compat.workers.failures import JsTypeError, MissingBinding
from wakeful.compat.workers.values import option_of, result_of, start_task
from wakeful.compat.workers.web import Request, Response, pack, unpack

if TYPE_CHECKING:
    import asyncio

    from wakeful.compat.workers.bindings.desk import BindingHome

_OWN = frozenset({"ctx", "env", "scheduled", "queue", "alarm"})


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

        def method(*args: Any, **kwargs: Any) -> "asyncio.Task[Any]":
            return self._begin(self._call(name, args, kwargs), name)

        method.__name__ = name
        return method

    def __repr__(self) -> str:
        return f"<service {self._service}.{self._entrypoint}>"

    @property
    def _is_there(self) -> bool:
        return self._service in self._home.desk.workers

    def _target(self) -> Any:
        if not self._is_there:
            raise MissingBinding(f"env.{self._name} is the Worker {self._service}, which is not in this program")
        return self._home.desk.workers[self._service]

    def _begin(self, work: Any, what: str) -> "asyncio.Task[Any]":
        return start_task(work, self._home.keep, f"{self!r}.{what}()")

    async def _call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        made = self._target().entrypoint(self._entrypoint, self._props)
        attribute = inspect.getattr_static(type(made), name, None)
        if name in _OWN or not (inspect.isfunction(attribute) or isinstance(attribute, staticmethod | classmethod)):
            raise JsTypeError(f'The RPC receiver does not implement the method "{name}".')
        what = f"arguments of {self!r}.{name}()"
        given = [unpack(pack(one, what)) for one in args]
        answer = getattr(made, name)(*given, **{key: unpack(pack(one, what)) for key, one in kwargs.items()})
        return unpack(pack(await result_of(answer), f"answer of {self!r}.{name}()"))


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
