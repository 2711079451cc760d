"""Layer 5. What does `import js` give to a Worker's code? Of the global names of JavaScript those that Python code asks for."""

import asyncio
import base64
import copy
import hashlib
import hmac
import json
import logging
import math
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

from wakeful.compat.workers import failures, forms, sockets, streams, web
from wakeful.compat.workers.dates import Date
from wakeful.compat.workers.outbound import OutgoingSocket, fetch
from wakeful.compat.workers.urls import URL, URLSearchParams
from wakeful.compat.workers.values import Array, Map, Record, dress, option_of, plain, result_of
from wakeful.runtime.beside import go_on_when_open

log = logging.getLogger("wakeful.workers.console")

RANDOM_BYTES_MAX = 65_536  # at once, as there
_HASHES = {"SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512", "MD5": "md5"}


def js_globals(env: Any) -> dict[str, Any]:
    """The names of the module."""
    return {
        "AbortController": AbortController,
        "AbortSignal": AbortSignal,
        "ArrayBuffer": SimpleNamespace(new=bytearray),
        "Array": SimpleNamespace(
            new=lambda *items: Array(items), isArray=lambda one: isinstance(one, list), **{"from": Array}
        ),
        "Blob": forms.Blob,
        "Date": Date,
        "Error": SimpleNamespace(new=failures.JsException),
        "File": forms.File,
        "FormData": forms.FormData,
        "Headers": web.Headers,
        "JSON": _Json(),
        "Math": Math,
        "Number": SimpleNamespace(isInteger=_is_integer, isFinite=_is_finite, isNaN=lambda one: one != one),
        "Map": SimpleNamespace(new=lambda entries=(): Map(dict(entries))),
        "Object": _Object(),
        "Promise": _Promise(),
        "Request": web.Request,
        "Response": web.Response,
        "Set": SimpleNamespace(new=lambda items=(): set(items)),
        "String": str,
        "RangeError": SimpleNamespace(new=failures.JsRangeError),
        "ReadableStream": streams.ReadableStream,
        "WritableStream": streams.WritableStream,
        "TransformStream": streams.TransformStream,
        "IdentityTransformStream": streams.IdentityTransformStream,
        "TextDecoder": TextDecoder,
        "TextDecoderStream": streams.TextDecoderStream,
        "TextEncoder": TextEncoder,
        "TextEncoderStream": streams.TextEncoderStream,
        "TypeError": SimpleNamespace(new=failures.JsTypeError),
        "URL": URL,
        "URLSearchParams": URLSearchParams,
        "Uint8Array": SimpleNamespace(new=_bytes, **{"from": _bytes}),
        "WebSocket": OutgoingSocket,
        "WebSocketPair": sockets.WebSocketPair,
        "WebSocketRequestResponsePair": sockets.WebSocketRequestResponsePair,
        "atob": lambda text: base64.b64decode(text).decode("latin-1"),
        "btoa": lambda text: base64.b64encode(str(text).encode("latin-1")).decode(),
        "clearInterval": _clear,
        "clearTimeout": _clear,
        "console": _Console(),
        "crypto": _Crypto(),
        "decodeURIComponent": unquote,
        "encodeURIComponent": lambda text: quote(str(text), safe="-_.!~*'()"),
        "env": env,
        "fetch": fetch,
        "performance": SimpleNamespace(now=lambda: time.monotonic() * 1000),
        "queueMicrotask": lambda callback: asyncio.get_running_loop().call_soon(_run, callback),
        "scheduler": SimpleNamespace(wait=lambda ms, *_: asyncio.sleep(ms / 1000)),
        "setInterval": _set_interval,
        "setTimeout": _set_timeout,
        "structuredClone": lambda value, *_: copy.deepcopy(value),
        "undefined": None,
    }


class _Json:
    """`JSON`."""

    @staticmethod
    def stringify(value: Any, replacer: Any = None, space: Any = None) -> str:
        indent = {"indent": space} if space else {"separators": (",", ":")}
        return json.dumps(plain(value), ensure_ascii=False, **indent)

    @staticmethod
    def parse(text: str) -> Any:
        return dress(json.loads(text))


