"""Layer 5. Requests and responses, as Cloudflare's Python code makes and reads them."""

import asyncio
import json as jsonlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPMethod, HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from wakeful.compat.workers.failures import JsTypeError, Unsupported
from wakeful.compat.workers.forms import Blob, FormData, form_body, parse_form
from wakeful.compat.workers.urls import URLSearchParams
from wakeful.compat.workers.values import dress, plain, sendable
from wakeful.http.body_shape import lists_in
from wakeful.runtime.beside import come_back, leave
from wakeful.values.errors import MissingExtra
from wakeful.values.ids import ObjectId

# The end of a WebSocket pair that travels with an answer to where the client is.


class ClientEnd:
    """The end of a pair that is given away with the answer; it can be passed on, and nothing else."""

    def __init__(self, data: dict[str, Any] | None, server: Any = None) -> None:
        self._data = data
        self._server = server

    @property
    def data(self) -> dict[str, Any]:
        """What the other side of the answer needs to connect the client."""
        if self._data is not None:
            return self._data
        assert self._server is not None
        if self._server._state is None:
            raise Unsupported(
                "accept one end of the pair with ctx.acceptWebSocket(), in an object; accept() is not here"
            )
        found: dict[str, Any] = self._server._pending()
        return found

    @property
    def target(self) -> ObjectId:
        return ObjectId(*self.data["target"])

    def accept(self) -> None:
        raise Unsupported("a Worker that speaks over sockets itself is not here; let an object do it")

    send = addEventListener = accept  # noqa: N815  the name there


T = TypeVar("T")
Pairs = list[tuple[str, str]]
Data = bytes  # inside a class with a method of that name
LONG_BYTES = 64 << 10  # of a body that is read beside the event loop
LISTS_MAX = 200_000  # of JSON, which are read in one go, in 40 ms
_INTERRUPTED: dict[str, Any] = {
    "parse_int": lambda text: int(text),
    "parse_float": lambda text: float(text),
    "object_pairs_hook": lambda pairs: dict(pairs),
}
_NO_BODY = frozenset({101, 204, 205, 304})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(r"[^\r\n\0\u0100-\U0010ffff]*")  # what goes over the wire has a byte a character


class Headers:
    """Headers in their order, by names in any case; a missing one is None."""

    def __init__(self, given: Any = None) -> None:
        self._pairs: Pairs = []
        for name, value in _pairs(given):
            self.append(name, value)

    @classmethod
    def new(cls, given: Any = None) -> "Headers":
        return cls(given)

    def get(self, name: str, default: str | None = None) -> str | None:
        found = [value for known, value in self._pairs if known == name.lower()]
        return ", ".join(found) if found else default

    def get_all(self, name: str, default: list[str] | None = None) -> list[str] | None:
        return [value for known, value in self._pairs if known == name.lower()] or default

    def has(self, name: str) -> bool:
        return any(known == name.lower() for known, _ in self._pairs)

    def set(self, name: str, value: Any) -> None:
        self.delete(name)
        self.append(name, value)

    def append(self, name: str, value: Any) -> None:
        name, value = str(name).lower(), str(value).strip()
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise JsTypeError(f"{name!r}: {value!r} is no header")
        self._pairs.append((name, value))

    def delete(self, name: str) -> None:
        self._pairs = [pair for pair in self._pairs if pair[0] != name.lower()]

    def items(self) -> Pairs:
        return list(self._pairs)

    entries = items

    def keys(self) -> list[str]:
        return [name for name, _ in self._pairs]

    def values(self) -> list[str]:
        return [value for _, value in self._pairs]

    def getSetCookie(self) -> list[str]:  # noqa: N802  the name there
        return self.get_all("set-cookie") or []

    def __getitem__(self, name: str) -> str | None:
        return self.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.has(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self.keys()))

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"


async def _beside(data: Data, make: Callable[[], T]) -> T:
    """What is made of a body: in a thread when it is long, so that the event loop goes on meanwhile."""
    return await asyncio.to_thread(make) if len(data) > LONG_BYTES else make()


