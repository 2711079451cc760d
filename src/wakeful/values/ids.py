"""Layer 0. Which object is meant, and in which shard does it live?"""

import re
from typing import NamedTuple
from zlib import crc32

from wakeful.values.errors import BadName

SHARDS = 256
CLASS_BYTES_MAX = 64
# Class, key and storage key together must fit one PostgreSQL index row (2,704 bytes).
KEY_BYTES_MAX = 512
RESERVED = "wakeful."  # what the names of Wakeful's own classes begin with

_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ObjectId(NamedTuple):
    """A class name and a key: the identity of one object in the whole deployment.

    >>> from wakeful import ObjectId
    >>> id = ObjectId("Order", "acme/17")
    >>> print(id, id.cls, id.key)
    Order/acme/17 Order acme/17
    """

    cls: str
    key: str

    def __str__(self) -> str:
        return f"{self.cls}/{self.key}"


def shard_of(id: ObjectId) -> int:
    """The object's shard; the same on every store, platform and version, for ever."""
    return crc32(f"{id.cls}\0{id.key}".encode()) % SHARDS


def tenant_of(key: str) -> str:
    """The tenant that an object's key belongs to: the part before the first slash, or all of it."""
    return key.partition("/")[0] if "/" in key else key


def check_class(name: object) -> str:
    """A class name that is safe in URLs, SQL and logs, or `BadName`."""
    if not isinstance(name, str) or not _CLASS.fullmatch(name):
        raise BadName(
            f"class name {name!r}: use a letter or underscore, then letters, digits, '_', '.', '-', "
            f"at most {CLASS_BYTES_MAX} in all",
            code="name.class",
        )
    return name


def check_key(cls: str, key: object) -> str:
    """An object key as every store can hold it, or `BadName`."""
    if type(key) is str and key.isascii() and key.isprintable() and 0 < len(key) <= KEY_BYTES_MAX:
        return key  # nearly every key there is
    if not isinstance(key, str):
        raise BadName(f"the key of {cls} must be text, not {type(key).__name__}", code="name.key")
    if not key:
        raise BadName(f"the key of {cls} is empty; give the object a name", code="name.key")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadName(f"key {key!r} of {cls} is not valid Unicode text", code="name.key") from None
    if size > KEY_BYTES_MAX:
        raise BadName(
            f"key {key[:32]!r}… of {cls} has {size} bytes, {size - KEY_BYTES_MAX} more than the limit of {KEY_BYTES_MAX}",
            code="name.key",
        )
    if _CONTROL.search(key):
        raise BadName(f"key {key!r} of a {cls} has a control character; leave it out", code="name.key")
    return key


def why_no_name(text: str, size: int, most: int, unit: str) -> str | None:
    """What is wrong with a tag or the like, and what to do; None when it can be one."""
    if not text:
        return "'' is empty; leave it out"
    if size > most:
        return f"{text[:40]!r}… has {size} {unit}, {most} at most; shorten it"
    return None if text.isprintable() else f"{text[:40]!r} has characters that can't be printed; leave them out"
