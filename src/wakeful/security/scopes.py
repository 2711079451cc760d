"""Layer 5. Who is asking, and what may they do?

Four scopes: `call` (methods of objects, jobs), `read` (look at everything, wake nothing), `operate` (pause, trigger,
redrive, drain…; sees tracebacks) and `admin` (audit rows, and all the others). `operate` implies `read`, because nobody
can operate what they can't see; it does not imply `call`.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wakeful.values.errors import BadName, BadOption, UnknownClass
from wakeful.values.ids import RESERVED, ObjectId, check_class, check_key

if TYPE_CHECKING:
    from wakeful.runtime.registry import Registry
    from wakeful.security.object_tokens import Grant
    from wakeful.security.veil import Veil


Scope = Literal["call", "read", "operate", "admin"]
SCOPES: tuple[Scope, ...] = ("call", "read", "operate", "admin")
IMPLIED: dict[str, frozenset[str]] = {
    "call": frozenset({"call"}),
    "read": frozenset({"read"}),
    "operate": frozenset({"operate", "read"}),
    "admin": frozenset(SCOPES),
}
TOKENS = "wakeful.Tokens"
AUDIT = "wakeful.Audit"
# What no door to the outside shows, not even to an admin: hashes of secrets, and rows that have a door of their own.
SECRET = frozenset({TOKENS, AUDIT, "wakeful.Keys"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who was let in: their name in audit rows, their scopes with all that these imply, and their tenant."""

    name: str
    scopes: frozenset[str]
    tenant: str | None = None  # what the keys of all objects begin with that they may know of; None: all
    token_id: str | None = None
    is_session: bool = False  # came by a browser's cookie, so that forms need a CSRF token
    session_id: str | None = None
    grant: "Grant | None" = None  # came by a token for one object, and may do nothing but that
    veil: "Veil | None" = field(default=None, compare=False, repr=False)  # of a tenant: what it sees numbers under

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    @property
    def prefix(self) -> str | None:
        """How the keys begin that a list may show; None: all."""
        return self.tenant

    def sees(self, id: ObjectId) -> bool:
        """May this caller know of the object at all?"""
        if self.grant is not None:
            return id == self.grant.object
        if id.cls.startswith(RESERVED):
            return self.tenant is None and id.cls not in SECRET
        return self.tenant is None or id.key.startswith(self.tenant)


LOCAL = Caller("local", frozenset(SCOPES))


def parse_scopes(text: str) -> tuple[Scope, ...]:
    """`call,read` as scopes in their order; `BadOption` for others, and for none."""
    wanted = {part.strip() for part in text.split(",") if part.strip()}
    unknown = sorted(wanted - set(SCOPES))
    if unknown or not wanted:
        raise BadOption(
            f"scope {unknown[0] if unknown else text!r}: give one or more of {', '.join(SCOPES)}, joined by commas",
            code="token.scope",
        )
    return tuple(scope for scope in SCOPES if scope in wanted)


def with_implied(scopes: tuple[str, ...] | list[str]) -> frozenset[str]:
    """These scopes and all that they imply."""
    return frozenset().union(*(IMPLIED.get(scope, frozenset()) for scope in scopes))


def check_tenant(tenant: str | None) -> str | None:
    """How the keys of a tenant begin, always up to a slash: `eu/` must not be `europe` as well."""
    if tenant is None:
        return None
    check_key("tenant", tenant)
    if tenant.startswith("/"):
        raise BadOption(f"tenant {tenant!r}: give the first part of the keys, like eu/", code="token.tenant")
    return tenant if tenant.endswith("/") else f"{tenant}/"


# Which objects and methods exist for callers outside?
#
# Names are held against a strict pattern before they reach anything. Dotted names are operations of Wakeful's own parts,
# names that begin with an underscore are the class's, and classes that begin with `wakeful.` are not for callers.

_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


def check_method_name(name: object) -> str:
    """A name that a method for callers outside can have, or `BadName`."""
    if not isinstance(name, str) or not _METHOD.fullmatch(name):
        raise BadName(
            f"method name {name!r:.100}: use letters, digits and '_', begin with a letter, at most 128",
            code="name.method",
        )
    return name


def check_object(cls: object, key: object) -> ObjectId:
    """An object's name that can be one, or `BadName`."""
    return ObjectId(check_class(cls), check_key(str(cls), key))


def check_call(registry: "Registry", cls: object, key: object, method: object) -> ObjectId:
    """The object whose method a caller outside may call; `BadName`, `UnknownClass` or `UnknownMethod` else."""
    id = check_object(cls, key)
    name = check_method_name(method)
    if id.cls.startswith(RESERVED) or not registry.knows(id.cls):
        raise unknown_class(registry, id.cls)
    registry.by_name(id.cls).check_outside(name)
    return id


def unknown_class(registry: "Registry", cls: str) -> UnknownClass:
    """The error for outside: Wakeful's own classes are not in it."""
    known = [name for name in registry.names() if not name.startswith(RESERVED)]
    return UnknownClass(f"there is no class {cls!r}; known: {', '.join(known[:20]) or 'none'}")