async def _parse_json(data: Data, options: dict[str, Any]) -> Any:
    """JSON; a long one with calls of Python in between, at which the loop gets its turn."""
    if len(data) <= LONG_BYTES:
        return jsonlib.loads(data, **options)

    def read() -> Any:
        if data.count(b"[") > LISTS_MAX and lists_in(data) > LISTS_MAX:
            raise JsTypeError(f"JSON with more than {LISTS_MAX} lists is not read: it would hold up everybody else")
        return jsonlib.loads(data, **{**_INTERRUPTED, **options})

    return await _beside(data, read)


class _Body:
    """Something with a body that can be read once."""

    headers: Headers
    _data: Data
    body_used: bool

    def _set_body(self, body: Any, *, allows: bool = True) -> None:
        self.body_used = False
        self._data, kind = _encode(body)
        if body is not None and not allows:
            raise JsTypeError("this can have no body")
        if kind is not None and not self.headers.has("content-type"):
            self.headers.set("content-type", kind)

    def _take(self) -> Data:
        if self.body_used:
            raise OSError("the body was read already; clone() before reading it twice")
        self.body_used = True
        return self._data

    @property
    def body(self) -> Data | None:
        """All of it: nothing is streamed here."""
        return self._data or None

    @property
    def bodyUsed(self) -> bool:  # noqa: N802  the name there
        return self.body_used

    async def bytes(self) -> Data:
        return self._take()

    async def buffer(self) -> Data:
        return self._take()

    arrayBuffer = buffer  # noqa: N815  the name there

    async def text(self) -> str:
        return self._take().decode(errors="replace")

    string = text

    async def blob(self) -> Blob:
        return Blob(self._take(), content_type=self.headers.get("content-type") or "")

    async def form_data(self) -> FormData:
        data, kind = self._take(), self.headers.get("content-type") or ""
        return await _beside(data, lambda: parse_form(data, kind))

    formData = form_data  # noqa: N815  the name there


class Request(_Body):
    """A request: `url`, `method`, `headers`, and the body by `text()`, `json()`, `bytes()` or `form_data()`."""

    def __init__(self, input: Any, init: Any = None, **options: Any) -> None:
        if isinstance(init, Request):  # the same one at another place
            init = {**_head(init), "body": init._take() or None}
        options = {**(init or {}), **options}
        unknown = set(options) - {
            "method",
            "headers",
            "body",
            "redirect",
            "cf",
            "cache",
            "signal",
        }  # nothing is cached here
        if unknown:
            raise JsTypeError(f"Request: there is no option {sorted(unknown)[0]!r}")
        given = input if isinstance(input, Request) else None
        self.url: str = given.url if given else str(input)
        if "://" not in self.url:
            raise JsTypeError(f"Request: {self.url!r} is no whole URL")
        self.url = _BARE.sub(r"\1/", self.url)
        method = str(options.get("method") or (given.method if given else "GET"))
        self.method: Any = HTTPMethod[method.upper()] if method.upper() in HTTPMethod.__members__ else method
        self.redirect: str = options.get("redirect") or (given.redirect if given else "follow")
        if self.redirect not in ("follow", "manual", "error"):
            raise JsTypeError(f"Request: redirect is 'follow', 'manual' or 'error', not {self.redirect!r}")
        self.cf: Any = options.get("cf") or (given.cf if given else None)
        self.signal: Any = options.get("signal") or (given.signal if given else None)
        headers = options.get("headers")
        self.headers = Headers(headers if headers is not None else given.headers if given else None)
        body = options.get("body")
        if body is None and given is not None:
            body = given._take() or None
        self._set_body(body, allows=self.method not in ("GET", "HEAD"))

    @classmethod
    def new(cls, input: Any, init: Any = None, **options: Any) -> "Request":
        return cls(input, init, **options)

    async def json(self, **options: Any) -> Any:
        return await _parse_json(self._take(), options)

    def clone(self) -> "Request":
        if self.body_used:
            raise OSError("the body was read already; clone() before reading it")
        made = Request(self.url, _head(self))
        made._data = self._data
        return made

    @property
    def js_object(self) -> "Request":
        return self

    def __repr__(self) -> str:
        return f"Request(method={str(self.method)!r}, url={self.url!r})"


