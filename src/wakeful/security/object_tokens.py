"""Layer 5. A token for one object: what may whoever holds it do there, and until when?

It is signed and not kept: `wo_KEY.GRANT.SIGNATURE`, the grant in plain sight, the signature an HMAC-SHA-256 of all before it.
How it is signed is not for the token to say. The key is a row of the reserved object that keeps tokens, the same for every
node; with another key all that were signed under the last one are over.
"""

import base64
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any

import msgspec

from wakeful.values.errors import BadOption, BadToken, WrongScope
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wakeful.runtime.registry import ObjectClass

PREFIX = "wo_"
TEXT_MAX = 4_096  # it has to fit into a header, beside others
TTL_MAX_MS = 7 * 86_400_000
EVENTS_MAX = 100
CONNECT = "on_connect"  # in the place of a method: a WebSocket to the object
SNAPSHOT, SEND = "snapshot", "send"  # of machines: who may ask for the one may watch

_FORM = re.compile(rf"{PREFIX}([0-9A-Za-z]{{8}})\.([0-9A-Za-z_-]+)\.([0-9A-Za-z_-]{{43}})")
_SECRET = re.compile(rf"({PREFIX}[0-9A-Za-z]{{8}})\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}")


class SigningKey(msgspec.Struct, frozen=True):
    """What tokens of objects are signed under."""

    id: str
    secret: bytes


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """What the holder of a token may do with one object."""

    cls: str
    key: str
    methods: tuple[str, ...]
    events: tuple[str, ...] | None  # that may be sent to a machine; None: all
    name: str  # whom it was made for, as the object's `visible` and audit rows know them
    expires_at: int
    signed_by: str

    @property
    def object(self) -> ObjectId:
        return ObjectId(self.cls, self.key)

    def check_object(self, id: ObjectId) -> None:
        """`WrongScope` for any other."""
        if id != self.object:
            raise WrongScope(f"this token is for {self.object} alone", code="denied.object")

    def check_method(self, method: str) -> None:
        """`WrongScope` for one that it is not for."""
        if method not in self.methods:
            words = f"this token is for {', '.join(self.methods)} of {self.object}, not for {method[:60]}"
            raise WrongScope(words, code="denied.method")

    def check_event(self, method: str, args: tuple[Any, ...]) -> None:
        """`WrongScope` for an event of a type that it is not for."""
        if method != SEND or self.events is None:
            return
        event = args[0] if args else None
        type = event.get("type") if isinstance(event, dict) else event
        if type not in self.events:
            words = (
                f"this token is for the events {', '.join(self.events)} of {self.object}, not for {str(type)[:60]!r}"
            )
            raise WrongScope(words, code="denied.event")


def sign(grant: Grant, key: SigningKey) -> str:
    """The token's text."""
    payload = _spell(msgspec.json.encode(grant))
    text = _with_signature(f"{PREFIX}{key.id}.{payload}", key)
    if len(text) > TEXT_MAX:
        raise BadOption(f"a token for {grant.object} would have {len(text)} characters; name less", code="token.long")
    return text


def read(text: str, key: SigningKey | None, now: int) -> Grant:
    """What the token lets its holder do; `BadToken` for one that was not signed here, or is over."""
    parts = _FORM.fullmatch(text) if len(text) <= TEXT_MAX else None
    is_ours = parts is not None and key is not None and key.id == parts[1]
    # A token of no key is compared as well, so that it takes as long.
    signed = _with_signature(text.rpartition(".")[0], key or SigningKey("", b"nobody"))
    if not hmac.compare_digest(signed.encode(), text.encode()) or not is_ours or parts is None:
        raise BadToken("this token was not made here, or the key that signed it is gone; ask for another")
    grant = msgspec.json.decode(_unspell(parts[2]), type=Grant)
    if grant.expires_at <= now:
        raise BadToken(f"this token of {grant.object} has expired; ask for another", code="denied.expired")
    return grant


def key_id_of(text: str) -> str | None:
    """Which key signed it, as it says itself; None for what can't be a token."""
    parts = _FORM.fullmatch(text) if len(text) <= TEXT_MAX else None
    return None if parts is None else parts[1]


def is_object_token(text: str) -> bool:
    return text.startswith(PREFIX)


def hide(text: str) -> str:
    """The text without what such a token says and proves."""
    return _SECRET.sub(r"\1.…", text)


def check_grant(
    id: ObjectId,
    known: "ObjectClass | None",
    methods: "Iterable[str]",
    events: "Iterable[str] | None",
    name: str,
    ttl_ms: int,
) -> "Mapping[str, Any]":
    """The fields of a grant, or `BadOption` that says what is wrong; `known` is the class, where the program is at hand."""
    if isinstance(methods, str) or isinstance(events, str):
        raise BadOption("methods and events are lists of names, not one text", code="token.methods")
    chosen = dict.fromkeys((*methods, *(() if events is None else (SEND,))))
    if not chosen or not all(isinstance(one, str) and one for one in chosen):
        raise BadOption(f"a token for {id}: name the methods that it is for, like {SNAPSHOT}", code="token.methods")
    if known is not None:
        for method in chosen:
            if method != CONNECT:
                known.check_outside(method)
    types = None if events is None else tuple(events)
    if types is not None and not (0 < len(types) <= EVENTS_MAX and all(isinstance(one, str) and one for one in types)):
        raise BadOption(f"a token for {id}: name 1 to {EVENTS_MAX} events, or none at all", code="token.events")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadOption(f"a token for {id}: {name!r} is no name; use letters, digits, _ . @ : -", code="token.name")
    if not 1 <= ttl_ms <= TTL_MAX_MS:
        raise BadOption(f"a token for {id}: it may last from a millisecond to 7 days", code="token.ttl")
    return {"cls": id.cls, "key": id.key, "methods": tuple(chosen), "events": types, "name": name}


def _with_signature(text: str, key: SigningKey) -> str:
    return f"{text}.{_spell(hmac.new(key.secret, text.encode(), hashlib.sha256).digest())}"


def _spell(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unspell(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
