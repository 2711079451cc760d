"""Layer 5. How does a request get to the server and its answer back, over connections that break and servers that are busy?

What may be repeated is sent again until the time that there is has passed, after waits that double and are never quite
the same. What may not be is sent again only if it is known that nothing was done.
"""

import asyncio
import io
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from wakeful.transport.messages import load_class
from wakeful.values import errors
from wakeful.values.codec import decode, decode_loosely, encode
from wakeful.values.errors import (
    BadInput,
    BadOption,
    BadUrl,
    CallFailed,
    DeadlineExceeded,
    LimitExceeded,
    MissingExtra,
    NotRunning,
    OutcomeUnknown,
    TooMany,
    TurnFailed,
    Unavailable,
    Undecodable,
    WakefulError,
    WrongCertificate,
)
from wakeful.values.trace import TRACE, trace_of_header

if TYPE_CHECKING:
    import aiohttp


# From an answer that is no good to the error that the caller gets.
#
# An error of Wakeful's own is of the same class and code as on the server. What the object's code raised is a
# `TurnFailed`, and at the same time of the type that was raised, if this process has loaded it: `except ValueError`
# means what it says. Nothing is imported and no constructor of the program runs for it.

PROBLEM = "application/problem+json"
RAISED = 424  # the status of what the object's own code raised
# Refused before anything was done, so that even what may not be repeated can be sent again.
UNTOUCHED = frozenset({"server.busy", "server.bodies"})
_UNRAISABLE = (StopIteration, StopAsyncIteration)  # mean something else to whoever runs the caller


def error_of(status: int, media: str, headers: Mapping[str, str], body: bytes, where: str) -> Exception:
    """The error that stands for an answer of 400 and more."""
    problem = _problem(media, body)
    if problem is None:
        what = f"{where} answered {status} in words that are not Wakeful's"
        if status >= 500:
            return Unavailable(f"{what}; try again", code="client.gateway")
        return CallFailed(f"{what}; is this the address of its server?", code="client.answer")
    name, code, detail = (str(problem.get(key) or "") for key in ("error", "code", "detail"))
    if name == "TurnFailed":
        return _turn_failure(detail, str(problem.get("remote_type") or ""), str(problem.get("traceback") or ""), code)
    kind = getattr(errors, name, None) if name else None
    if kind is TooMany or (name == "" and status == 429):
        return TooMany(detail, retry_after_s=retry_after_s(headers) or 1.0, code=code)
    if isinstance(kind, type) and issubclass(kind, WakefulError):
        return kind(detail, code=code)
    if status >= 500:
        return (Unavailable if status == 503 else WakefulError)(detail, code=code)
    return (LimitExceeded if status == 413 else BadInput)(detail, code=code)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What the server asks to be waited, in seconds."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def is_unharmed(error: Exception) -> bool:
    """Nothing was done: it may be sent again whatever it is."""
    return isinstance(error, TooMany) or getattr(error, "code", "") in UNTOUCHED


def is_passing(error: Exception) -> bool:
    """It may be another answer next time."""
    return isinstance(error, Unavailable | TooMany)


def _problem(media: str, body: bytes) -> dict[str, Any] | None:
    if media != PROBLEM:
        return None
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _turn_failure(detail: str, name: str, trace: str, code: str) -> TurnFailed:
    shown = name.removeprefix("builtins.")
    found = load_class(name)
    kind = None if found is None else _both(found)
    if kind is not None:
        try:
            # Not its constructor: that of the program's own type takes who knows what.
            error = kind.__new__(kind, detail)
            error.args = (detail,)
            error.message, error.code = detail, code or TurnFailed.default_code
            error.remote_type, error.remote_traceback = shown, trace
            str(error)
            return error
        except Exception:
            pass  # a type that does not bear it; what is known of it has to do
    return TurnFailed(detail, remote_type=shown, remote_traceback=trace, code=code or None)


def _both(kind: type[Exception]) -> type[TurnFailed] | None:
    """A `TurnFailed` that is of that type too; None when the two can't be mixed."""
    if kind not in _mixed:
        try:
            is_ours = issubclass(kind, (*_UNRAISABLE, WakefulError))
            _mixed[kind] = None if is_ours else type(kind.__name__, (TurnFailed, kind), {"__module__": kind.__module__})
        except TypeError:
            _mixed[kind] = None
    return _mixed[kind]


_mixed: dict[type[Exception], type[TurnFailed] | None] = {}