class Response(_Body):
    """A response: body, `status`, `headers`; `Response.json(data)` makes one of JSON."""

    def __init__(
        self,
        body: Any = None,
        status: Any = None,
        status_text: str = "",
        headers: Any = None,
        web_socket: Any = None,
        **options: Any,
    ) -> None:
        if isinstance(status, Mapping):  # as in JavaScript: Response.new(body, {"status": …})
            options, status = {**status, **options}, None
        unknown = set(options) - {"status", "statusText", "headers", "webSocket", "encodeBody", "cf"}
        if unknown:
            raise JsTypeError(f"Response: there is no option {sorted(unknown)[0]!r}")
        status = status if status is not None else options.get("status")
        self.status: int = 200 if status is None else int(status)
        if self.status != 101 and not 200 <= self.status <= 599:
            raise ValueError(f"Response: {self.status} is no status of a response")
        self.web_socket = web_socket if web_socket is not None else options.get("webSocket")
        self.status_text = status_text or options.get("statusText") or ""
        self.headers = Headers(headers if headers is not None else options.get("headers"))
        self.encode_body: str = options.get("encodeBody") or "automatic"
        self.url, self.redirected = "", False
        if isinstance(body, Response):
            self.status, self.headers, self.web_socket = body.status, Headers(body.headers), body.web_socket
            self.status_text, self.encode_body, body = body.status_text, body.encode_body, body._take() or None
        self._set_body(body, allows=self.status not in _NO_BODY)

    @classmethod
    def new(cls, body: Any = None, init: Any = None, **options: Any) -> "Response":
        return cls(body, **{**(init or {}), **options})

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def statusText(self) -> str:  # noqa: N802  the name there
        return self.status_text

    @property
    def webSocket(self) -> Any:  # noqa: N802  the name there
        return self.web_socket

    @property
    def js_object(self) -> "Response":
        return self

    js_response = js_object

    def json(self, *args: Any, **options: Any) -> Any:
        """`await response.json()` reads one; `Response.json(data, …)` makes one."""
        if isinstance(self, Response):
            return self._read_json()
        return Response.from_json(self, *args, **options)

    async def _read_json(self) -> Any:
        return await _parse_json(self._take(), {})

    @staticmethod
    def from_json(
        data: Any, status: Any = None, status_text: str = "", headers: Any = None, **options: Any
    ) -> "Response":
        made = Response(jsonlib.dumps(plain(data)), status, status_text, headers, **options)
        if made.headers.get("content-type") in (None, TEXT):
            made.headers.set("content-type", "application/json")
        return made

    @staticmethod
    def redirect(url: str, status: Any = HTTPStatus.FOUND) -> "Response":
        if int(status) not in (301, 302, 303, 307, 308):
            raise ValueError(f"Response.redirect: {int(status)} is no redirection")
        return Response(None, int(status), headers={"location": quote(str(url), safe=_IN_URL)})

    def raise_for_status(self) -> None:
        """`OSError` when the answer says that something is wrong, as `pyfetch` has it."""
        if self.status >= 400:
            raise OSError(f"{self.status} {self.status_text} for {self.url}")

    def replace_body(self, body: Any) -> "Response":
        return Response(body, self.status, self.status_text, self.headers, self.web_socket)

    def clone(self) -> "Response":
        if self.body_used:
            raise OSError("the body was read already; clone() before reading it")
        made = Response(None, self.status, self.status_text, self.headers, self.web_socket)
        made._data, made.encode_body = self._data, self.encode_body
        return made

    def __repr__(self) -> str:
        return f"Response(status={self.status})"


def _head(request: Request) -> dict[str, Any]:
    """All of a request but its URL and its body, as options for another."""
    return {
        "method": str(request.method),
        "headers": request.headers.items(),
        "redirect": request.redirect,
        "cf": request.cf,
    }


def request_data(request: Request) -> dict[str, Any]:
    """A request as plain data; its body is read by that."""
    return {"url": request.url, "head": plain(_head(request)), "body": request._take()}


def request_of(data: Mapping[str, Any]) -> Request:
    made = Request(data["url"], data["head"])
    made._data = data["body"]
    return made


def response_data(response: Response) -> dict[str, Any]:
    """A response as plain data; of its socket what is needed to connect it where the client is."""
    data = {
        "status": response.status,
        "status_text": response.status_text,
        "headers": [list(pair) for pair in response.headers.items()],
        "encode_body": response.encode_body,
        "body": response._take(),
    }
    return data if response.web_socket is None else {**data, "socket": response.web_socket.data}


def response_of(data: Mapping[str, Any]) -> Response:
    made = Response(None, data["status"], data["status_text"], [tuple(pair) for pair in data["headers"]])
    made._data, made.encode_body = data["body"], data["encode_body"]
    if "socket" in data:
        made.web_socket = ClientEnd(data["socket"])
    return made


