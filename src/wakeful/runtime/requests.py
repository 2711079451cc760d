"""Layer 3. Has this request been answered before?"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from wakeful.runtime.calls import Call
from wakeful.values.codec import decode, encode
from wakeful.values.commits import Remembered
from wakeful.values.errors import BadOption, KeyTaken
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

REQUEST_KEY_BYTES_MAX = 255


def check_request_key(key: object) -> str:
    """A request key that every store can hold and an HTTP header can carry."""
    if not isinstance(key, str) or not key or not key.isprintable() or len(key.encode()) > REQUEST_KEY_BYTES_MAX:
        raise BadOption(
            f"request key {key!r} must be 1 to {REQUEST_KEY_BYTES_MAX} bytes of printable text", code="request.key.form"
        )
    return key


def fingerprint(call: Call) -> bytes:
    """Which call it is: the same key for another one is a mistake."""
    return blake2b(encode([call.method, list(call.args), dict(sorted(call.kwargs.items()))]), digest_size=16).digest()


def recalled(id: ObjectId, kept: Remembered, print_: bytes) -> Any:
    """The remembered answer, `KeyTaken` when the key belongs to another call."""
    if kept.fingerprint != print_:
        raise KeyTaken(f"{id}: request key {kept.key!r} was used for another method or other arguments; use a new key")
    return decode(kept.answer)


def remembered(node: "Node", key: str, print_: bytes, result: Any) -> Remembered:
    """The answer as it is kept with the turn, for as long as a repeat may come."""
    return Remembered(key, print_, encode(result), node.clock.now() + node.limits.request_keep_ms)