MSGPACK = "application/vnd.wakeful.msgpack"
CONNECT_S = 10.0
KEEP_ALIVE_S = 15.0  # half of what the server grants, so that it rarely hangs up on a request that is on its way
SILENT_S = 60.0  # a stream says something each quarter of a minute; one that does not is dead
LARGE_BYTES = 1 << 19
GRACE_S = 2.0  # for the server's own word that the deadline has passed, which says more than ours
FIRST_WAIT_S, MOST_WAIT_S = 0.05, 5.0
UNSENT = "client.connect"  # the server was not reached, so nothing was done
_HOPELESS = ("client.closed", "client.loop", "client.answer")  # the next time is no better
NOTHING: Any = object()  # no body, as None is one


class HttpWire:
    """Connections to one server."""

    def __init__(
        self, url: str, token: str | None, *, is_retrying: bool, connections_max: int, tls: ssl.SSLContext | None
    ) -> None:
        self.url = check_url(url)
        self._headers = {"user-agent": "wakeful-client"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {_check_token(token)}"
        self._is_retrying = is_retrying
        self._connections_max = connections_max
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._dice = random.Random()
        self.repeats = 0  # requests that were sent again

    def __repr__(self) -> str:
        return f"<Wire to {self.url}>"  # the token is nobody's business

    def about(self, length_s: float) -> float:
        """So long, and never quite the same: those who were cut off together come back one by one."""
        return length_s * self._dice.uniform(0.75, 1.25)

    async def close(self) -> None:
        """Hang up; it can't be used again."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = NOTHING,
        headers: Mapping[str, str] | None = None,
        limit_ms: int,
        is_repeatable: bool,
        has_deadline: bool = False,
        has_types: bool = False,
    ) -> Any:
        """The answer, of a request that has so long, repeats and all; `has_deadline` lets the server know how long."""
        target = self.url + path + _query(query)
        given = dict(headers or {})
        data = None
        if body is not NOTHING:
            data = encode(body)
            given["content-type"] = MSGPACK
        if has_types:
            given["accept"] = MSGPACK
        trace = trace_of_header(TRACE.get())
        if trace is not None:
            given["traceparent"] = trace
        loop = asyncio.get_running_loop()
        until, wait_s = loop.time() + limit_ms / 1000, FIRST_WAIT_S
        last: Exception | None = None
        while True:
            left_s = until - loop.time()
            if left_s <= 0:
                late = DeadlineExceeded(f"{method} {path}: the time for it has passed", code="client.deadline")
                raise _as_foreign(last or late)  # why it could not be done before says more
            if has_deadline:
                given["wakeful-deadline"] = f"{max(1, int(left_s * 1000))}ms"
            try:
                return await self._once(method, target, data, given, left_s + (GRACE_S if has_deadline else 0))
            except Exception as error:
                asked_s = getattr(error, "wait_s", None)
                pause_s = self.about(asked_s or wait_s)
                is_over = loop.time() + pause_s >= until
                if not self._is_retrying or is_over or not _is_worth(error, is_repeatable=is_repeatable):
                    _as_foreign(error)
                    raise
                last = error.with_traceback(None)  # which would hold this frame, and that the error
            self.repeats += 1
            await asyncio.sleep(pause_s)
            wait_s = min(2 * wait_s, MOST_WAIT_S)

    async def _once(self, method: str, target: str, data: bytes | None, headers: dict[str, str], left_s: float) -> Any:
        import aiohttp

        limits = aiohttp.ClientTimeout(total=left_s, sock_connect=min(CONNECT_S, left_s))
        try:
            async with self._open(method, target, data, headers, limits) as answer:
                body = await answer.read()
        except aiohttp.ClientSSLError as error:  # which the next time would be, too
            raise WrongCertificate(
                f"no safe connection to {self.url}: {error.args[-1]}; is it https, and trusted here? tls=… is for a "
                "certificate of your own",
                code="client.tls",
            ) from None
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(f"nobody answers at {self.url}: {error.os_error}", code=UNSENT) from None
        except aiohttp.ConnectionTimeoutError:
            raise Unavailable(f"nobody answers at {self.url} in time", code=UNSENT) from None
        except TimeoutError:
            raise DeadlineExceeded(
                f"{method} {_path_of(target)} was not answered in time; whether it was done is unknown",
                code="client.deadline",
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise OutcomeUnknown(
                f"the connection to {self.url} broke before the answer ({type(error).__name__}); whether it was done "
                "is unknown",
                code="client.lost",
            ) from None
        media = answer.content_type
        if answer.status >= 400:
            failure = error_of(answer.status, media, answer.headers, body, self.url)
            failure.wait_s = retry_after_s(answer.headers)  # type: ignore[attr-defined]
            if isinstance(failure, WakefulError):
                failure.is_raised = answer.status == RAISED
            raise failure
        return _value(answer.status, media, body, self.url)

    @asynccontextmanager
    async def _open(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str], limits: "aiohttp.ClientTimeout"
    ) -> AsyncIterator["aiohttp.ClientResponse"]:
        from yarl import URL

        session = self._ready()
        # A large one goes out in parts, or it would hold the loop.
        sent = data if data is None or len(data) < LARGE_BYTES else io.BytesIO(data)
        # Not where it is told to go: the token is for this server.
        async with session.request(
            method, URL(target, encoded=True), data=sent, headers=headers, timeout=limits, allow_redirects=False
        ) as answer:
            yield answer

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, Any], headers: dict[str, str]) -> AsyncIterator[Any]:
        """An answer without an end, as what can be read of it; errors as those of `ask`."""
        import aiohttp

        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        target = self.url + path + _query(query)
        async with self._open("GET", target, None, headers, limits) as answer:
            if answer.status >= 400:
                raise _as_foreign(
                    error_of(answer.status, answer.content_type, answer.headers, await answer.read(), self.url)
                )
            yield answer.content

    def _ready(self) -> "aiohttp.ClientSession":
        """The session, made when it is first used, in the loop in which it is used."""
        if self._is_closed:
            raise NotRunning("this client is closed; make another", code="client.closed")
        loop = asyncio.get_running_loop()
        if self._session is None:
            self._session, self._loop = self._make_session(), loop
        elif self._loop is not loop:
            raise NotRunning("this client belongs to another event loop; make one for each", code="client.loop")
        return self._session

    def _make_session(self) -> "aiohttp.ClientSession":
        check_extra()
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=self._connections_max, keepalive_timeout=KEEP_ALIVE_S, ssl=True if self._tls is None else self._tls
        )
        session = aiohttp.ClientSession(
            connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
        )
        # It would send a DELETE again by itself, whose second answer is another one: that is decided here.
        session._retry_connection = False
        return session


def check_extra() -> None:
    """`MissingExtra` when what the client needs is not installed."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise MissingExtra("the client needs aiohttp: pip install 'wakeful[client]'", code="extra.client") from None


def check_url(url: str) -> str:
    """The address of a server without the slash at its end, or `BadUrl`."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment:
        raise BadUrl(f"{url!r} is no server's address; write http://HOST:PORT or https://HOST", code="client.url")
    if "@" in parts.netloc:
        raise BadUrl("a server's address takes no user and password; give token=…", code="client.url")
    return url.rstrip("/")


def segment(text: str) -> str:
    """Text as one part of a path, whatever is in it: dots too, or `..` would lead elsewhere."""
    return quote(text, safe="").replace(".", "%2E")


def _as_foreign(error: Exception) -> Exception:
    """For an object that asks: the server, or the way to it, is not its own node."""
    if isinstance(error, WakefulError):
        error.is_foreign = True
    return error


def _is_worth(error: Exception, *, is_repeatable: bool) -> bool:
    """Sending it again may help, and does no harm. What the object's own code raised is its answer, whatever it is called."""
    code = getattr(error, "code", "")
    if getattr(error, "is_raised", False):
        return False
    if (code == UNSENT and not hasattr(error, "wait_s")) or is_unharmed(error):
        return True
    return is_repeatable and is_passing(error) and code not in _HOPELESS


def _check_token(token: str) -> str:
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadOption("token must be the text that `wakeful tokens create` printed", code="client.token")
    return token


def _query(given: Mapping[str, Any] | None) -> str:
    named = {name: _text(value) for name, value in (given or {}).items() if value is not None}
    return f"?{urlencode(named, quote_via=quote)}" if named else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path_of(target: str) -> str:
    return target.partition("?")[0]


def _value(status: int, media: str, body: bytes, where: str) -> Any:
    """What a good answer says."""
    if media == MSGPACK:
        try:
            return decode(body)
        except Undecodable as error:
            if error.code != "value.type":
                raise
            return decode_loosely(body)  # it has types that are not loaded here: their fields then
    if status == 204:
        return None
    if media == "application/json":
        return msgspec.json.decode(body)
    if 200 <= status < 300 and media == "image/svg+xml":
        return body.decode()
    what = f"{where} answered {status} with {media or 'nothing'}"
    raise Unavailable(f"{what}; is this the address of Wakeful's server?", code="client.answer")
