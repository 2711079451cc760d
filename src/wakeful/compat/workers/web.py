"""Layer 5. Requests and responses, as Cloudflare's Python code makes and reads them."""

import asyncio
import json as jsonlib
import re
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from http import HTTPMethod, HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from wakeful.compat.workers.failures import DataCloneError, JsTypeError, Unsupported
from wakeful.compat.workers.forms import Blob, FormData, form_body, parse_form
from wakeful.compat.workers.sources import Trickle, Whole, bytes_of
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.urls import URLSearchParams
from wakeful.compat.workers.values import dress, plain, sendable
from wakeful.http.body_shape import lists_in

# The end of a WebSocket pair that travels with an answer to where the client is.


class ClientEnd:
    """The end of a pair that is given away with the answer; it can be passed on, and nothing else."""

    def __init__(self, data: dict[str, Any] | None, server: Any = None) -> None:
        self._data = data
        self._server = server

    def data(self, offer: "Offer") -> dict[str, Any]:
        """What the other side of the answer needs to connect the client; made once."""
        if self._data is None:
            live = self._server._live
            if live is not None:
                return {"line": offer(ReadableStream(live.out), live.hear)}
            if self._server._state is None:
                raise JsTypeError(
                    "accept the other end of the pair: accept(), or in an object ctx.acceptWebSocket(server)"
                )
            self._data = self._server._pending()
        return self._data

    def accept(self) -> None:
        raise Unsupported("the end of a pair that is given to a client has no listeners here; keep the other end")

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

    def forEach(self, do: Callable[..., Any]) -> None:  # noqa: N802  the name there
        """With the value first, as there."""
        for name, value in self.items():
            do(value, name, self)

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
    """Something with a body that can be read once: bytes, or a stream of them."""

    headers: Headers
    _data: Data | ReadableStream
    _is_taken = False

    def _set_body(self, body: Any, *, allows: bool = True) -> None:
        self._data, kind = _encode(body)
        if body is not None and not allows:
            raise JsTypeError("this can have no body")
        if kind is not None and not self.headers.has("content-type"):
            self.headers.set("content-type", kind)

    def _take(self) -> Data | ReadableStream:
        """The body, for whoever passes it on."""
        if self.body_used:
            raise OSError("the body was read already; clone() before reading it twice")
        self._is_taken = True
        return self._data

    async def _read(self) -> Data:
        """All of it."""
        data = self._take()
        if not isinstance(data, ReadableStream):
            return data
        data._lock("the body")
        return await data._collect()

    def _copy(self) -> Data | ReadableStream:
        """The body for a clone of this."""
        if self.body_used:
            raise OSError("the body was read already; clone() before reading it")
        if not isinstance(self._data, ReadableStream):
            return self._data
        self._data, copy = self._data.tee()
        return copy

    @property
    def body(self) -> ReadableStream | None:
        """As a stream."""
        if not isinstance(self._data, ReadableStream):
            if not self._data:
                return None
            self._data = ReadableStream(Whole(self._data))
        return self._data

    @property
    def body_used(self) -> bool:
        return self._is_taken or (isinstance(self._data, ReadableStream) and self._data._is_disturbed)

    @property
    def bodyUsed(self) -> bool:  # noqa: N802  the name there
        return self.body_used

    async def bytes(self) -> Data:
        return await self._read()

    async def buffer(self) -> Data:
        return await self._read()

    arrayBuffer = buffer  # noqa: N815  the name there

    async def text(self) -> str:
        return (await self._read()).decode(errors="replace")

    string = text

    async def blob(self) -> Blob:
        return Blob(await self._read(), content_type=self.headers.get("content-type") or "")

    async def form_data(self) -> FormData:
        data, kind = await self._read(), self.headers.get("content-type") or ""
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
        return await _parse_json(await self._read(), options)

    def clone(self) -> "Request":
        copy = self._copy()
        made = Request(self.url, _head(self))
        made._data = copy
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
        return Response.from_json(self, *args, **options)  # type: ignore[unreachable]

    async def _read_json(self) -> Any:
        return await _parse_json(await self._read(), {})

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
        copy = self._copy()
        made = Response(None, self.status, self.status_text, self.headers, self.web_socket)
        made._data, made.encode_body = copy, self.encode_body
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


# How a stream is sent, and how it is had again: see conduits.py.
Offer = Callable[..., list[Any]]
Claim = Callable[[list[Any]], ReadableStream]


def refuse_stream(stream: Any, hear: Any = None) -> Any:
    """Where nothing carries it."""
    raise JsTypeError("a stream can't be sent from here; read it first")


def request_data(request: Request, offer: Offer = refuse_stream) -> dict[str, Any]:
    """A request as plain data; its body is read by that."""
    return {"url": request.url, "head": plain(_head(request)), **_body_data(request, offer)}


def request_of(data: Mapping[str, Any], claim: Claim = refuse_stream) -> Request:
    made = Request(data["url"], data["head"])
    made._data = _body_of(data, claim)
    return made


def _body_data(sent: _Body, offer: Offer) -> dict[str, Any]:
    body = sent._take()
    return {"stream": offer(body)} if isinstance(body, ReadableStream) else {"body": body}


def _body_of(data: Mapping[str, Any], claim: Claim) -> bytes | ReadableStream:
    found: bytes | ReadableStream = claim(data["stream"]) if "stream" in data else data["body"]
    return found


