"""Layer 5. Which tokens are there, and which of them is this one?

A token is `wk_ID_SECRET`: the id finds its record, the secret is 256 bits of chance. At rest there is only the
SHA-256 of the whole, which is enough for what nobody can guess. All records are rows of one reserved object.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, to_builtins

from wakeful.security.object_tokens import Grant, SigningKey, hide, sign
from wakeful.security.scopes import TOKENS, Scope, check_tenant, with_implied
from wakeful.store.protocol import Range, Store
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import BadName, BadOption, Conflict
from wakeful.values.ids import ObjectId
from wakeful.values.times import from_datetime

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.values.times import Dice

ALL = ObjectId(TOKENS, "all")
PREFIX = "wk_"
TOKEN, SESSION = "token:", "session:"
SIGNING = "signing"  # under which tokens for one object are signed
VEIL = "veil"  # what numbers are hidden under from tenants, on every node the same
TOKENS_MAX = 10_000
SESSIONS_MAX = 1_000  # the oldest ends when there would be more
SESSIONS_EACH_MAX = 50  # of one token, so that nobody can end the sessions of others by logging in
PAGE = 500
TOUCH_MS = 600_000  # `used_at` is known to ten minutes: a row per request would be a write per request

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(rf"{PREFIX}([0-9A-Za-z]{{8}})_([0-9A-Za-z]{{43}})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}")


class Token(Struct, frozen=True, kw_only=True):
    """What is kept of a token; nobody can make the token of it."""

    id: str
    name: str
    hash: str
    scopes: tuple[Scope, ...]
    tenant: str | None = None
    rate: float | None = None  # requests a second; None: the server's own limit
    created_at: int
    created_by: str
    expires_at: int | None = None
    revoked_at: int | None = None
    used_at: int | None = None  # to ten minutes

    def state(self, now: int) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    @property
    def all_scopes(self) -> frozenset[str]:
        return with_implied(self.scopes)


class Session(Struct, frozen=True, kw_only=True):
    """A browser that logged in: as good as its token, for some hours, and never longer than it."""

    id: str
    hash: str
    token: str  # id of the token
    expires_at: int


def spell(chance: bytes, length: int) -> str:
    """Random bytes as letters and digits."""
    number = int.from_bytes(chance, "big")
    letters = []
    for _ in range(length):
        number, rest = divmod(number, 62)
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def new_secret(prefix: str, entropy: Callable[[int], bytes]) -> tuple[str, str, str]:
    """A new secret's text, its id and its hash. The text is in nobody's hands but the caller's."""
    id = spell(entropy(8), 8)
    text = f"{prefix}{id}_{spell(entropy(32), 43)}"
    return text, id, digest(text)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def id_of(text: str) -> str | None:
    """The id in a token's text; None when it can't be one."""
    found = _TOKEN.fullmatch(text)
    return found[1] if found else None


def redact(text: str) -> str:
    """The text with the secret of every token in it taken out, so that it may go into a log."""
    return hide(_TOKEN.sub(rf"{PREFIX}\1_…", text))


