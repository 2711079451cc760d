"""Layer 5, pure. Which resource does a URL name?

A key may hold anything, a slash included, so the path is cut into segments before it is decoded, and each segment is
decoded once. What a proxy or a surrounding application has put before it (`root_path`) is taken off.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from wakeful.http.problems import Problem

_BARE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

URL_BYTES_MAX = 8_192  # a class, a key, a schedule's name and a cursor, each percent-encoded, fit in it


def raw_of(scope: Mapping[str, Any]) -> bytes:
    """The path below the application's own root, as it was sent."""
    raw: bytes | None = scope.get("raw_path")
    path: str = scope["path"]
    raw = quote(path).encode() if raw is None else raw.partition(b"?")[0]
    root: str = scope.get("root_path") or ""
    if not root:
        return raw
    root = root.rstrip("/")
    for spelled in (quote(root).encode(), root.encode()):
        if raw == spelled or raw.startswith(spelled + b"/"):
            return raw[len(spelled) :] or b"/"
    return raw


def segments_of(raw: bytes) -> list[str]:
    """The decoded segments of a path; `Problem` for what is no UTF-8, or not percent-encoded."""
    if not raw.startswith(b"/"):
        raise Problem(404, "path.unknown", "there is nothing here")
    parts = raw[1:].split(b"/")
    try:
        if b"%" not in raw:
            return [part.decode() for part in parts]
        if _BARE.search(raw) is not None:
            words = "the path has a % without two hexadecimal digits behind it; write %25 for the sign itself"
            raise Problem(400, "path.encoding", words)
        return [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise Problem(400, "path.encoding", "the path is not UTF-8, percent-encoded") from None


def check_length(scope: Mapping[str, Any]) -> None:
    """`Problem` for a URL longer than any that makes sense."""
    if is_long(scope):
        raise Problem(414, "path.long", f"the URL has {_size(scope)} bytes, {URL_BYTES_MAX} at most")


def is_long(scope: Mapping[str, Any]) -> bool:
    return _size(scope) > URL_BYTES_MAX


def _size(scope: Mapping[str, Any]) -> int:
    return len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))


def quoted(text: str) -> str:
    """Text as one segment of a path."""
    return quote(text, safe="")
