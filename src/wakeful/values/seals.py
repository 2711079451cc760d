"""Layer 0. How do bytes become unreadable to whoever has no key, and the same again to whoever has?

AES-256-GCM. A sealed value begins with four bytes that no plain one can begin with, then come the id of its key, a
salt, a nonce, and the sealed bytes with their tag. What a value belongs to (`about`) is sealed in with it, so that one
row can't be put in the place of another. Each process seals under keys of its own, made of the key and the salt: chance
nonces under one key would meet each other after some billions of rows.
"""

import base64
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from wakeful.values.errors import BadOption, MissingExtra, NoKey, Undecodable

MAGIC = b"\xc1wk\x01"  # MessagePack has no use for 0xc1, and a plain value begins with its version
KEY_PREFIX = "wkk_"
ID, SALT, NONCE, TAG = 4, 8, 12, 16
HEAD = len(MAGIC) + ID + SALT + NONCE
OVERHEAD = HEAD + TAG  # what a sealed value has more than the plain one
SALT_USES_MAX = 1 << 20  # values sealed under one salt; two nonces among so many meet once in 2^57
OPENERS_MAX = 1_024  # salts whose keys are kept: one for each process that wrote, and a million rows
FOREIGN = MAGIC + bytes(ID)  # stands for a value that was not sealed in a store where all are
TEXT_MARK = "sealed:wk1:"

_KEY = re.compile(rf"{KEY_PREFIX}([0-9a-f]{{64}})")


class KeyRing:
    """The keys of a deployment: the newest seals, all of them open."""

    def __init__(self, keys: Iterable[bytes], entropy: Callable[[int], bytes]) -> None:
        """`keys` have 32 bytes each, the newest first. `entropy` must be the system's own."""
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingExtra(
                "cryptography is not installed; sealing values needs it: pip install 'wakeful[encryption]'"
            ) from None
        self._aes: Callable[[bytes], Any] = AESGCM
        self._invalid: type[Exception] = InvalidTag
        self._keys = {key_id(key): key for key in keys}
        if not self._keys:
            raise BadOption("a key ring without keys; make one: wakeful keys new", code="keys.none")
        self._newest = next(iter(self._keys))
        self._entropy = entropy
        self._openers: OrderedDict[bytes, Any] = OrderedDict()
        self._uses = SALT_USES_MAX
        self._head = b""
        self._sealer: Any = None

    @property
    def ids(self) -> list[str]:
        """The ids of the keys, the newest first."""
        return [id.hex() for id in self._keys]

    def seal(self, data: bytes, about: bytes) -> bytes:
        """The bytes, for the holders of the newest key and this place only."""
        if self._uses >= SALT_USES_MAX:
            self._renew()
        self._uses += 1
        nonce = self._entropy(NONCE)
        sealed: bytes = self._sealer.encrypt(nonce, data, about)
        return self._head + nonce + sealed

    def open(self, data: bytes, about: bytes) -> bytes:
        """What was sealed for this place; `NoKey` without its key, `Undecodable` when it is of another place or changed."""
        head = data[len(MAGIC) : len(MAGIC) + ID + SALT]
        opener = self._openers.get(head)
        if opener is None:
            opener = self._opener(head)
        start = HEAD - NONCE
        try:
            plain: bytes = opener.decrypt(data[start:HEAD], data[HEAD:], about)
        except (self._invalid, ValueError):  # ValueError: too little is left of it to be tried
            raise Undecodable(
                "a sealed value was changed, or moved here from another place; restore it from a backup",
                code="seal.broken",
            ) from None
        return plain

    def is_fresh(self, data: bytes) -> bool:
        """Sealed, and with the newest key."""
        return data[: len(MAGIC) + ID] == MAGIC + self._newest

    def _renew(self) -> None:
        salt = self._entropy(SALT)
        self._head = MAGIC + self._newest + salt
        self._sealer = self._opener(self._newest + salt)
        self._uses = 0

    def _opener(self, head: bytes) -> Any:
        key = self._keys.get(head[:ID])
        if key is None:
            raise NoKey(
                f"this value is sealed with key {head[:ID].hex()}, which is not in the ring ({', '.join(self.ids)}); "
                "add it to $WAKEFUL_KEYS"
            )
        opener = self._aes(hmac.digest(key, b"wakeful seal 1" + head[ID:], "sha256"))
        self._openers[head] = opener
        if len(self._openers) > OPENERS_MAX:
            self._openers.popitem(last=False)
        return opener