def response_data(response: Response, offer: Offer = refuse_stream) -> dict[str, Any]:
    """A response as plain data; of its socket what is needed to connect it where the client is."""
    data = {
        "status": response.status,
        "status_text": response.status_text,
        "headers": [list(pair) for pair in response.headers.items()],
        "encode_body": response.encode_body,
        **_body_data(response, offer),
    }
    return data if response.web_socket is None else {**data, "socket": response.web_socket.data(offer)}


def response_of(data: Mapping[str, Any], claim: Claim = refuse_stream) -> Response:
    made = Response(None, data["status"], data["status_text"], [tuple(pair) for pair in data["headers"]])
    made._data, made.encode_body = _body_of(data, claim), data["encode_body"]
    if "socket" in data:
        made.web_socket = ClientEnd(data["socket"])
    return made


class Freight(NamedTuple):
    """What carries that which can't be copied between the two sides of a call."""

    offer: Offer = refuse_stream
    claim: Claim = refuse_stream
    lend: Callable[[Any], list[Any] | None] = lambda value: None  # what to send in its place; None for what is copied
    borrow: Callable[[list[Any]], Any] = refuse_stream


NO_FREIGHT = Freight()


def pack(value: Any, what: str, freight: Freight = NO_FREIGHT) -> Any:
    """An argument or an answer of a call as data; requests, responses, streams and functions can be in it anywhere."""
    whole = _pack_one(value, freight)
    if whole is not None:
        return whole
    try:
        made = sendable(value, what)
    except DataCloneError:
        parts: list[list[Any]] = []
        rest = _take_out(value, (), parts, freight)
        if not parts:
            raise
        return {_KIND: "parts", "value": sendable(rest, what), "parts": parts}
    if type(made) is dict and _KIND in made:
        return {_KIND: "data", "value": made}  # nobody's data is to be taken for ours
    return made


def _pack_one(value: Any, freight: Freight) -> dict[str, Any] | None:
    """What is no data, as data; None for data."""
    if isinstance(value, Response):
        return {_KIND: "Response", **response_data(value, freight.offer)}
    if isinstance(value, Request):
        return {_KIND: "Request", **request_data(value, freight.offer)}
    if isinstance(value, ReadableStream):
        return {_KIND: "ReadableStream", "stream": freight.offer(value)}
    if isinstance(value, Headers):
        return {_KIND: "Headers", "pairs": [list(pair) for pair in value.items()]}
    if isinstance(value, dict | list | str | bytes | int | float | None):
        return None
    lent = freight.lend(value)
    return None if lent is None else {_KIND: "lent", "sent": lent}


def _take_out(value: Any, path: tuple[Any, ...], parts: list[list[Any]], freight: Freight) -> Any:
    """The value with None where something stood that is no data; what stood there goes into `parts`."""
    if isinstance(value, Mapping):
        return {key: _take_out(one, (*path, key), parts, freight) for key, one in value.items()}
    if isinstance(value, list):
        return [_take_out(one, (*path, place), parts, freight) for place, one in enumerate(value)]
    if type(value) is tuple:
        return tuple(_take_out(one, (*path, place), parts, freight) for place, one in enumerate(value))
    part = _pack_one(value, freight)
    if part is None:
        return value
    parts.append([list(path), part])
    return None


def unpack(value: Any, freight: Freight = NO_FREIGHT) -> Any:
    """What `pack` was given, as the other side gets it."""
    kind = value.get(_KIND) if type(value) is dict else None
    if kind is None:
        return dress(value)
    if kind == "parts":
        made = dress(value["value"])
        for path, part in value["parts"]:
            made = _put_in(made, path, unpack(part, freight))
        return made
    return _UNPACK[kind](value, freight)


def _put_in(value: Any, path: list[Any], part: Any) -> Any:
    """The value with that in its place again."""
    if not path:
        return part
    first, *rest = path
    if type(value) is tuple:
        return (*value[:first], _put_in(value[first], rest, part), *value[first + 1 :])
    value[first] = _put_in(value[first], rest, part)
    return value


_UNPACK: dict[str, Callable[[Any, Freight], Any]] = {
    "Request": lambda value, freight: request_of(value, freight.claim),
    "Response": lambda value, freight: response_of(value, freight.claim),
    "ReadableStream": lambda value, freight: freight.claim(value["stream"]),
    "Headers": lambda value, freight: Headers([tuple(pair) for pair in value["pairs"]]),
    "lent": lambda value, freight: freight.borrow(value["sent"]),
    "data": lambda value, freight: dress(value["value"]),
}
_KIND = "wakeful.kind"
TEXT = "text/plain;charset=UTF-8"
_BARE = re.compile(
    r"\A(\w+://[^/?#]+)(?=[?#]|$)"
)  # a URL without a path; looked for at its start alone, or it is quadratic
_IN_URL = "".join(map(chr, range(0x21, 0x7F)))


def _encode(body: Any) -> tuple[bytes | ReadableStream, str | None]:
    """The bytes of a body, or the stream of them, and the type that goes with them."""
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
    if isinstance(body, ReadableStream):
        if body._is_locked or body._is_disturbed:
            raise JsTypeError("a body is a stream that nobody reads or has read")
        return body, None
    if isinstance(body, AsyncIterable):
        return ReadableStream(Trickle(body, bytes_of)), None
    raise JsTypeError(
        "a body is text, bytes, Blob, FormData, URLSearchParams, ReadableStream or an async generator, not "
        f"{type(body).__name__}; Response.json(…) makes one of data"
    )


def _pairs(given: Any) -> Iterable[tuple[str, str]]:
    if given is None:
        return ()
    if isinstance(given, Headers):
        return given.items()
    if isinstance(given, Mapping):
        return given.items()
    return (tuple(pair) for pair in given)
