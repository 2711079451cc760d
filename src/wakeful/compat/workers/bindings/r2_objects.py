"""Layer 5. `env.BUCKET`: how does a Worker's code put, get and list the objects of an R2 bucket?"""

import asyncio
import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.bindings import r2
from wakeful.compat.workers.bindings.calls import ObjectBinding
from wakeful.compat.workers.bindings.long_values import fetch_value, send_value
from wakeful.compat.workers.dates import Date
from wakeful.compat.workers.failures import JsException, JsTypeError, Unsupported
from wakeful.compat.workers.values import Array, Record, dress, option_of, plain, text_of
from wakeful.compat.workers.web import Headers, Response

if TYPE_CHECKING:
    from wakeful.app import App

KEY_BYTES_MAX = 1_024
OBJECT_BYTES_MAX = 100 << 20  # of one put, and of one part: all of it is in memory
PART_BYTES_MIN = 5 << 20  # but for the last
METADATA_BYTES_MAX = 8_192
LIST_MAX = 1_000
PARTS_MAX = 10_000
_SUMS = ("md5", "sha1", "sha256", "sha384", "sha512")
_HTTP = {
    "contentType": "content-type",
    "contentLanguage": "content-language",
    "contentDisposition": "content-disposition",
    "contentEncoding": "content-encoding",
    "cacheControl": "cache-control",
    "cacheExpiry": "expires",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class R2Object:
    """What is known of an object: `key`, `size`, `etag`, `uploaded`, its metadata and checksums."""

    def __init__(self, key: str, entry: Mapping[str, Any], range: Record | None = None) -> None:
        self.key = key
        self.version: str = entry["version"]
        self.size: int = entry["size"]
        self.etag: str = entry["etag"]
        self.httpEtag = f'"{self.etag}"'
        self.uploaded = Date.new(entry["uploaded"])
        self.httpMetadata = dress(entry.get("http") or {})
        if "cacheExpiry" in self.httpMetadata:
            self.httpMetadata["cacheExpiry"] = Date.new(self.httpMetadata["cacheExpiry"])
        self.customMetadata = dress(entry.get("custom") or {})
        self.checksums = Checksums(entry["sums"])
        self.storageClass = "Standard"
        self.range = range

    def writeHttpMetadata(self, headers: Any) -> None:  # noqa: N802  the name there
        """Set the headers that its `httpMetadata` stands for."""
        for name, header in _HTTP.items():
            value = self.httpMetadata.get(name)
            if value is not None:
                headers.set(header, format_datetime(value, usegmt=True) if isinstance(value, datetime) else value)

    def __repr__(self) -> str:
        return f"<R2 object {self.key}, {self.size} bytes>"


class R2ObjectBody(R2Object):
    """An object with its bytes: `text()`, `json()`, `arrayBuffer()`, `bytes()`, `blob()`, `body`, once."""

    def __init__(self, key: str, entry: Mapping[str, Any], range: Record, data: bytes) -> None:
        super().__init__(key, entry, range)
        kind = self.httpMetadata.get("contentType")
        self._answer = Response(data, headers={"content-type": kind} if kind else None)

    @property
    def body(self) -> Any:
        return self._answer.body

    @property
    def bodyUsed(self) -> bool:  # noqa: N802  the name there
        return self._answer.body_used

    async def text(self) -> str:
        return await self._answer.text()

    async def json(self) -> Any:
        return dress(await self._answer.json())

    async def bytes(self) -> Any:
        return await self._answer.bytes()

    arrayBuffer = bytes  # noqa: N815  the name there

    async def blob(self) -> Any:
        return await self._answer.blob()


class Checksums:
    """Bytes by the name of the algorithm; those that were given, and MD5 of what was put at once."""

    def __init__(self, sums: Mapping[str, str]) -> None:
        self._sums = dict(sums)

    def __getattr__(self, name: str) -> Any:
        if name not in _SUMS:
            raise AttributeError(name)
        found = self._sums.get(name)
        return None if found is None else bytes.fromhex(found)

    def toJSON(self) -> Record:  # noqa: N802  the name there
        return Record(self._sums)


class R2Binding(ObjectBinding):
    """`head`, `get`, `put`, `delete`, `list` and uploads in parts."""

    def __init__(self, app: "App", key: str) -> None:
        super().__init__(app, r2.CLASS, key)

    def head(self, key: Any) -> "asyncio.Task[R2Object | None]":
        """What is known of an object, without its bytes; None when there is none."""
        return self._begin(self._head(_check_key(key, "head")), "head()")

    def get(self, key: Any, options: Any = None, **named: Any) -> "asyncio.Task[R2Object | None]":
        """An object with its bytes, or those of the `range`; without them when `onlyIf` says no; None for none."""
        return self._begin(self._get(_check_key(key, "get"), _read_options(options, named, "get()")), "get()")

    def put(self, key: Any, value: Any, options: Any = None, **named: Any) -> "asyncio.Task[R2Object | None]":
        """Keep text or bytes as an object; None when `onlyIf` says no."""
        return self._begin(self._put(_check_key(key, "put"), value, _read_options(options, named, "put()")), "put()")

    def delete(self, keys: Any) -> "asyncio.Task[None]":
        """Forget an object, or up to 1,000 at once."""
        many = [keys] if isinstance(keys, str) else list(keys)
        if len(many) > LIST_MAX:
            raise JsException(f"delete: {len(many)} keys at once; {LIST_MAX} are allowed (10029)")
        return self._begin(self._delete([_check_key(key, "delete") for key in many]), "delete()")

    def list(self, options: Any = None, **named: Any) -> "asyncio.Task[Record]":
        """`objects`, `delimitedPrefixes`, `truncated`, and the `cursor` for the next when it is."""
        return self._begin(self._list(option_of(options, named, "list()")), "list()")

    def createMultipartUpload(self, key: Any, options: Any = None, **named: Any) -> "asyncio.Task[R2Upload]":  # noqa: N802
        """An object whose parts come one by one."""
        given = _read_options(options, named, "createMultipartUpload()")
        return self._begin(
            self._begin_upload(_check_key(key, "createMultipartUpload"), given), "createMultipartUpload()"
        )

    def resumeMultipartUpload(self, key: Any, id: Any) -> "R2Upload":  # noqa: N802  the name there
        """One that was begun before, here or elsewhere."""
        return R2Upload(self, _check_key(key, "resumeMultipartUpload"), text_of(id, "an upload's id"))

    async def _head(self, key: str) -> R2Object | None:
        [entry, _] = await self._stub.heads(key, None)
        return None if entry is None else R2Object(key, entry)

    async def _get(self, key: str, options: Mapping[str, Any]) -> R2Object | None:
        conditions = _conditions(options.get("onlyIf"))
        [entry, is_met] = await self._stub.heads(key, conditions)
        if entry is None:
            return None
        if not is_met:
            return R2Object(key, entry)
        start, end = _range_of(options.get("range"), entry["size"])
        got: list[bytes] = []
        at = 0
        for version, size in entry["segments"]:
            low, high = max(start - at, 0), min(end - at, size)
            if low < high:
                data = await self._read_segment(key, entry["version"], version, low, high)
                if data is None:  # it was replaced meanwhile
                    return await self._get(key, options)
                got.append(data)
            at += size
        place = Record(offset=start, length=end - start)
        return R2ObjectBody(key, entry, place, b"".join(got))

    async def _read_segment(self, key: str, whole: str, version: str, low: int, high: int) -> bytes | None:
        async def look() -> Any:
            [entry, _] = await self._stub.heads(key, None)
            return None if entry is None or entry["version"] != whole else entry

        found, data = await fetch_value(self._stub, look, lambda entry: (version, low, high))
        return None if found is None else data

    async def _put(self, key: str, value: Any, options: Mapping[str, Any]) -> R2Object | None:
        data = _bytes_of(value, "put")
        sums = await _check_sums(data, options)
        entry = {"size": len(data), "etag": sums["md5"], "sums": sums, **_metadata(options, "put")}
        conditions = _conditions(options.get("onlyIf"))
        put = await self._stub.store(key, entry, *await send_value(self._stub, data), conditions)
        return None if put is None else R2Object(key, put)

    async def _delete(self, keys: "list[str]") -> None:  # type: ignore[valid-type]
        await self._stub.remove(keys)

    async def _list(self, options: Mapping[str, Any]) -> Record:
        limit = options.get("limit", LIST_MAX)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIST_MAX:
            raise JsException(f"list: MaxKeys params must be positive integer <= {LIST_MAX}. (10022)")
        cursor, after = options.get("cursor"), options.get("startAfter")
        if cursor is not None:
            try:
                after = base64.b64decode(text_of(cursor, "list(cursor)"), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise JsException("list: The cursor is not one that a list has given. (10031)") from None
        texts = [text_of(options.get(name) or "", f"list({name})") for name in ("prefix", "delimiter")]
        found, groups, last = await self._stub.entries(
            *texts, limit, None if after is None else text_of(after, "list(startAfter)")
        )
        kept = {"httpMetadata": "http", "customMetadata": "custom"}
        hidden = {field for name, field in kept.items() if name not in (options.get("include") or ())}
        objects = Array(R2Object(key, {**entry, **dict.fromkeys(hidden)}) for key, entry in found)
        answer = Record(objects=objects, truncated=last is not None, delimitedPrefixes=Array(groups))
        if last is not None:
            answer["cursor"] = base64.b64encode(last.encode()).decode()
        return answer

    async def _begin_upload(self, key: str, options: Mapping[str, Any]) -> "R2Upload":
        given = _metadata(options, "createMultipartUpload")
        id = secrets.token_hex(24)
        await self._stub.begin_upload(id, key, given["http"], given["custom"])
        return R2Upload(self, key, id)


class R2Upload:
    """An object that is put in parts: `uploadPart`, then `complete` or `abort`."""

    def __init__(self, bucket: R2Binding, key: str, id: str) -> None:
        self.key = key
        self.uploadId = id
        self._bucket = bucket

    def uploadPart(self, number: Any, value: Any) -> "asyncio.Task[Record]":  # noqa: N802  the name there
        """A part, of 5 MiB at least unless it is the last; what `complete` is given for it."""
        return self._bucket._begin(self._upload_part(number, value), "uploadPart()")

    def complete(self, parts: Any) -> "asyncio.Task[R2Object]":
        """Have the object be those parts, in the order of their numbers."""
        return self._bucket._begin(self._complete([plain(one) for one in parts]), "complete()")

    def abort(self) -> "asyncio.Task[None]":
        """Forget the upload and its parts."""
        return self._bucket._begin(self._abort(), "abort()")

    async def _upload_part(self, number: Any, value: Any) -> Record:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= PARTS_MAX:
            raise JsTypeError(f"Part number must be between 1 and {PARTS_MAX} (inclusive). Actual value was: {number}")
        data = _bytes_of(value, "uploadPart")
        etag = await asyncio.to_thread(_sum, "md5", data)
        stub = self._bucket._stub
        sent = await send_value(stub, data)
        if not await stub.store_part(self.uploadId, self.key, number, len(data), etag, *sent):
            raise JsException("uploadPart: The specified multipart upload does not exist. (10024)")
        return Record(partNumber=number, etag=etag)

    async def _complete(self, parts: Any) -> R2Object:
        chosen = sorted([one["partNumber"], one["etag"]] for one in parts)
        whole = b"".join(bytes.fromhex(etag) for _, etag in chosen if re.fullmatch(r"[0-9a-f]{32}", str(etag)))
        etag = f"{_sum('md5', whole)}-{len(chosen)}"
        done = await self._bucket._stub.complete_upload(self.uploadId, self.key, chosen, etag, PART_BYTES_MIN)
        if isinstance(done, str):
            raise JsException(f"completeMultipartUpload: {_WRONG[done]}")
        return R2Object(self.key, done)

    async def _abort(self) -> None:
        await self._bucket._stub.abort_upload(self.uploadId)


_WRONG = {
    "upload": "The specified multipart upload does not exist. (10024)",
    "part": "One or more of the specified parts could not be found. (10025)",
    "small": "Your proposed upload is smaller than the minimum allowed object size. (10011)",
}


def _check_key(key: Any, verb: str) -> str:
    name = text_of(key, "a key")
    if not 0 < len(name.encode(errors="surrogatepass")) <= KEY_BYTES_MAX:
        raise JsException(f"{verb}: The specified object name is not valid. (10020)")
    return name


def _read_options(options: Any, named: Mapping[str, Any], what: str) -> dict[str, Any]:
    given = option_of(options, named, what)
    if given.get("ssecKey") is not None:
        raise Unsupported(f"{what}: a key of one's own (ssecKey) is not here; encrypt before you put it")
    return given


def _bytes_of(value: Any, verb: str) -> bytes:
    if value is not None and not isinstance(value, str | bytes | bytearray | memoryview):
        value = value._data if hasattr(value, "_data") and isinstance(value._data, bytes) else value
    data = value.encode() if isinstance(value, str) else b"" if value is None else value
    if not isinstance(data, bytes | bytearray | memoryview):
        raise JsTypeError(f"{verb}() takes text, bytes or a Blob, all of it at once, not {type(value).__name__}")
    if len(data) > OBJECT_BYTES_MAX:
        raise JsException(
            f"{verb}: Your proposed upload exceeds the maximum allowed size of {OBJECT_BYTES_MAX} bytes; put it in parts (10009)"
        )
    return bytes(data)


def _metadata(options: Mapping[str, Any], verb: str) -> dict[str, Any]:
    given = options.get("httpMetadata") or {}
    http: dict[str, Any]
    if isinstance(given, Headers):
        http = {name: given.get(header) for name, header in _HTTP.items() if given.has(header)}
    else:
        http = {name: given[name] for name in _HTTP if given.get(name) is not None}
    if http.get("cacheExpiry") is not None:
        http["cacheExpiry"] = _ms_of(http["cacheExpiry"])
    custom = {str(name): str(value) for name, value in (options.get("customMetadata") or {}).items()}
    if sum(len(name.encode()) + len(value.encode()) for name, value in custom.items()) > METADATA_BYTES_MAX:
        raise JsException(f"{verb}: Your metadata headers exceed the maximum allowed metadata size. (10012)")
    return {"http": plain(http), "custom": custom}


def _sum(name: str, data: bytes) -> str:
    return hashlib.new(name, data, usedforsecurity=False).hexdigest()


async def _check_sums(data: bytes, options: Mapping[str, Any]) -> dict[str, str]:
    """MD5, and what the code said that the bytes have, checked."""
    sums = {"md5": await asyncio.to_thread(_sum, "md5", data)}
    for name in _SUMS:
        given = options.get(name)
        if given is None:
            continue
        said = given.lower() if isinstance(given, str) else bytes(given).hex()
        sums[name] = await asyncio.to_thread(_sum, name, data)
        if said != sums[name]:
            label = name.upper().replace("SHA", "SHA-")
            raise JsException(
                f"put: The {label} checksum you specified did not match what we received.\n"
                f"You provided a {label} checksum with value: {said}\nActual {label} was: {sums[name]} (10037)"
            )
    return sums


def _range_of(given: Any, size: int) -> tuple[int, int]:
    """From where to where."""
    if given is None:
        return 0, size
    if isinstance(given, Headers):
        match = _RANGE.fullmatch(given.get("range") or "")
        if match is None:
            return 0, size
        first, last = match.groups()
        given = {"offset": int(first)} if first else {"suffix": int(last or 0)}
        if first and last:
            given["length"] = int(last) - int(first) + 1
    offset, length, suffix = given.get("offset"), given.get("length"), given.get("suffix")
    if suffix is not None:
        start, end = max(size - int(suffix), 0), size
        is_good = int(suffix) > 0
    else:
        start = int(offset or 0)
        end = size if length is None else min(start + int(length), size)
        is_good = 0 <= start < max(size, 1) and (length is None or int(length) > 0)
    if not is_good:
        raise JsException("get: The requested range is not satisfiable (10039)")
    return start, end


def _conditions(given: Any) -> dict[str, Any] | None:
    if not given:
        return None
    if isinstance(given, Headers):
        texts = {name: given.get(name) for name in ("if-match", "if-none-match")}
        times = {name: given.get(name) for name in ("if-unmodified-since", "if-modified-since")}
        before, after = (None if one is None else _ms_of(parsedate_to_datetime(one)) for one in times.values())
        return {
            "matches": _etags(texts["if-match"]),
            "differs": _etags(texts["if-none-match"]),
            # To the second, and that second itself is no change.
            "before": None if before is None else before + 1,
            "after": after,
            "whole_seconds": True,
        }
    times = {name: given.get(name) for name in ("uploadedBefore", "uploadedAfter")}
    before, after = (None if one is None else _ms_of(one) for one in times.values())
    return {
        "matches": _etags(given.get("etagMatches")),
        "differs": _etags(given.get("etagDoesNotMatch")),
        "before": before,
        "after": after,
        "whole_seconds": bool(given.get("secondsGranularity")),
    }


def _etags(given: Any) -> list[str] | None:
    if given is None:
        return None
    many = given.split(",") if isinstance(given, str) else given
    return [str(one).strip().removeprefix("W/").strip('"') for one in many]


def _ms_of(value: Any) -> int:
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, str):
        try:
            return _ms_of(parsedate_to_datetime(value))
        except ValueError:
            return _ms_of(datetime.fromisoformat(value))
    return int(value)