def is_sealed(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC and len(data) >= OVERHEAD


def why_not(data: bytes) -> Undecodable | NoKey:
    """What to say of a sealed value that came out of the store as it went in."""
    if data == FOREIGN:
        return Undecodable(
            "a value is not sealed in a store where all are, so Wakeful did not write it; restore it from a backup",
            code="seal.plain",
        )
    return NoKey(
        f"a value is sealed with key {id_of(data)} and does not open: add that key to $WAKEFUL_KEYS; if it is there, "
        "the value was changed, or moved from another place: restore it from a backup",
        code="seal.broken",
    )


def id_of(data: bytes) -> str:
    """The id of the key that a sealed value needs."""
    return data[len(MAGIC) : len(MAGIC) + ID].hex()


def key_id(key: bytes) -> bytes:
    """What a key is called; nobody can tell the key from it."""
    return hashlib.sha256(b"wakeful key id" + key).digest()[:ID]


def spelled_key(key: bytes) -> str:
    return KEY_PREFIX + key.hex()


def parse_keys(text: str) -> list[bytes]:
    """Keys in a text, the newest first: one a line or separated by commas or spaces; what follows a # is a remark."""
    keys = []
    for line in text.splitlines():
        for word in re.split(r"[,\s]+", line.partition("#")[0].strip()):
            if word and (match := _KEY.fullmatch(word)):
                keys.append(bytes.fromhex(match[1]))
            elif word:
                raise BadOption(
                    f"a key of the ring can't be one: it has {len(word)} characters and should be {KEY_PREFIX} and 64 "
                    "hexadecimal digits, as `wakeful keys new` makes them",
                    code="keys.text",
                )
    if not keys:
        raise BadOption("the key ring has no keys; make one: wakeful keys new", code="keys.none")
    return keys


def seal_text(ring: KeyRing, text: str, about: bytes) -> str:
    """Text for people, sealed, as text that every store can hold."""
    return TEXT_MARK + base64.b64encode(ring.seal(text.encode("utf-8", "surrogatepass"), about)).decode()


def is_fresh_text(ring: KeyRing, text: str) -> bool:
    """Sealed, and with the newest key."""
    return text.startswith(TEXT_MARK) and ring.is_fresh(_text_bytes(text))


def open_text(ring: KeyRing, text: str, about: bytes) -> str:
    """The text that was sealed; a plain one as it is, and of one that does not open only that it does not."""
    data = _text_bytes(text)
    if not is_sealed(data):
        return text
    try:
        return ring.open(data, about).decode("utf-8", "surrogatepass")
    except NoKey:
        return f"(sealed with key {id_of(data)}, which is not in the ring)"
    except Undecodable:
        return "(sealed, and does not open: it was changed, or moved here from another place)"


def text_anew(ring: KeyRing, text: str, about: bytes) -> str | None:
    """The text under the newest key; None when it does not open."""
    data = _text_bytes(text)
    try:
        plain = ring.open(data, about).decode("utf-8", "surrogatepass") if is_sealed(data) else text
    except (NoKey, Undecodable):
        return None
    return seal_text(ring, plain, about)


def _text_bytes(text: str) -> bytes:
    """The sealed bytes in a sealed text; empty when it has none."""
    if not text.startswith(TEXT_MARK):
        return b""
    try:
        return base64.b64decode(text[len(TEXT_MARK) :], validate=True)
    except ValueError:
        return b""
