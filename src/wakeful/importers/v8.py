"""Layer 5. Which text did V8 write? Cloudflare's runtime keeps the values of keys in that form; actor-kit's are texts."""

from wakeful.importers.found import bad

_VERSION = 0xFF
_LATIN, _WIDE, _UTF8, _PADDING = 0x22, 0x63, 0x53, 0x00


def text(data: bytes, path: str) -> str:
    """The text in a serialised value; an error when it is something else."""
    at = 0
    if len(data) > 1 and data[0] == _VERSION:
        _, at = _number(data, 1, path)
    while at < len(data) and data[at] == _PADDING:
        at += 1
    if at >= len(data):
        raise bad(path, "the value is empty")
    kind = data[at]
    if kind not in (_LATIN, _WIDE, _UTF8):
        raise bad(path, f"the value is no text but of V8's kind {chr(kind)!r}; export it as JSON", code="import.v8")
    length, at = _number(data, at + 1, path)
    body = data[at : at + length]
    if len(body) != length:
        raise bad(path, f"the value is cut: {len(body)} of {length} bytes", code="import.v8")
    return body.decode({_LATIN: "latin-1", _WIDE: "utf-16-le", _UTF8: "utf-8"}[kind], "replace")


def _number(data: bytes, at: int, path: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise bad(path, "the value is cut", code="import.v8")
