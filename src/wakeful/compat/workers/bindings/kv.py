"""Layer 5. `env.KV`: what is a KV namespace here?

One object, `KVNamespace/<id>`, whose rows are the entries in the order of their keys, so that a list is one read. Gets run
beside each other; puts go one after the other, some thousand a second, where there a key takes one a second.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.bindings.calls import ObjectBinding
from wakeful.compat.workers.bindings.long_values import (
    MESSAGE_BYTES,
    SWEEP_ROWS,
    LongValues,
    fetch_value,
    send_value,
)
from wakeful.compat.workers.failures import JsException, JsTypeError
from wakeful.compat.workers.values import Array, Map, Record, dress, option_of, plain, text_of
from wakeful.compat.workers.web import Response
from wakeful.runtime.registry import reader

if TYPE_CHECKING:
    import asyncio

    from wakeful.app import App

CLASS = "KVNamespace"

KEY_BYTES_MAX = 512
VALUE_BYTES_MAX = 25 << 20
METADATA_BYTES_MAX = 1_024
TTL_S_MIN = 60
CACHE_TTL_S_MIN = 30
LIST_MAX = 1_000
KEYS_MAX = 100  # of one get

_PAGE_MIN = 200  # looked at in one go, among which many may have expired

_ENTRY = "k"
_EXPIRY = "e"
_TYPES = ("text", "json", "arrayBuffer", "stream")


class KVNamespace(LongValues):
    """The entries of a KV namespace. What has expired is never read, and deleted soon after."""

    @reader
    async def read(self, keys: list[str]) -> list[Any]:
        """For each key `metadata, version, size`, and the value while it all goes into one message; None for none."""
        answer: list[Any] = []
        left = MESSAGE_BYTES
        now = self._seconds()
        entries = await self.storage.get_many({_ENTRY + key for key in keys})
        for key in keys:
            entry = entries.get(_ENTRY + key)
            if entry is None or _is_over(entry, now):
                answer.append(None)
                continue
            version, size, _, metadata = entry
            data = await self._load(version, size) if size <= left else None
            left -= 0 if data is None else size
            answer.append([metadata, version, size, data])
        return answer

    async def write(
        self, key: str, size: int, data: bytes | None, version: str | None, expiration: int | None, metadata: Any
    ) -> None:
        """Put an entry over the one that is there."""
        version = await self._keep(data, version)
        await self._forget_entry(key)
        self.storage.put(_ENTRY + key, [version, size, expiration, metadata])
        if expiration is not None:
            self.storage.put(_expiry(expiration, key), True)
            await self._ring_at(expiration * 1000)

    async def remove(self, key: str) -> None:
        """No such entry any more."""
        await self._forget_entry(key)

    @reader
    async def names(self, prefix: str, limit: int, after: str | None) -> tuple[list[Any], bool]:
        """`name, expiration, metadata` of the next entries, and whether there are more."""
        now, first = self._seconds(), None if after is None else _ENTRY + after
        here: list[Any] = []
        page = max(limit, _PAGE_MIN) + 1
        while True:
            rows = await self.storage.list(prefix=_ENTRY + prefix, start_after=first, limit=page)
            for name, entry in rows.items():
                if not _is_over(entry, now):
                    here.append([name[len(_ENTRY) :], *entry[2:]])
            if len(here) > limit or len(rows) < page:
                return here[:limit], len(here) > limit
            first = next(reversed(rows))

    async def _sweep(self, now: int) -> int | None:
        rows = await self.storage.list(prefix=_EXPIRY, limit=SWEEP_ROWS)
        for name in rows:
            due, key = int(name[1:13]), name[13:]
            if due * 1000 > now:
                return due * 1000
            await self._forget_entry(key)
        return now if len(rows) == SWEEP_ROWS else None

    async def _forget_entry(self, key: str) -> None:
        entry = await self.storage.get(_ENTRY + key)
        if entry is None:
            return
        version, size, expiration, _ = entry
        self._drop(version, size)
        self.storage.delete(_ENTRY + key)
        if expiration is not None:
            self.storage.delete(_expiry(expiration, key))

    def _seconds(self) -> int:
        return self._ms() // 1000


def _is_over(entry: Any, now: int) -> bool:
    return entry[2] is not None and entry[2] <= now


def _expiry(at: int, key: str) -> str:
    return f"{_EXPIRY}{at:012}{key}"


class KeyList(Record):
    """What `list` gives; its `keys` are those of the namespace, as there."""

    @property
    def keys(self) -> Any:
        return self["keys"]


class KvBinding(ObjectBinding):
    """`get`, `getWithMetadata`, `put`, `delete` and `list`."""

    def __init__(self, app: "App", key: str) -> None:
        super().__init__(app, CLASS, key)

    def get(self, key: Any, options: Any = None, **named: Any) -> "asyncio.Task[Any]":
        """The value of a key, or a Map of those of several; None where there is none."""
        return self._begin(self._get(key, _options(options, named, "get()")), "get()")

    def getWithMetadata(self, key: Any, options: Any = None, **named: Any) -> "asyncio.Task[Any]":  # noqa: N802
        """`value`, `metadata` and `cacheStatus`; None for what is not there."""
        return self._begin(self._get(key, _options(options, named, "getWithMetadata()"), True), "getWithMetadata()")

    def put(self, key: Any, value: Any, options: Any = None, **named: Any) -> "asyncio.Task[None]":
        """Keep text or bytes under a key."""
        return self._begin(self._put(key, value, option_of(options, named, "put()")), "put()")

    def delete(self, key: Any) -> "asyncio.Task[None]":
        """Forget a key; fine when it was not there."""
        return self._begin(self._delete(key), "delete()")

    def list(self, options: Any = None, **named: Any) -> "asyncio.Task[KeyList]":
        """`keys` in the order of their bytes, `list_complete`, and the `cursor` for the next when it is not."""
        return self._begin(self._list(option_of(options, named, "list()")), "list()")

    async def _get(self, key: Any, options: Mapping[str, Any], has_metadata: bool = False) -> Any:
        kind = text_of(options.get("type") or "text", "get(type)")
        kind = "arrayBuffer" if kind == "bytes" else kind
        _check_cache(options.get("cacheTtl"))
        if isinstance(key, (list, tuple)):
            return await self._get_many([text_of(one, "a key") for one in key], kind, has_metadata)
        if kind not in _TYPES:
            raise JsTypeError(
                f'Unknown response type. Possible types are "text", "arrayBuffer", "json", and "stream", not {kind!r}'
            )
        name = _check_key(key, "GET")
        head, data = await self._read_one(name)
        value = None if head is None else await _shape(data, kind)
        if not has_metadata:
            return value
        return Record(value=value, metadata=None if head is None else dress(head[0]), cacheStatus=None)

    async def _read_one(self, name: str) -> tuple[Any, bytes]:
        [head] = await self._stub.read([name])
        if head is None or head[3] is not None:
            return head, b"" if head is None else head[3]

        async def look() -> Any:
            return (await self._stub.read([name]))[0]

        return await fetch_value(self._stub, look, lambda found: (found[1], 0, found[2]))

    async def _get_many(self, keys: Sequence[str], kind: str, has_metadata: bool) -> Map:
        if kind not in ("text", "json"):
            raise JsException(f'KV GET_BULK failed: 400 "{kind}" is not a valid type. Use "json" or "text"')
        if not keys:
            raise JsException("KV GET_BULK failed: 400 You must request a minimum of 1 key")
        if len(keys) > KEYS_MAX:
            raise JsException(f"KV GET_BULK failed: 400 You can request a maximum of {KEYS_MAX} keys")
        for key in keys:
            _check_key(key, "GET_BULK")
        heads = await self._stub.read([*keys])
        if sum(head[2] for head in heads if head is not None) > VALUE_BYTES_MAX:
            raise JsException("KV GET_BULK failed: 413 Total size of request exceeds the limit of 25MB")
        answer = Map()
        for key, head in zip(keys, heads, strict=True):
            data = b"" if head is None else head[3]
            if data is None:
                head, data = await self._read_one(key)
            try:
                value = None if head is None else await _shape(data, kind)
            except ValueError:
                raise JsException(
                    f"KV GET_BULK failed: 400 At least one of the requested keys corresponds to a non-{kind} value"
                ) from None
            if has_metadata and head is not None:
                value = Record(value=value, metadata=dress(head[0]))
            answer[key] = value
        return answer

    async def _put(self, key: Any, value: Any, options: Mapping[str, Any]) -> None:
        name = _check_key(key, "PUT")
        data = _bytes_of(value)
        expiration = self._expiration(options)
        metadata = plain(options.get("metadata"))
        if metadata is not None:
            written = len(_json(metadata))
            if written > METADATA_BYTES_MAX:
                raise JsException(
                    f"KV PUT failed: 413 Metadata length of {written} exceeds limit of {METADATA_BYTES_MAX}."
                )
        if len(data) > VALUE_BYTES_MAX:
            raise JsException(f"KV PUT failed: 413 Value length of {len(data)} exceeds limit of {VALUE_BYTES_MAX}.")
        await self._stub.write(name, len(data), *await send_value(self._stub, data), expiration, metadata)

    def _expiration(self, options: Mapping[str, Any]) -> int | None:
        """In seconds since 1970; a value lives for a minute at least."""
        now = self._now() // 1000
        ttl, at = options.get("expirationTtl"), options.get("expiration")
        if ttl is not None:
            seconds = _whole(ttl)
            if seconds is None or seconds <= 0:
                raise _bad_put(f"expiration_ttl of {ttl}. Please specify integer greater than 0.")
            if seconds < TTL_S_MIN:
                raise _bad_put(f"expiration_ttl of {ttl}. Expiration TTL must be at least {TTL_S_MIN}.")
            return now + seconds
        if at is None:
            return None
        seconds = _whole(at)
        if seconds is None or seconds <= now:
            raise _bad_put(
                f"expiration of {at}. Please specify integer greater than the current number of seconds since the UNIX epoch."
            )
        if seconds < now + TTL_S_MIN:
            raise _bad_put(f"expiration of {at}. Expiration times must be at least {TTL_S_MIN} seconds in the future.")
        if seconds >= 10**12:
            raise _bad_put(f"expiration of {at}. It is in seconds, not milliseconds.")
        return seconds

    async def _delete(self, key: Any) -> None:
        await self._stub.remove(_check_key(key, "DELETE"))

    async def _list(self, options: Mapping[str, Any]) -> KeyList:
        given, prefix = options.get("limit"), options.get("prefix")
        limit = _whole(given) if given else LIST_MAX
        if limit is None or limit < 1:
            raise JsException(
                f"KV GET failed: 400 Invalid key_count_limit of {given}. Please specify an integer greater than 0."
            )
        if limit > LIST_MAX:
            raise JsException(
                f"KV GET failed: 400 Invalid key_count_limit of {given}. Please specify an integer less than {LIST_MAX}."
            )
        text = "" if prefix is None else text_of(prefix, "list(prefix)")
        _check_length(text, "GET")
        names, has_more = await self._stub.names(text, limit, _after(options.get("cursor")))
        keys = Array(_name_row(*row) for row in names)
        if not has_more:
            return KeyList(keys=keys, list_complete=True, cacheStatus=None)
        cursor = base64.b64encode(names[-1][0].encode()).decode()
        return KeyList(keys=keys, list_complete=False, cursor=cursor, cacheStatus=None)


def _options(options: Any, named: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Those of a get, which may be the type alone."""
    return option_of({"type": options} if isinstance(options, str) else options, named, what)


