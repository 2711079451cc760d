"""Layer 5. Which token or session is behind this secret, as of at most a second ago?

The server asks the store for each secret once a second, not once a request; so one that is revoked is refused within
a second on every node. What is unknown is remembered as well, so that trying costs the store nothing. For the page of
metrics alone, which must tell of a store that is away, what the store said last stands for some minutes (`is_lenient`).
"""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from wakeful.security import object_tokens
from wakeful.security.object_tokens import Grant, SigningKey
from wakeful.security.patience import within
from wakeful.security.tokens import (
    ALL,
    TOUCH_MS,
    Session,
    Token,
    digest,
    has_tokens,
    id_of,
    session_of,
    signing_of,
    token_of,
    veil_of,
)
from wakeful.security.veil import Veil
from wakeful.values.errors import BadToken, Unavailable, WakefulError

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

KEEP_MS = 1_000
RECENT_MS = 100  # how long a key is believed that some token does not name: strangers can't ask the store more often
KNOWN_MAX = 4_096
LATELY_MS = 900_000  # how old an answer may be that stands for a store which does not answer
PATIENCE_MS = 500  # how long such a store is waited for
SILENT_MS = 5_000  # and for how long it is not asked again

T = TypeVar("T")
_NOTHING = digest("")  # what a secret of no record is compared with, so that it takes as long


class KnownAnswer(NamedTuple):
    """What the store said, and when."""

    at: int
    token: Token | None
    session: Session | None