def pack(value: Any, what: str) -> Any:
    """An argument or an answer of a call as data: requests and responses can be either."""
    if isinstance(value, Response):
        return {_KIND: "Response", **response_data(value)}
    if isinstance(value, Request):
        return {_KIND: "Request", **request_data(value)}
    return sendable(value, what)


def unpack(value: Any) -> Any:
    """What `packed` was given, as the other side gets it."""
    kind = value.get(_KIND) if type(value) is dict else None
    return request_of(value) if kind == "Request" else response_of(value) if kind == "Response" else dress(value)


_KIND = "wakeful.kind"
TEXT = "text/plain;charset=UTF-8"
_BARE = re.compile(
    r"\A(\w+://[^/?#]+)(?=[?#]|$)"
)  # a URL without a path; looked for at its start alone, or it is quadratic
_IN_URL = "".join(map(chr, range(0x21, 0x7F)))


def _encode(body: Any) -> tuple[bytes, str | None]:
    """The bytes of a body, and the type that goes with them."""
    if body is None:
        return b"", None
    if isinstance(body, str):
        return body.encode(), TEXT
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), None
    if isinstance(body, Blob):
        return body._data, body.content_type or None
    if isinstance(body, FormData):
        return form_body(body)
    if isinstance(body, URLSearchParams):
        return body.toString().encode(), "application/x-www-form-urlencoded;charset=UTF-8"
    raise JsTypeError(
        f"a body is text, bytes, Blob, FormData or URLSearchParams, all of it at once, not {type(body).__name__}; "
        "Response.json(…) makes one of data, and nothing is streamed here"
    )


def _pairs(given: Any) -> Iterable[tuple[str, str]]:
    if given is None:
        return ()
    if isinstance(given, Headers):
        return given.items()
    if isinstance(given, Mapping):
        return given.items()
    return (tuple(pair) for pair in given)


# How does a Worker ask the world outside?

# What a request that came in says about its own way here, and what is said anew for each way out.
_OF_THE_CONNECTION = frozenset(
    {"host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "upgrade", "accept-encoding"}
)
_MOVED = frozenset({301, 302, 303, 307, 308})


async def fetch(resource: Any, init: Any = None, **options: Any) -> Response:
    """The answer of another server; `OSError` when there is none."""
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("fetch() needs aiohttp; pip install 'wakeful[client]'", code="extra.client") from None
    is_whole = isinstance(resource, Request) and not init and not options
    request = resource if is_whole else Request(resource, init, **options)
    if request.headers.get("upgrade") == "websocket":
        raise Unsupported("fetch(): sockets to other servers are not here")
    await leave()
    try:
        return await _fetch_unless_aborted(request, aiohttp)
    finally:
        await come_back()


async def _fetch_unless_aborted(request: Request, aiohttp: Any) -> Response:
    if request.signal is None:
        return await _fetch(request, aiohttp)
    request.signal.throwIfAborted()
    asking = asyncio.ensure_future(_fetch(request, aiohttp))
    request.signal.addEventListener("abort", lambda event: asking.cancel())
    try:
        return await asking
    except asyncio.CancelledError:
        request.signal.throwIfAborted()
        asking.cancel()
        raise


async def _fetch(request: Request, aiohttp: Any) -> Response:
    try:
        async with (
            aiohttp.ClientSession(auto_decompress=True) as session,
            session.request(
                str(request.method),
                request.url,
                headers=[pair for pair in request.headers.items() if pair[0] not in _OF_THE_CONNECTION],
                data=request._take() or None,
                allow_redirects=request.redirect == "follow",
            ) as answer,
        ):
            if request.redirect == "error" and answer.status in _MOVED:
                raise OSError(f"{request.method} {request.url}: it is elsewhere, and redirect='error' was given")
            data = await answer.read()
            headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers])
            for name in ("content-encoding", "transfer-encoding", "content-length"):  # it is unpacked and whole
                headers.delete(name)
            made = Response(None, answer.status, answer.reason or "", headers)
            made._data, made.url, made.redirected = data, str(answer.url), bool(answer.history)
            return made
    except aiohttp.ClientError as error:
        raise OSError(f"{request.method} {request.url}: {error}") from None
