"""Layer 5. Which object of a class do 64 hexadecimal digits mean, and how does Wakeful call it?

An id is 32 bytes: one that says its kind, 23 of content, and 8 that tie it to its class, so that an id of another is
refused. A name of up to 23 bytes, or a UUID, is its own content: the object's key here is that name, which people can
read in lists and type on the command line. A longer name is hashed, and a unique id is random; their key is the id.
"""

import hashlib
import re
from typing import Any
from uuid import UUID

from wakeful.compat.workers.failures import JsTypeError
from wakeful.values.errors import BadName
from wakeful.values.ids import check_key

CONTENT_BYTES = 23
CHECK_BYTES = 8
_UUID, _HASHED, _RANDOM = 0xFD, 0xFE, 0xFF  # below: the length of a name
_HEX = re.compile(r"[0-9a-f]{64}")
_HEX_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class DurableObjectId:
    """The id of an object: `str(id)`, `id.toString()`, `id.equals(other)`, and its `name` if it was made from one."""

    __slots__ = ("_hex", "name")

    def __init__(self, hex: str, name: str | None = None) -> None:
        self._hex = hex
        self.name = name

    def toString(self) -> str:  # noqa: N802  the name there
        return self._hex

    def equals(self, other: Any) -> bool:
        return isinstance(other, DurableObjectId) and other._hex == self._hex

    def __eq__(self, other: object) -> bool:
        return self.equals(other)

    def __hash__(self) -> int:
        return hash(self._hex)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"DurableObjectId({self.name or self._hex!r})"

    @property
    def key(self) -> str:
        """What the object is called in Wakeful."""
        data = bytes.fromhex(self._hex)
        if data[0] == _UUID:
            return str(UUID(bytes=data[1:17]))
        return data[1 : 1 + data[0]].decode() if data[0] <= CONTENT_BYTES else self._hex

    @property
    def is_hashed(self) -> bool:
        """Made from a name that is not in it."""
        return self._hex.startswith(f"{_HASHED:02x}")


def named_id(cls: str, name: str) -> DurableObjectId:
    """The id of a name, the same for ever and in every process."""
    data = name.encode(errors="surrogatepass")
    if _HEX_UUID.fullmatch(name):
        content = bytes([_UUID]) + UUID(name).bytes.ljust(CONTENT_BYTES, b"\0")
    elif _is_readable(cls, name, data):
        content = bytes([len(data)]) + data.ljust(CONTENT_BYTES, b"\0")
    else:
        content = bytes([_HASHED]) + hashlib.sha256(f"{cls}\0".encode() + data).digest()[:CONTENT_BYTES]
    return DurableObjectId(_seal(cls, content), name)


def unique_id(cls: str, entropy: bytes) -> DurableObjectId:
    """An id of its own, from that many random bytes."""
    return DurableObjectId(_seal(cls, bytes([_RANDOM]) + entropy[:CONTENT_BYTES]))


def id_of_text(cls: str, text: str) -> DurableObjectId:
    """The id that those digits are; its name, if it had one, is not known here."""
    if not isinstance(text, str) or not _HEX.fullmatch(text.lower()):
        raise JsTypeError("an id is 64 hexadecimal digits, as toString() gives them")
    text = text.lower()
    if _seal(cls, bytes.fromhex(text)[:-CHECK_BYTES]) != text:
        raise JsTypeError(f"this is no id of the class {cls}")
    return DurableObjectId(text)


def id_of_key(cls: str, key: str) -> DurableObjectId:
    """The id of the object that Wakeful calls so."""
    if _HEX.fullmatch(key):
        return id_of_text(cls, key)
    return named_id(cls, key)


def _is_readable(cls: str, name: str, data: bytes) -> bool:
    if not 0 < len(data) <= CONTENT_BYTES:
        return False
    try:
        check_key(cls, name)
    except BadName:
        return False
    return True


def _seal(cls: str, content: bytes) -> str:
    return (content + hashlib.sha256(f"id\0{cls}\0".encode() + content).digest()[:CHECK_BYTES]).hex()