class _Object:
    """`Object`."""

    @staticmethod
    def fromEntries(entries: Any) -> Record:  # noqa: N802  the names there
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

    @staticmethod
    def assign(target: Any, *sources: Any) -> Any:
        for source in sources:
            target.update(source or {})
        return target

    @staticmethod
    def is_(one: Any, two: Any) -> bool:
        same_number = isinstance(one, int | float) and isinstance(two, int | float)
        return one is two or (one != one and two != two) or ((same_number or isinstance(one, str)) and one == two)


setattr(_Object, "is", staticmethod(_Object.is_))


class _Promise:
    """`Promise`: what is awaited together."""

    @staticmethod
    async def all(work: Any) -> Array:
        return Array(await asyncio.gather(*map(result_of, work)))

    @staticmethod
    async def allSettled(work: Any) -> Array:  # noqa: N802  the name there
        found = await asyncio.gather(*map(result_of, work), return_exceptions=True)
        return Array(
            Record(status="rejected", reason=one)
            if isinstance(one, BaseException)
            else Record(status="fulfilled", value=one)
            for one in found
        )

    @staticmethod
    async def race(work: Any) -> Any:
        tasks = [asyncio.ensure_future(result_of(one)) for one in work]  # the others go on, as there
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()

    @staticmethod
    async def resolve(value: Any = None) -> Any:
        return await result_of(value)

    @staticmethod
    async def reject(reason: Any = None) -> Any:
        raise reason if isinstance(reason, BaseException) else failures.JsException(str(reason))


class _Console:
    """`console`: lines of the log."""

    def log(self, *parts: Any) -> None:
        log.info("%s", " ".join(str(part) for part in parts))

    info = debug = log

    def warn(self, *parts: Any) -> None:
        log.warning("%s", " ".join(str(part) for part in parts))

    def error(self, *parts: Any) -> None:
        log.error("%s", " ".join(str(part) for part in parts))


class Math:
    """`Math`, as far as Python code asks for it."""

    PI, E = math.pi, math.e
    floor, ceil, sqrt, trunc = math.floor, math.ceil, math.sqrt, math.trunc
    abs, max, min, pow = abs, max, min, math.pow
    random = staticmethod(lambda: secrets.randbits(53) / (1 << 53))
    round = staticmethod(lambda number: math.floor(number + 0.5))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class TextEncoder:
    """Text to bytes."""

    encoding = "utf-8"

    @classmethod
    def new(cls) -> "TextEncoder":
        return cls()

    def encode(self, text: Any = "") -> bytes:
        return str(text).encode(errors="replace")


class TextDecoder:
    """Bytes to text."""

    def __init__(self, label: str = "utf-8", options: Any = None, **named: Any) -> None:
        self.encoding = label
        self.fatal = bool(option_of(options, named, "TextDecoder").get("fatal"))

    @classmethod
    def new(cls, *given: Any, **named: Any) -> "TextDecoder":
        return cls(*given, **named)

    def decode(self, data: Any = b"") -> str:
        try:
            return bytes(data).decode(self.encoding, "strict" if self.fatal else "replace")
        except UnicodeDecodeError as error:
            raise failures.JsTypeError(f"TextDecoder: {error}") from None


class AbortSignal:
    """Says when something is to be given up; `fetch(…, signal=…)` hears it."""

    def __init__(self) -> None:
        self.aborted = False
        self.reason: Any = None
        self._listeners: list[Callable[..., Any]] = []

    def addEventListener(self, kind: str, listener: Callable[..., Any]) -> None:  # noqa: N802  the names there
        if kind == "abort":
            self._listeners.append(listener)

    def throwIfAborted(self) -> None:  # noqa: N802
        if self.aborted:
            raise failures.JsException(str(self.reason))

    @staticmethod
    def timeout(ms: float) -> "AbortSignal":
        controller = AbortController()
        asyncio.get_running_loop().call_later(ms / 1000, controller.abort, "the time is over")
        return controller.signal


class AbortController:
    """Gives something up: `signal` is what it is given."""

    def __init__(self) -> None:
        self.signal = AbortSignal()

    @classmethod
    def new(cls) -> "AbortController":
        return cls()

    def abort(self, reason: Any = None) -> None:
        signal = self.signal
        if not signal.aborted:
            signal.aborted, signal.reason = True, reason or "it was aborted"
            for listener in signal._listeners:
                listener(Record(type="abort"))