def check_name(name: object) -> str:
    """A name that is safe in logs and audit rows, or `BadName`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadName(
            f"token name {name!r}: use letters, digits, '_', '.', '@', ':', '-', at most 64, and begin with a letter or digit",
            code="token.name",
        )
    return name


class Tokens:
    """Keeps the tokens and sessions of the deployment. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def create(self, fields: dict[str, Any]) -> None:
        """A new token; `Conflict` when an active one has its name. With `veil`, what tenants see numbers under if it is the first."""
        token = convert(fields, Token)
        check_name(token.name)
        check_tenant(token.tenant)
        now = from_datetime(self._ctx.now())
        if token.expires_at is not None and token.expires_at <= now:
            raise BadOption(f"token {token.name}: it would have expired already", code="token.expires")
        known = await self._all()
        if any(other.name == token.name and other.state(now) == "active" for other in known):
            raise Conflict(
                f"there is a token {token.name!r}; revoke it first (wakeful tokens revoke {token.name}), or choose another name",
                code="token.taken",
            )
        if len(known) >= TOKENS_MAX:
            ended = next(
                (one for one in sorted(known, key=lambda one: one.created_at) if one.state(now) != "active"), None
            )
            if ended is None:
                raise Conflict(
                    f"there are {len(known)} active tokens, and no more can be; revoke some", code="token.full"
                )
            await self._ctx.storage.delete(TOKEN + ended.id)
        await self._ctx.storage.put(TOKEN + token.id, to_builtins(token))
        await self._hide_under(fields.get(VEIL))

    async def revoke(self, name: str) -> list[str]:
        """End the active tokens of that name or id, and their sessions; the names with their ids."""
        now = from_datetime(self._ctx.now())
        ended = []
        for token in await self._all():
            if name in (token.name, token.id) and token.state(now) == "active":
                await self._ctx.storage.put(TOKEN + token.id, to_builtins(token) | {"revoked_at": now})
                ended.append(f"{token.name} ({token.id})")
        return ended

    async def clear(self) -> int:
        """Forget all tokens and sessions: the server is open on loopback again."""
        count = 0
        for prefix in (TOKEN, SESSION):
            while rows := await self._ctx.storage.list(prefix=prefix, limit=PAGE):
                await self._ctx.storage.delete_many(list(rows))
                count += len(rows) if prefix == TOKEN else 0
        await self._ctx.storage.delete(SIGNING)
        return count

    async def signing(self, fields: dict[str, Any], *, is_new: bool = False) -> dict[str, Any]:
        """The key that tokens for one object are signed under: this one if there is none yet, or if it is to be a new one."""
        found: dict[str, Any] | None = None if is_new else await self._ctx.storage.get(SIGNING)
        if found is None:
            found = to_builtins(convert(fields, SigningKey), builtin_types=(bytes,))
            await self._ctx.storage.put(SIGNING, found)
        return found

    async def touch(self, id: str, veil: bytes | None = None) -> None:
        """It is in use now; and what numbers are hidden under, if nothing is yet."""
        now = from_datetime(self._ctx.now())
        found = await self._ctx.storage.get(TOKEN + id)
        if found is not None and now - (found.get("used_at") or 0) >= TOUCH_MS:
            await self._ctx.storage.put(TOKEN + id, found | {"used_at": now})
            await self._hide_under(veil)

    async def login(self, fields: dict[str, Any]) -> None:
        """A new session; those that are over go."""
        session = convert(fields, Session)
        now = from_datetime(self._ctx.now())
        rows = await self._ctx.storage.list(prefix=SESSION)
        over = [key for key, row in rows.items() if row["expires_at"] <= now]
        left = sorted((row["expires_at"], key) for key, row in rows.items() if row["expires_at"] > now)
        own = [key for _, key in left if rows[key]["token"] == session.token]
        over += own[: max(0, len(own) - SESSIONS_EACH_MAX + 1)]
        left = [one for one in left if one[1] not in over]
        over += [key for _, key in left[: max(0, len(left) - SESSIONS_MAX + 1)]]
        await self._ctx.storage.delete_many(over)
        await self._ctx.storage.put(SESSION + session.id, to_builtins(session))

    async def logout(self, id: str) -> None:
        await self._ctx.storage.delete(SESSION + id)

    async def _hide_under(self, veil: bytes | None) -> None:
        if veil is not None and await self._ctx.storage.get(VEIL) is None:
            await self._ctx.storage.put(VEIL, veil)

    async def _all(self) -> list[Token]:
        return [convert(row, Token) for row in (await self._ctx.storage.list(prefix=TOKEN)).values()]


async def tokens_of(store: Store) -> list[Token]:
    """All of them, as the store has them; wakes nothing."""
    rows = await store.scan(ALL, USER, Range(TOKEN, TOKEN + "\U0010ffff"))
    return sorted((convert(decode(data), Token) for _, data in rows), key=lambda token: token.created_at)


async def token_of(store: Store, id: str) -> Token | None:
    data = (await store.read(ALL, USER, [TOKEN + id])).get(TOKEN + id)
    return None if data is None else convert(decode(data), Token)


async def veil_of(store: Store) -> bytes | None:
    """What numbers are hidden under; None before the first token was made or used."""
    data = (await store.read(ALL, USER, [VEIL])).get(VEIL)
    return None if data is None else decode(data)


async def signing_of(store: Store) -> SigningKey | None:
    """What tokens for one object are signed under; None before the first was made."""
    data = (await store.read(ALL, USER, [SIGNING])).get(SIGNING)
    return None if data is None else convert(decode(data), SigningKey)


async def issue(
    send: Callable[..., Awaitable[Any]], entropy: Callable[[int], bytes], fields: Mapping[str, Any], expires_at: int
) -> str:
    """A token for one object, with the fields that `check_grant` gave; the first makes the key that signs them all."""
    key = convert(await send(ALL, "signing", (new_signing_key(entropy),), {}), SigningKey)
    return sign(Grant(**fields, expires_at=expires_at, signed_by=key.id), key)


def new_signing_key(entropy: Callable[[int], bytes]) -> dict[str, Any]:
    """A key that nobody knows."""
    return {"id": spell(entropy(8), 8), "secret": entropy(32)}


def dice_bytes(dice: "Dice") -> Callable[[int], bytes]:
    """Random bytes of a node's own dice, which in production are the system's."""
    return lambda count: b"".join(int(dice.random() * (1 << 48)).to_bytes(6, "big") for _ in range(count // 6 + 1))[
        :count
    ]


async def session_of(store: Store, id: str) -> Session | None:
    data = (await store.read(ALL, USER, [SESSION + id])).get(SESSION + id)
    return None if data is None else convert(decode(data), Session)


async def has_tokens(store: Store) -> bool:
    """Whether any was ever made: one that expired or was revoked must not open the door."""
    return bool(await store.scan(ALL, USER, Range(TOKEN, TOKEN + "\U0010ffff", limit=1)))
