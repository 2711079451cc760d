"""Layer 5. Which object of a class do 64 hexadecimal digits mean, and how does Wakeful call it?

An id is 32 bytes: one that says its kind, 23 of content, and 8 that tie it to its class, so that an id of another is
refused. A name of up to 23 bytes, or a UUID, is its own content: the object's key here is that name, which people can
read in lists and type on the command line. A longer name is hashed, and a unique id is random; their key is the id.

Whoever is given an id is to learn nothing from it: kind and content are enciphered, and the rest is keyed, with a secret
of the deployment. Stores that had objects before there was such a secret keep ids that show the name.
"""

import hashlib
import re
from collections.abc import Collection
from hmac import compare_digest
from typing import TYPE_CHECKING, Any
from uuid import UUID

from wakeful.compat.workers.failures import JsTypeError
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import BadName, NotRunning
from wakeful.values.ids import ObjectId, check_key

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node

CONTENT_BYTES = 23
CHECK_BYTES = 8
_HALF = (1 + CONTENT_BYTES) // 2
_ROUNDS = 6
_UUID, _HASHED, _RANDOM = 0xFD, 0xFE, 0xFF  # below: the length of a name
_HEX = re.compile(r"[0-9a-f]{64}")
_HEX_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class IdKey:
    """The secret of a deployment under which its ids are made, once it is known; None: they show what they are of."""

    def __init__(self, secret: bytes | None = None, *, is_known: bool = True) -> None:
        self.secret = secret
        self.is_known = is_known

    def take(self) -> bytes | None:
        if not self.is_known:
            raise NotRunning("the Worker is not running, and what its ids are is known once it does")
        return self.secret


PLAIN = IdKey()


class DurableObjectId:
    """The id of an object: `str(id)`, `id.toString()`, `id.equals(other)`, and its `name` if it was made from one."""

    __slots__ = ("_content", "_key", "cls", "name")

    def __init__(self, cls: str, content: bytes | None, key: IdKey, name: str | None = None) -> None:
        self.cls = cls
        self.name = name
        self._content = content  # None: the name's, hashed when the secret is known
        self._key = key

    def toString(self) -> str:  # noqa: N802  the name there
        return _spell(self.cls, self.content, self._key.take())

    def equals(self, other: Any) -> bool:
        return isinstance(other, DurableObjectId) and (other.cls, other.content) == (self.cls, self.content)

    def __eq__(self, other: object) -> bool:
        return self.equals(other)

    def __hash__(self) -> int:
        return hash((self.cls, self.content))

    def __str__(self) -> str:
        return self.toString()

    def __repr__(self) -> str:
        return f"DurableObjectId({self.name or self.toString()!r})"

    @property
    def content(self) -> bytes:
        """What it is of."""
        if self._content is None:
            assert self.name is not None
            data = self.name.encode(errors="surrogatepass")
            self._content = (
                bytes([_HASHED]) + _digest(self._key.take(), f"{self.cls}\0".encode() + data)[:CONTENT_BYTES]
            )
        return self._content

    @property
    def key(self) -> str:
        """What the object is called in Wakeful."""
        data = self.content
        if data[0] == _UUID:
            return str(UUID(bytes=data[1:17]))
        return data[1 : 1 + data[0]].decode() if data[0] <= CONTENT_BYTES else self.toString()

    @property
    def is_hashed(self) -> bool:
        """Made from a name that is not in it."""
        return self._content is None or self._content[0] == _HASHED


def named_id(cls: str, name: str, key: IdKey = PLAIN) -> DurableObjectId:
    """The id of a name, the same for ever and in every process of the deployment."""
    data = name.encode(errors="surrogatepass")
    content = None
    if _HEX_UUID.fullmatch(name):
        content = bytes([_UUID]) + UUID(name).bytes.ljust(CONTENT_BYTES, b"\0")
    elif _is_readable(cls, name, data):
        content = bytes([len(data)]) + data.ljust(CONTENT_BYTES, b"\0")
    return DurableObjectId(cls, content, key, name)