class _Crypto:
    """`crypto`: chance, and of `subtle` digests and keyed digests."""

    def __init__(self) -> None:
        self.subtle = _SubtleCrypto()

    def randomUUID(self) -> str:  # noqa: N802  the names there
        return str(uuid.uuid4())

    def getRandomValues(self, array: Any) -> Any:  # noqa: N802
        """Fill the bytes."""
        if len(array) > RANDOM_BYTES_MAX:
            raise failures.JsRangeError(f"getRandomValues() fills {RANDOM_BYTES_MAX} bytes at most")
        array[:] = secrets.token_bytes(len(array))
        return array


class CryptoKey:
    """A secret for keyed digests."""

    type = "secret"

    def __init__(self, data: bytes, hash: str, usages: Any) -> None:
        self._data = data
        self.algorithm = Record(name="HMAC", hash=Record(name=hash), length=len(data) * 8)
        self.usages = list(usages)


class _SubtleCrypto:
    """`crypto.subtle`, as far as Python does not have better of its own (`hashlib`, `cryptography`)."""

    async def digest(self, algorithm: Any, data: Any) -> bytes:
        return hashlib.new(_hash_of(algorithm), bytes(data), usedforsecurity=False).digest()

    async def importKey(self, format: str, data: Any, algorithm: Any, extractable: bool, usages: Any) -> CryptoKey:  # noqa: N802
        if format != "raw" or _name_of(algorithm) != "HMAC":
            raise failures.Unsupported(
                f"crypto.subtle.importKey() of {format!r} for {_name_of(algorithm)} is not here, raw keys of HMAC are; "
                "use Python's `cryptography`"
            )
        return CryptoKey(bytes(data), _name_of(algorithm["hash"]), usages)

    async def sign(self, algorithm: Any, key: CryptoKey, data: Any) -> bytes:
        return hmac.digest(key._data, bytes(data), _hash_of(key.algorithm["hash"]))

    async def verify(self, algorithm: Any, key: CryptoKey, signature: Any, data: Any) -> bool:
        return hmac.compare_digest(bytes(signature), await self.sign(algorithm, key, data))

    def timingSafeEqual(self, one: Any, two: Any) -> bool:  # noqa: N802
        if len(one) != len(two):
            raise failures.JsTypeError("timingSafeEqual() takes two of one length")
        return hmac.compare_digest(bytes(one), bytes(two))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"crypto.subtle.{name} is not here; use Python's `cryptography` or `hashlib`")


def _name_of(algorithm: Any) -> str:
    return str(algorithm["name"] if isinstance(algorithm, Mapping) else algorithm).upper()


def _hash_of(algorithm: Any) -> str:
    name = _name_of(algorithm)
    if name not in _HASHES:
        raise failures.JsException(f"{name} is no digest that is here; there are {', '.join(_HASHES)}")
    return _HASHES[name]


def _bytes(given: Any = 0) -> bytearray:
    return bytearray(given.encode() if isinstance(given, str) else given)


def _set_timeout(callback: Any, ms: float = 0, *args: Any) -> "_Timer":
    return _Timer(callback, ms, args, again=False)


def _set_interval(callback: Any, ms: float = 0, *args: Any) -> "_Timer":
    return _Timer(callback, ms, args, again=True)


def _clear(timer: Any = None) -> None:
    if timer is not None:
        timer.cancel()


class _Timer:
    """What `setTimeout` and `setInterval` give."""

    def __init__(self, callback: Any, ms: float, args: tuple[Any, ...], *, again: bool) -> None:
        self._callback, self._ms, self._args, self._again = callback, max(0, ms or 0), args, again
        self._begin()

    def cancel(self) -> None:
        self._again = False
        self._handle.cancel()

    def _begin(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(self._ms / 1000, self._ring)

    def _ring(self) -> None:
        if self._again:
            self._begin()
        go_on_when_open(lambda: _run(self._callback, *self._args))


def _run(callback: Any, *args: Any) -> None:
    found = callback(*args)
    if isinstance(found, Awaitable):
        task = asyncio.ensure_future(found)
        _running.add(task)
        task.add_done_callback(_running.discard)


_running: set[Any] = set()  # else nobody would hold them