class Known:
    """What a server knows of the tokens and sessions in its store."""

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy = entropy
        self._kept: OrderedDict[str, KnownAnswer] = OrderedDict()
        self._open: tuple[int, bool] | None = None  # when asked, whether there were none
        self._signing: tuple[int, SigningKey | None] | None = None
        self._touched: dict[str, int] = {}
        self._silent_at: int | None = None  # when the store was last waited for in vain
        self._own: bytes | None = None  # until there is one in the store
        self._secret: bytes | None = None
        self._secret_at: int | None = None
        self._veils: dict[str, Veil] = {}

    async def is_open(self, node: "Node", *, is_lenient: bool = False) -> bool:
        """Nobody ever made a token here."""
        now, kept = node.clock.now(), self._open
        if kept is None or not 0 <= now - kept[0] < KEEP_MS:
            kept = await self._anew(node, self._ask_open, kept, is_lenient=is_lenient)
        return kept[1]

    def is_fresh(self, node: "Node", id: str | None) -> bool:
        """Whether it is known without asking that there are no tokens, or what this one is."""
        now = node.clock.now()
        if self._open is None or not 0 <= now - self._open[0] < KEEP_MS:
            return False
        kept = None if id is None else self._kept.get(f"token:{id}")
        return self._open[1] or (kept is not None and 0 <= now - kept.at < KEEP_MS)

    async def token(self, node: "Node", text: str, *, is_lenient: bool = False) -> Token:
        """The token of that text, which is active; `BadToken` else."""
        id = id_of(text)
        token = None if id is None else (await self._get(node, f"token:{id}", is_lenient=is_lenient)).token
        is_same = hmac.compare_digest(_NOTHING if token is None else token.hash, digest(text))
        if token is None or not is_same:
            raise BadToken("this token is not known here; `wakeful tokens list` shows those that are")
        return self._active(node, token)

    async def grant(self, node: "Node", text: str) -> Grant:
        """What the token for one object is for; `BadToken` for one that is not, or no more."""
        id, key = object_tokens.key_id_of(text), await self._signing_key(node, KEEP_MS)
        if id is not None and (key is None or key.id != id):  # it may have been made since, elsewhere
            key = await self._signing_key(node, RECENT_MS)
        return object_tokens.read(text, key, node.clock.now())

    async def is_granted(self, node: "Node", grant: Grant) -> bool:
        """It is not over, and neither is the key that signed it."""
        key = await self._signing_key(node, KEEP_MS)
        return key is not None and key.id == grant.signed_by and grant.expires_at > node.clock.now()

    async def session(self, node: "Node", text: str) -> tuple[Session, Token]:
        """The session of that cookie and its token, both alive; `BadToken` else."""
        id = text.partition("_")[0]
        session = (await self._get(node, f"session:{id}")).session if id.isalnum() and len(id) == 8 else None
        is_same = hmac.compare_digest(_NOTHING if session is None else session.hash, digest(text))
        if session is None or not is_same or session.expires_at <= node.clock.now():
            raise BadToken("this session is over; log in again", code="denied.session")
        token = (await self._get(node, f"token:{session.token}")).token
        if token is None:
            raise BadToken("the token of this session is gone; log in again", code="denied.session")
        return session, self._active(node, token)

    async def is_alive(self, node: "Node", token_id: str, session_id: str | None) -> bool:
        """The token is active, and so is the session, if there is one."""
        now = node.clock.now()
        if session_id is not None:
            session = (await self._get(node, f"session:{session_id}")).session
            if session is None or session.expires_at <= now:
                return False
        token = (await self._get(node, f"token:{token_id}")).token
        return token is not None and token.state(now) == "active"

    async def veil(self, node: "Node", tenant: str) -> Veil:
        """What that tenant sees numbers under."""
        now = node.clock.now()
        if self._secret is None and (self._secret_at is None or not 0 <= now - self._secret_at < KEEP_MS):
            self._secret, self._secret_at = await node.reading(veil_of(node.store)), now
            self._veils.clear()
        veil = self._veils.get(tenant)
        if veil is None:
            if len(self._veils) > KNOWN_MAX:
                self._veils.clear()
            key = blake2b(tenant.encode(), digest_size=32, key=self._secret or self._spare()).digest()
            veil = self._veils[tenant] = Veil(key)
        return veil

    def _spare(self) -> bytes:
        """What tokens hide numbers under that are older than hiding is; one that is used leaves it in the store."""
        if self._own is None:
            self._own = self._entropy(32)
        return self._own

    def forget(self) -> None:
        """Ask anew: something changed through this very process."""
        self._kept.clear()
        self._open = self._signing = None

    def touch(self, node: "Node", token: Token) -> None:
        """Note that it is in use, now and then and behind the request's back."""
        now = node.clock.now()
        last = max(self._touched.get(token.id, 0), token.used_at or 0)
        if now - last >= TOUCH_MS:
            if len(self._touched) > KNOWN_MAX:
                self._touched.clear()
            self._touched[token.id] = now
            spare = self._spare() if self._secret is None else None
            node.keep(asyncio.get_running_loop().create_task(_touch(node, token.id, spare)))

    def _active(self, node: "Node", token: Token) -> Token:
        state = token.state(node.clock.now())
        if state != "active":
            raise BadToken(
                f"token {token.name} ({token.id}) is {state}; make another: wakeful tokens create {token.name}",
                code=f"denied.{state}",
            )
        return token

    async def _signing_key(self, node: "Node", keep_ms: int) -> SigningKey | None:
        now, kept = node.clock.now(), self._signing
        if kept is None or not 0 <= now - kept[0] < keep_ms:
            kept = self._signing = (now, await node.reading(signing_of(node.store)))
        return kept[1]

    async def _get(self, node: "Node", key: str, *, is_lenient: bool = False) -> KnownAnswer:
        now, kept = node.clock.now(), self._kept.get(key)
        if kept is None or not 0 <= now - kept.at < KEEP_MS:
            kept = await self._anew(node, lambda node: self._ask(node, key), kept, is_lenient=is_lenient)
        return kept

    async def _ask(self, node: "Node", key: str) -> KnownAnswer:
        now = node.clock.now()
        kind, _, id = key.partition(":")
        token = await node.reading(token_of(node.store, id)) if kind == "token" else None
        session = await node.reading(session_of(node.store, id)) if kind == "session" else None
        kept = self._kept[key] = KnownAnswer(now, token, session)
        self._kept.move_to_end(key)
        if len(self._kept) > KNOWN_MAX:
            self._kept.popitem(last=False)
        return kept

    async def _ask_open(self, node: "Node") -> tuple[int, bool]:
        now = node.clock.now()
        self._open = kept = (now, not await node.reading(has_tokens(node.store)))
        return kept

    async def _anew(
        self, node: "Node", ask: Callable[["Node"], Coroutine[Any, Any, T]], last: T | None, *, is_lenient: bool
    ) -> T:
        """What the store says; `is_lenient`: what it said last, if that is not long ago and it does not answer now."""
        now = node.clock.now()
        if not is_lenient or last is None or not 0 <= now - last[0] < LATELY_MS:  # type: ignore[index]
            return await ask(node)
        is_silent = self._silent_at is not None and 0 <= now - self._silent_at < SILENT_MS
        if node.state != "up" or is_silent:
            return last
        asked = await within(node, ask(node), PATIENCE_MS)
        if not asked.done():
            self._silent_at = now
            return last
        return last if isinstance(asked.exception(), Unavailable) else asked.result()


async def _touch(node: "Node", id: str, veil: bytes | None) -> None:
    with suppress(WakefulError):  # it is known to ten minutes at best; a request after as long tries again
        await node.send(ALL, "touch", (id, veil), {})
