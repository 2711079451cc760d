"""Layer 5. What do `import workers`, `import js` and `import pyodide.ffi` give to a Worker's code?"""

import asyncio
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

from wakeful.compat.workers import bridge, entrypoints, failures, forms, sockets, web, wsgi
from wakeful.compat.workers.js_globals import js_globals
from wakeful.compat.workers.outbound import fetch
from wakeful.compat.workers.rpc import RpcStub, RpcTarget
from wakeful.compat.workers.values import Array, Map, Record, dress, plain

_LATER = {"HTMLRewriter": "wakeful.compat.workers.html_rewriter"}


def modules(env: Any, context: Any) -> dict[str, ModuleType]:
    """The modules of one Worker, by name; `env` is in them because they have it there."""
    entries: dict[str, Any] = {
        "DurableObject": entrypoints.DurableObject,
        "WorkerEntrypoint": entrypoints.WorkerEntrypoint,
        "WorkflowEntrypoint": entrypoints.WorkflowEntrypoint,
    }

    workers = _module(
        "workers",
        **entries,
        Request=web.Request,
        Response=web.Response,
        FetchResponse=web.Response,
        Headers=web.Headers,
        FormData=forms.FormData,
        Blob=forms.Blob,
        File=forms.File,
        Body=Any,
        Context=Any,
        fetch=fetch,
        handler=entrypoints.handler,
        import_from_javascript=_importer({**entries, "env": env, "waitUntil": context.waitUntil}),
        patch_env=getattr(env, "_patch", None),
        env=env,
        waitUntil=context.waitUntil,
        wait_until=context.waitUntil,
        python_from_rpc=dress,
        python_to_rpc=plain,
        RpcTarget=RpcTarget,
        RpcStub=RpcStub,
        WebSocketPair=sockets.WebSocketPair,
        WebSocketRequestResponsePair=sockets.WebSocketRequestResponsePair,
        asgi=bridge,
        wsgi=wsgi,
    )
    ffi = _ffi()
    code = _module("pyodide.code", run_js=_run_js)
    http = _module("pyodide.http", pyfetch=fetch, FetchResponse=web.Response)
    return {
        "workers": workers,
        "workers.asgi": bridge,
        "workers.wsgi": wsgi,
        "workers.entrypoints": _module("workers.entrypoints", **entries),
        "workers.rpc": _module("workers.rpc", python_from_rpc=dress, python_to_rpc=plain),
        "workers.workflows": _module("workers.workflows", NonRetryableError=entrypoints.NonRetryableError),
        "asgi": bridge,
        "wsgi": wsgi,
        "js": _module("js", later=_LATER, **js_globals(env)),
        "pyodide": _module("pyodide", ffi=ffi, http=http, code=code, __version__="0.28.0"),
        "pyodide.code": code,
        "pyodide.ffi": ffi,
        "pyodide.http": http,
        "pyodide.webloop": _module("pyodide.webloop", WebLoop=asyncio.AbstractEventLoop),
    }


def _ffi() -> ModuleType:
    return _module(
        "pyodide.ffi",
        to_js=_to_js,
        create_proxy=_same,
        create_once_callable=_same,
        destroy_proxies=_nothing,
        run_sync=wsgi.run_sync,
        can_run_sync=wsgi.can_run_sync,
        JsProxy=Record,
        JsArray=Array,
        JsMap=Map,
        JsException=failures.JsException,
        jsnull=None,
    )


def _importer(members: Mapping[str, Any]) -> Callable[[str], ModuleType]:
    """`import_from_javascript`, which knows one module."""
    cloudflare = JsModule("cloudflare:workers")
    vars(cloudflare).update(members, RpcTarget=RpcTarget, RpcStub=RpcStub)

    def import_from_javascript(name: str) -> ModuleType:
        if name != "cloudflare:workers":
            raise failures.Unsupported(
                f"import_from_javascript({name!r}): there is no JavaScript here, and of its modules cloudflare:workers alone"
            )
        return cloudflare

    return import_from_javascript


class JsModule(ModuleType):
    """A module that can be awaited, as an import in JavaScript is."""

    def __await__(self) -> Generator[Any, None, "JsModule"]:
        return self
        yield  # type: ignore[unreachable]  # pragma: no cover  (makes this a generator)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__name__}.{name} is not here; docs/cloudflare.md says what is")


def _module(name: str, *, later: Mapping[str, str] = MappingProxyType({}), **members: Any) -> ModuleType:
    """A module of these; what is for `later` is loaded from its own module when somebody asks for it."""

    def missing(member: str) -> Any:
        if member in later:
            found = vars(made)[member] = getattr(import_module(later[member]), member)
            return found
        raise AttributeError(f"{name}.{member} is not here; docs/cloudflare.md says what is")

    made = ModuleType(name, "Stands for the module of that name on Cloudflare.")
    vars(made).update(members, __getattr__=missing)
    return made


def _to_js(value: Any, **_: Any) -> Any:
    """The value itself: there is no border between two languages here."""
    return dress(value)


def _nothing(*_: Any) -> None:
    """There are no proxies to destroy."""


def _run_js(*_: Any) -> Any:
    raise failures.Unsupported("run_js(): there is no JavaScript here; write it in Python")


def _same(value: Any) -> Any:
    return value
