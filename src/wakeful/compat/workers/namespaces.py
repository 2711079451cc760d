"""Layer 5. `env`: how does the Worker's code reach its objects and its variables?"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.config import REMEDIES
from wakeful.compat.workers.events import Hosted
from wakeful.compat.workers.failures import JsTypeError, MissingBinding
from wakeful.compat.workers.host import NAME, REACH
from wakeful.compat.workers.ids import CONTENT_BYTES, DurableObjectId, id_of_text, named_id, unique_id
from wakeful.compat.workers.rpc import Given, Packed, Path, Property, RpcPromise, loans_of, promise
from wakeful.compat.workers.values import option_of, text_of
from wakeful.compat.workers.web import NO_FREIGHT, Freight, Request, Response, request_data, response_of, unpack
from wakeful.runtime.beside import come_back
from wakeful.runtime.events_turn import StandingTurn
from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import UnknownMethod
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    import asyncio

    from wakeful.app import App


class Stub:
    """Stands for an object: `fetch`, and its methods. A call is on its way when it returns, awaited or not."""

    def __init__(self, namespace: "Namespace", id: DurableObjectId) -> None:
        self._namespace = namespace
        self.id = id

    @property
    def name(self) -> str | None:
        return self.id.name

    def fetch(self, input: Any, init: Any = None, **options: Any) -> "asyncio.Task[Response]":
        """The object's answer to a request, or to a URL."""
        is_whole = isinstance(input, Request) and not init and not options
        request = input if is_whole else Request(input, init, **options)
        return self._begin(self._fetch(request), "fetch")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        return Property(self, (name,))

    def __repr__(self) -> str:
        return f"<{self._namespace.hosted.name}/{self.id.key}>"

    def _begin(self, call: Any, what: str) -> RpcPromise:
        node = self._namespace.app.deployment.node
        return promise(call, f"{self!r}.{what}()", node.keep if node is not None else _nobody)

    def _use(self, path: Path, given: Given | None) -> RpcPromise:
        what, freight = f"{self!r}.{'.'.join(path)}", self._freight()
        packed = Packed(given, what, freight)  # now: what is changed afterwards is not in it
        return self._begin(self._reach(path, packed, freight), ".".join(path))

    def _reference(self) -> list[Any]:
        """How it is sent to somebody else, who gets one like it."""
        return ["stub", self._namespace.hosted.name, self.id.toString(), self.id.name]

    async def _fetch(self, request: Request) -> Response:
        freight = self._freight()
        answer = await self._send("fetch", (request_data(request, freight.offer),), {})
        return response_of(answer, freight.claim)

    async def _reach(self, path: Path, packed: Packed, freight: Freight) -> Any:
        call = packed.take()
        if call is not None and len(path) == 1:
            args, kwargs = call
            return unpack(await self._send(path[0], tuple(args), kwargs), freight)
        return unpack(await self._send(REACH, (list(path), call), {}), freight)

    def _freight(self) -> Freight:
        """What carries that of the arguments which can't be copied: for the object whose code calls, or the Worker's."""
        node = self._namespace.app.deployment.node
        if node is None:
            return NO_FREIGHT  # the call itself will say so
        turn = CURRENT.get()
        return loans_of(node).freight(turn.activation if isinstance(turn, StandingTurn) else None)

    async def _send(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        namespace, id = self._namespace, self.id
        if id.is_hashed and id.name is not None:
            kwargs[NAME] = id.name
        target = ObjectId(namespace.hosted.name, id.key)
        try:
            return await namespace.app.deployment.send(target, method, args, kwargs, deadline_ms=None, request_key=None)
        except UnknownMethod as error:
            raise JsTypeError(f"the object has no method {method!r} that can be called: {error.message}") from None
        except Exception as error:
            with suppress(AttributeError):
                error.remote = True  # type: ignore[attr-defined]
            raise
        finally:
            await come_back()


class Namespace:
    """The objects of one class: ids from names, from text and new ones, and stubs for them."""

    def __init__(self, app: "App", hosted: Hosted) -> None:
        self.app = app
        self.hosted = hosted

    def idFromName(self, name: Any) -> DurableObjectId:  # noqa: N802  the name there
        return named_id(self.hosted.name, text_of(name, "an object's name"), self.hosted.id_key)

    def idFromString(self, text: str) -> DurableObjectId:  # noqa: N802  the name there
        return id_of_text(self.hosted.name, text, self.hosted.id_key)

    def newUniqueId(self, options: Any = None, **named: Any) -> DurableObjectId:  # noqa: N802  the name there
        _check_place(option_of(options, named, "newUniqueId()"))
        return unique_id(self.hosted.name, secrets.token_bytes(CONTENT_BYTES), self.hosted.id_key)

    def get(self, id: Any, options: Any = None, **named: Any) -> Stub:
        option_of(options, named, "get()")  # where to put it is the cluster's to decide
        if not isinstance(id, DurableObjectId):
            raise JsTypeError("get() takes an id: idFromName(…), idFromString(…) or newUniqueId()")
        if id.cls != self.hosted.name:
            raise JsTypeError(f"this is no id of the class {self.hosted.name}")
        return Stub(self, id)

    def getByName(self, name: Any, options: Any = None, **named: Any) -> Stub:  # noqa: N802  the name there
        option_of(options, named, "getByName()")
        return Stub(self, self.idFromName(name))

    def jurisdiction(self, name: Any) -> "Namespace":
        _check_place({"jurisdiction": name})
        return self


class Env:
    """The bindings and variables of the Worker, by name."""

    def __init__(self, bindings: Mapping[str, Any], missing: Mapping[str, str]) -> None:
        self._bindings = dict(bindings)
        self._missing = dict(missing)
        self._exports: Any = None  # what `ctx.exports` is

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._missing:
            what = self._missing[name]
            remedy = REMEDIES.get(what, "see docs/cloudflare.md")
            raise MissingBinding(f"env.{name} is {what}, which is not here; {remedy}")
        try:
            return self._bindings[name]
        except KeyError:
            known = ", ".join(sorted(self._bindings)) or "nothing"
            raise AttributeError(f"env has no {name!r}; the wrangler file binds {known}") from None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._bindings

    def __dir__(self) -> list[str]:
        return sorted(self._bindings)

    @contextmanager
    def _patch(self, given: Any = None, **named: Any) -> Iterator[None]:
        """`workers.patch_env`: other values under some names, for as long as the block lasts."""
        before = self._bindings
        self._bindings = {**before, **option_of(given, named, "patch_env()")}
        try:
            yield
        finally:
            self._bindings = before


def _check_place(options: Mapping[str, Any]) -> None:
    if options.get("jurisdiction") not in (None, "eu", "fedramp", "us"):
        raise JsTypeError(f"there is no jurisdiction {options['jurisdiction']!r}")


def _nobody(task: Any) -> None:
    """There is no node to hold it; the call itself will say so."""
