"""Layer 5. With whom does a request share the server? Known before anybody is let in, and better afterwards.

Tokens that are bound to a tenant share what the tenant has, a token of no tenant is for itself, and whoever has shown
none that is good is one of the strangers, who share by their addresses. Nobody can be taken for another: which house a
token is of is remembered once it was let in, under the hash of all of it.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wakeful.policy.shares import Asker
from wakeful.values.ids import tenant_of

if TYPE_CHECKING:
    from wakeful.security.scopes import Caller

KNOWN_MAX = 4_096  # one that is forgotten is one of the strangers for one request
STRANGERS = "strangers"


class Askers:
    """Whose requests these are."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Asker] = OrderedDict()

    def guess(self, scope: Mapping[str, Any]) -> Asker:
        """Before it is looked at: whose token it is, if that was good when it was last seen."""
        mark = _mark(scope)
        found = None if mark is None else self._known.get(mark)
        return Asker(STRANGERS, address_of(scope)) if found is None else found

    def met(self, scope: Mapping[str, Any], caller: "Caller") -> None:
        """It was let in."""
        mark = None if caller.token_id is None else _mark(scope)
        if mark is None or mark in self._known:
            return
        self._known[mark] = asker_of(caller)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def asker_of(caller: "Caller", key: str | None = None) -> Asker:
    """Somebody who was let in, and asks for the object of that key: one tenant of many must not take what all of them share."""
    token = caller.token_id or ""
    house = caller.tenant or (f"token:{token}" if token else caller.name)
    return Asker(house, token if key is None else f"{token}:{tenant_of(key)}")


def address_of(scope: Mapping[str, Any]) -> str:
    """From where it came."""
    client = scope.get("client")
    return client[0] if client else ""


def _mark(scope: Mapping[str, Any]) -> bytes | None:
    """What stands for the secret that came along."""
    for name, value in scope["headers"]:
        if name in (b"authorization", b"cookie"):
            return hashlib.sha256(value).digest()
    return None