def _name_row(name: str, expiration: int | None, metadata: Any) -> Record:
    found = Record(name=name)
    if expiration is not None:
        found["expiration"] = expiration
    if metadata is not None:
        found["metadata"] = dress(metadata)
    return found


async def _shape(data: bytes, kind: str) -> Any:
    """The value as what was asked for."""
    body = Response(data)
    match kind:
        case "arrayBuffer":
            return await body.bytes()
        case "json":
            return dress(await body.json())
        case "stream":
            return body.body
    return await body.text()


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, bool | int | float):
        return text_of(value, "a value").encode()
    raise JsTypeError(
        "KV put() accepts only strings, ArrayBuffers, ArrayBufferViews, and ReadableStreams as values: here text and "
        f"bytes, not {type(value).__name__}"
    )


def _check_key(key: Any, verb: str) -> str:
    name = text_of(key, "a key")
    if not name:
        raise JsTypeError("Key name cannot be empty.")
    if name in (".", ".."):
        raise JsTypeError(f'"{name}" is not allowed as a key name.')
    _check_length(name, verb)
    return name


def _check_length(name: str, verb: str) -> None:
    size = len(name.encode(errors="surrogatepass"))
    if size > KEY_BYTES_MAX:
        raise JsException(
            f"KV {verb} failed: 414 UTF-8 encoded length of {size} exceeds key length limit of {KEY_BYTES_MAX}."
        )


def _check_cache(ttl: Any) -> None:
    """It is accepted where it would be there, and means nothing: what is read is what was put last."""
    if ttl is None:
        return
    seconds = _whole(ttl)
    if seconds is None or seconds < CACHE_TTL_S_MIN:
        raise JsException(
            f"KV GET failed: 400 Invalid cache_ttl of {ttl}. Cache TTL must be at least {CACHE_TTL_S_MIN}."
        )


def _bad_put(what: str) -> JsException:
    return JsException(f"KV PUT failed: 400 Invalid {what}")


def _whole(value: Any) -> int | None:
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _after(cursor: Any) -> str | None:
    if cursor is None or cursor == "":
        return None
    try:
        return base64.b64decode(text_of(cursor, "list(cursor)"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise JsException(f"KV GET failed: 400 {cursor!r} is no cursor of a list") from None


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise JsTypeError(f"metadata must be what JSON can say: {error}") from None
