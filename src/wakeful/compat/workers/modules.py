"""Layer 5. What do `import workers`, `import js` and `import pyodide.ffi` give to a Worker's code?"""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from wakeful.compat.workers import bridge, entrypoints, failures, forms, sockets, web
from wakeful.compat.workers.values import Array, Map, Record, dress, plain
from wakeful.compat.workers.web import fetch

log = logging.getLogger("wakeful.workers.console")


def modules(env: Any, context: Any) -> dict[str, ModuleType]:
    """The modules of one Worker, by name; `env` is in them because they have it there."""
    workers = _module(
        "workers",
        DurableObject=entrypoints.DurableObject,
        WorkerEntrypoint=entrypoints.WorkerEntrypoint,
        WorkflowEntrypoint=entrypoints.WorkflowEntrypoint,
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
        env=env,
        waitUntil=context.waitUntil,
        wait_until=context.waitUntil,
        python_from_rpc=dress,
        python_to_rpc=plain,
        WebSocketPair=sockets.WebSocketPair,
        WebSocketRequestResponsePair=sockets.WebSocketRequestResponsePair,
        asgi=bridge,
    )
    ffi = _module(
        "pyodide.ffi",
        to_js=_to_js,
        create_proxy=_same,
        create_once_callable=_same,
        JsProxy=Record,
        JsArray=Array,
        JsMap=Map,
        JsException=failures.JsException,
        jsnull=None,
    )
    return {
        "workers": workers,
        "workers.asgi": bridge,
        "asgi": bridge,
        "js": _js(env),
        "pyodide": _module("pyodide", ffi=ffi, __version__="0.28.0"),
        "pyodide.ffi": ffi,
    }


def _module(name: str, **members: Any) -> ModuleType:
    def missing(member: str) -> Any:
        raise AttributeError(f"{name}.{member} is not here; docs/cloudflare.md says what is")

    made = ModuleType(name, "Stands for the module of that name on Cloudflare.")
    vars(made).update(members, __getattr__=missing)
    return made


class URL:
    """A URL in its parts."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(str(url))
        if not parts.scheme:
            raise failures.JsTypeError(f"{url!r} is no whole URL")
        self.href = str(url)
        self.protocol, self.host = f"{parts.scheme}:", parts.netloc.rpartition("@")[2]
        self.hostname, self.port = parts.hostname or "", str(parts.port or "")
        self.pathname, self.hash = parts.path or "/", f"#{parts.fragment}" if parts.fragment else ""
        self.search = f"?{parts.query}" if parts.query else ""
        self.origin = f"{parts.scheme}://{self.host}"
        self.searchParams = forms.URLSearchParams(parts.query)

    @classmethod
    def new(cls, url: str) -> "URL":
        return cls(url)

    def toString(self) -> str:  # noqa: N802  the name there
        return self.href

    __str__ = toString


class Date:
    """A time, as far as Python code asks JavaScript for it."""

    def __init__(self, ms: Any = None) -> None:
        if isinstance(ms, str):
            ms = datetime.fromisoformat(ms).timestamp() * 1000
        self._ms = Date.now() if ms is None else int(ms)

    @classmethod
    def new(cls, ms: Any = None) -> datetime:
        """A `datetime`, which everything here takes where a Date is expected."""
        return datetime.fromtimestamp(cls(ms)._ms / 1000, UTC)

    @staticmethod
    def now() -> int:
        return int(time.time() * 1000)


class _Json:
    """`JSON`."""

    @staticmethod
    def stringify(value: Any, *_: Any) -> str:
        return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def parse(text: str) -> Any:
        return dress(json.loads(text))


class _Object:
    """`Object`."""

    @staticmethod
    def fromEntries(entries: Any) -> Record:  # noqa: N802  the name there
        return Record(dict(entries.items() if isinstance(entries, Mapping) else entries))

    @staticmethod
    def new(**members: Any) -> Record:
        return Record(members)

    @staticmethod
    def values(value: Any) -> list[Any]:
        return list(value.object_values() if hasattr(value, "object_values") else value.values())

    @staticmethod
    def keys(value: Any) -> list[str]:
        return list(value)

    @staticmethod
    def entries(value: Any) -> list[tuple[str, Any]]:
        return list(value.items())


class _Console:
    """`console`: lines of the log."""

    def log(self, *parts: Any) -> None:
        log.info("%s", " ".join(str(part) for part in parts))

    info = debug = log

    def warn(self, *parts: Any) -> None:
        log.warning("%s", " ".join(str(part) for part in parts))

    def error(self, *parts: Any) -> None:
        log.error("%s", " ".join(str(part) for part in parts))


def _js(env: Any) -> ModuleType:
    return _module(
        "js",
        Response=web.Response,
        Request=web.Request,
        Headers=web.Headers,
        URL=URL,
        URLSearchParams=forms.URLSearchParams,
        Date=Date,
        JSON=_Json(),
        Object=_Object(),
        Map=SimpleNamespace(new=lambda entries=(): Map(dict(entries))),
        Array=SimpleNamespace(new=lambda *items: Array(items), **{"from": Array}),
        Error=SimpleNamespace(new=failures.JsException),
        console=_Console(),
        crypto=SimpleNamespace(randomUUID=lambda: str(uuid.uuid4())),
        WebSocketPair=sockets.WebSocketPair,
        WebSocketRequestResponsePair=sockets.WebSocketRequestResponsePair,
        fetch=fetch,
        setTimeout=_set_timeout,
        clearTimeout=lambda handle: handle.cancel() if handle is not None else None,
        env=env,
    )


def _set_timeout(callback: Any, ms: float = 0, *args: Any) -> Any:
    loop = asyncio.get_running_loop()

    def run() -> None:
        found = callback(*args)
        if isinstance(found, Awaitable):
            task = asyncio.ensure_future(found)
            _timed.add(task)
            task.add_done_callback(_timed.discard)

    return loop.call_later(ms / 1000, run)


_timed: set[Any] = set()  # else nobody would hold them


def _to_js(value: Any, **_: Any) -> Any:
    """The value itself: there is no border between two languages here."""
    return dress(value)


def _same(value: Any) -> Any:
    return value