def unique_id(cls: str, entropy: bytes, key: IdKey = PLAIN) -> DurableObjectId:
    """An id of its own, from that many random bytes."""
    return DurableObjectId(cls, bytes([_RANDOM]) + entropy[:CONTENT_BYTES], key)


def id_of_text(cls: str, text: str, key: IdKey = PLAIN) -> DurableObjectId:
    """The id that those digits are; its name, if it had one, is not known here."""
    if not isinstance(text, str) or not _HEX.fullmatch(text.lower()):
        raise JsTypeError("an id is 64 hexadecimal digits, as toString() gives them")
    secret, data = key.take(), bytes.fromhex(text)
    content = _veil(cls, data[:-CHECK_BYTES], secret, opens=True)
    if not compare_digest(_spell(cls, content, secret), text.lower()):
        raise JsTypeError(f"this is no id of the class {cls}")
    return DurableObjectId(cls, content, key)


def id_of_key(cls: str, name: str, key: IdKey = PLAIN) -> DurableObjectId:
    """The id of the object that Wakeful calls so."""
    if _HEX.fullmatch(name):
        return id_of_text(cls, name, key)
    return named_id(cls, name, key)


def _is_readable(cls: str, name: str, data: bytes) -> bool:
    if not 0 < len(data) <= CONTENT_BYTES:
        return False
    try:
        check_key(cls, name)
    except BadName:
        return False
    return True


def _spell(cls: str, content: bytes, secret: bytes | None) -> str:
    veiled = _veil(cls, content, secret)
    return (veiled + _digest(secret, f"id\0{cls}\0".encode() + veiled)[:CHECK_BYTES]).hex()


def _digest(secret: bytes | None, data: bytes) -> bytes:
    return (
        hashlib.sha256(data).digest() if secret is None else hashlib.blake2b(data, key=secret, digest_size=32).digest()
    )


def _veil(cls: str, content: bytes, secret: bytes | None, *, opens: bool = False) -> bytes:
    """A permutation of contents that only the secret tells, and the way back: a Feistel network over the two halves."""
    if secret is None:
        return content
    left, right = content[:_HALF], content[_HALF:]
    for number in reversed(range(_ROUNDS)) if opens else range(_ROUNDS):
        turned = left if opens else right
        mask = hashlib.blake2b(
            f"{cls}\0".encode() + turned, key=secret, digest_size=_HALF, person=b"id round %d" % number
        ).digest()
        if opens:
            left, right = bytes(a ^ b for a, b in zip(right, mask, strict=True)), left
        else:
            left, right = right, bytes(a ^ b for a, b in zip(left, mask, strict=True))
    return left + right


# Where is the secret? In an object of its own, which makes it once for the whole deployment.

CLASS = "wakeful.WorkerIds"
ALL = ObjectId(CLASS, "all")
SECRET = "secret"
SECRET_BYTES = 32


class WorkerIds:
    """Keeps what ids are made under. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def secret(self, proposed: bytes) -> bytes:
        """That of the deployment: what was proposed first. Empty: ids show what they are of."""
        kept: bytes | None = await self._ctx.storage.get(SECRET)
        if kept is None:
            await self._ctx.storage.put(SECRET, kept := proposed)
        return kept


async def learn(key: IdKey, node: "Node", classes: Collection[str]) -> None:
    """Have the secret of the deployment; make one if there is none, and no object of these classes that is older."""
    main = node if node.homes is None else node.homes.main
    data = (await main.store.read(ALL, USER, [SECRET])).get(SECRET)
    if data is not None:
        secret = decode(data)
    else:
        is_older = not set(classes).isdisjoint(await main.store.known_classes())
        proposed = b"".join(int(main.dice.random() * (1 << 48)).to_bytes(6, "big") for _ in range(6))[:SECRET_BYTES]
        secret = await main.send(ALL, SECRET, (b"" if is_older else proposed,), {})
    key.secret, key.is_known = secret or None, True
