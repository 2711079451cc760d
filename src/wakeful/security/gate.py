"""Layer 5. May this request pass, and who is behind it?

Without tokens the server is open to the machine it runs on: the peer, the Host and the page that sent it must all be
of this machine. Once a token was made every request needs one, in the Authorization header or, for the dashboard's
pages, as the session that it was exchanged for. Who is refused leaves an audit row.
"""

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import to_builtins

from wakeful.security.audit import LOG
from wakeful.security.hosts import SAFE, Headers, headers_of, is_loopback, why_cross_site, why_not_local
from wakeful.security.known import Known
from wakeful.security.object_tokens import CONNECT, Grant, is_object_token
from wakeful.security.refusals import Refusals
from wakeful.security.scopes import LOCAL, SECRET, Caller, Scope, check_call, check_object
from wakeful.security.tokens import ALL, Session, Token, dice_bytes, has_tokens, id_of, new_secret, redact
from wakeful.security.veil import Veil
from wakeful.values.errors import (
    BadInput,
    BadToken,
    Denied,
    NoToken,
    NotRunning,
    TooMany,
    WakefulError,
    WrongScope,
    WrongTenant,
)
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from wakeful.deployment import Deployment
    from wakeful.runtime.node import Node


# What goes on for longer than a request: whose is it, and are they still let in?
#
# A stream or a socket was let in once. Its caller is looked at again every few seconds, once for all that they have open,
# and when their token or session is over, so is whatever they opened with it.

log = logging.getLogger("wakeful.security")

LOOK_MS = 2_000

End = Callable[[], None]


class Lasting:
    """What is open, by whom."""

    def __init__(self, is_still: Callable[["Node", Caller], Awaitable[bool]]) -> None:
        self._is_still = is_still
        self._open: dict[Caller, dict[object, End]] = {}
        self._node: Node | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def open(self, node: "Node", caller: Caller, end: End) -> Iterator[None]:
        """While the block lasts, `end` is called once the caller would not be let in any more."""
        mark = object()
        self._open.setdefault(caller, {})[mark] = end
        if self._task is None or self._task.done() or node is not self._node:
            self._node = node
            # Its own context: it belongs to no request.
            self._task = asyncio.get_running_loop().create_task(self._look(node), context=Context())
            node.keep(self._task)
        try:
            yield
        finally:
            ends = self._open.get(caller, {})
            ends.pop(mark, None)
            if not ends:
                self._open.pop(caller, None)

    async def _look(self, node: "Node") -> None:
        """Until nothing is open."""
        while self._open and not node.is_dead and node is self._node:
            await node.clock.sleep(LOOK_MS)
            for caller in list(self._open):
                try:
                    if await self._is_still(node, caller):
                        continue
                except WakefulError:  # a store that can't be read now says nothing about the token
                    continue
                ends = self._open.pop(caller, {})
                if ends:
                    words = "%s is let in no more; %d of its connections end"
                    log.info(words, caller.name, len(ends), extra={"code": "token.ended"})
                for end in ends.values():
                    end()


# How does a browser carry its session, and how does a form prove that our page made it?

COOKIE = "wakeful_session"
LENGTH_MS = 12 * 3_600_000


def cookie_of(header: bytes | None) -> str | None:
    """The session in a Cookie header; None when there is none, or more than one."""
    if not header:
        return None
    found = []
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            found.append(value)
    return found[0] if len(found) == 1 else None


def set_cookie(value: str, scope: Mapping[str, Any], *, is_secure: bool, age_s: int) -> str:
    """The Set-Cookie header: not for scripts, not for other sites, not for other paths, and over https only there."""
    path = str(scope.get("root_path") or "").rstrip("/") or "/"
    if any(char in path for char in ";, \r\n\t"):
        path = "/"
    parts = [f"{COOKIE}={value}", f"Path={path}", f"Max-Age={age_s}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if is_secure else parts)


def csrf_of(session: str) -> str:
    """What a form of this session carries; nobody can tell it who does not have the cookie."""
    return hmac.new(session.encode(), b"wakeful form", hashlib.sha256).hexdigest()


def is_csrf(session: str, given: str | None) -> bool:
    return given is not None and hmac.compare_digest(csrf_of(session).encode(), given.encode())


# Who asks more often than they may, and when may they ask again?

# Addresses and tokens that are remembered; the one not seen for longest is forgotten, and starts afresh.
KNOWN_MAX = 10_000
FREE_FAILURES = 5  # wrong tokens at the login page before an address has to wait
FIRST_WAIT_MS = 1_000
LONGEST_WAIT_MS = 300_000
FORGET_MS = 3_600_000  # an address that has not failed for that long has not failed


class Buckets:
    """Token buckets by name: each holds `burst`, fills by `rate` a second, and every request takes one."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()  # how much was left, and when

    def take(self, who: str, now: int, *, rate: float | None = None) -> float:
        """0 when this request may pass; else how many seconds until the next one may."""
        rate = self.rate if rate is None else rate
        burst = self.burst if rate == self.rate else max(1.0, rate)
        left, since = self._left.get(who, (burst, now))
        left = min(burst, left + max(0, now - since) * rate / 1000)
        passes = left >= 1
        self._left[who] = (left - 1 if passes else left, now)
        self._left.move_to_end(who)
        if len(self._left) > KNOWN_MAX:
            self._left.popitem(last=False)
        return 0.0 if passes else (1 - left) / rate


class Failures:
    """Failed logins by address: after a few of them each one makes the next wait twice as long."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[int, int]] = OrderedDict()  # how often, and when last

    def wait_s(self, who: str, now: int) -> float:
        """How long this address has to wait before it may try again; 0: not at all."""
        count, last = self._failed.get(who, (0, 0))
        if count < FREE_FAILURES or not 0 <= now - last < FORGET_MS:  # or the clock was set back
            return 0.0
        wait = min(LONGEST_WAIT_MS, FIRST_WAIT_MS << min(20, count - FREE_FAILURES))
        return max(0, last + wait - now) / 1000

    def failed(self, who: str, now: int) -> None:
        count, last = self._failed.get(who, (0, now))
        self._failed[who] = (1 if now - last >= FORGET_MS else count + 1, now)
        self._failed.move_to_end(who)
        if len(self._failed) > KNOWN_MAX:
            self._failed.popitem(last=False)


BEARER = "bearer "


class Login(NamedTuple):
    """A browser that was let in: the Set-Cookie header to answer with, who it is, and what its forms carry."""

    set_cookie: str
    caller: Caller
    csrf: str


class Asking(NamedTuple):
    """A request as the gate sees it."""

    method: str
    raw: bytes  # the path as it was sent
    peer: str | None
    headers: Headers
    is_clean: bool
    is_socket: bool

    @classmethod
    def of(cls, connection: "HTTPConnection") -> "Asking":
        scope = connection.scope
        headers, is_clean = headers_of(scope)
        client = scope.get("client")
        is_socket = scope.get("type") == "websocket"
        method = "GET" if is_socket else str(scope.get("method", "GET"))
        raw = scope.get("raw_path") or str(scope.get("path", "")).encode()
        return cls(method, raw, client[0] if client else None, headers, is_clean, is_socket)

    @property
    def words(self) -> str:
        target = redact(self.raw.partition(b"?")[0].decode("latin-1"))
        return f"{'WEBSOCKET' if self.is_socket else self.method} {target}"


def too_open(host: str) -> NoToken:
    """Of a server that would listen there though nobody needs a token."""
    return NoToken(
        f"no token was made yet, so the server only listens on this machine, not on {host or 'all addresses'}; "
        "make one: wakeful tokens create NAME --scope admin",
        code="denied.open",
    )


class Gate:
    """Lets callers in, or says why not. One for each server."""

    def __init__(
        self,
        deployment: "Deployment",
        *,
        origins: Sequence[str] = (),
        token_rate: float = 20_000,
        address_rate: float = 20_000,
        refused_rate: float = 20,
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        """`origins` are those of pages that may write although the server has another name (`https://ops.example.com`).

        Rates are requests a second, of one token, of one address, and of those that are refused from one address.
        """
        self._deployment = deployment
        self._origins = frozenset(origins)
        self._tokens = Buckets(token_rate, token_rate)
        self._addresses = Buckets(address_rate, address_rate)
        self._refused = Buckets(refused_rate, 5 * refused_rate)
        self._failures = Failures()
        self._refusals = Refusals()
        self._lasting = Lasting(self._is_still)
        self._entropy = entropy or self._dice
        self._known = Known(self._entropy)

    # requests

    async def admit(
        self,
        connection: "HTTPConnection",
        scope: Scope | None,
        id: ObjectId | None = None,
        *,
        csrf: str | None = None,
        wide: bool = False,
        is_lenient: bool = False,
        takes_grants: bool = False,
    ) -> Caller:
        """Who asks, if they have the scope (None: whichever) and may know of the object; a `Denied` else, with an audit row.

        `csrf` is the field of a form, which a session's writing requests need (or the header X-CSRF-Token).
        `wide` is for what is about the whole deployment: nobody who is bound to a tenant may. `is_lenient` lets in whom
        the store would have let in some minutes ago, while it does not answer. `takes_grants` lets in who has a token for one
        object; whoever asks for it has the object and the method checked.
        """
        node = self._node()
        asking = Asking.of(connection)
        actor = f"address:{asking.peer}"
        try:
            self._check_address(node, asking)
            caller = await self._caller(node, asking, csrf, is_lenient=is_lenient)
            actor = caller.name
            if caller.grant is not None and not takes_grants:
                raise WrongScope(f"this token is for {caller.grant.object} alone, not for this", code="denied.object")
            if scope is not None:
                _check_scope(caller, scope)
            _check_sight(caller, id, wide=wide)
        except Denied as error:
            await self._refuse(node, asking, actor, error)
            self._check_refused(node, asking, error)
            raise
        return caller

    def knows(self, connection: "HTTPConnection") -> bool:
        """Whether to admit this one asks nothing of the store, because it was asked just now."""
        text = Asking.of(connection).headers.get(b"authorization")
        try:
            id = None if text is None else id_of(_bearer(text))
        except Denied:
            return False
        return self._known.is_fresh(self._node(), id)

    async def check_exposed(
        self, connection: "HTTPConnection", caller: Caller, cls: str, key: str, method: str
    ) -> ObjectId:
        """The object whose method this caller may call; names that can't be, and methods that are not for callers, leave an audit row."""
        try:
            if caller.grant is not None:  # before anything is said of other classes
                caller.grant.check_object(check_object(cls, key))
                caller.grant.check_method(method)
            id = check_call(self._deployment.registry, cls, key, method)
            _check_sight(caller, id, wide=False)
        except (BadInput, Denied) as error:
            await self.refuse(connection, caller, error)
            raise
        return id

    async def check_named(self, connection: "HTTPConnection", caller: Caller, cls: str, key: str) -> ObjectId:
        """The object of that name, if it can be one and this caller may know of it; an audit row else."""
        try:
            id = check_object(cls, key)
            _check_sight(caller, id, wide=False)
        except (BadInput, Denied) as error:
            await self.refuse(connection, caller, error)
            raise
        return id

    async def check_connect(self, connection: "HTTPConnection", caller: Caller) -> None:
        """Whether this caller may have a WebSocket to the object that it may know of."""
        await self._check_granted(connection, caller, lambda grant: grant.check_method(CONNECT))

    async def check_sent(
        self, connection: "HTTPConnection", caller: Caller, method: str, args: tuple[Any, ...]
    ) -> None:
        """Whether this caller may send the event that a machine's `send` was given."""
        await self._check_granted(connection, caller, lambda grant: grant.check_event(method, args))

    async def _check_granted(
        self, connection: "HTTPConnection", caller: Caller, check: Callable[[Grant], None]
    ) -> None:
        if caller.grant is None:
            return
        try:
            check(caller.grant)
        except Denied as error:
            await self.refuse(connection, caller, error)
            raise

    async def refuse(self, connection: "HTTPConnection", caller: Caller | None, error: WakefulError) -> None:
        """Leave an audit row of a refusal that somebody else decided on."""
        asking = Asking.of(connection)
        actor = f"address:{asking.peer}" if caller is None else caller.name
        await self._refuse(self._node(), asking, actor, error)

    @cached_property
    def veil(self) -> Veil:
        """What numbers are given out under that would tell a tenant of others; another one in each process."""
        return Veil(self._entropy(32))

    async def is_open(self) -> bool:
        """Nobody ever made a token, so whoever is on this machine may do everything."""
        return await self._known.is_open(self._node())

    def lasting(self, caller: Caller, end: End) -> AbstractContextManager[None]:
        """Around what lasts longer than a request: `end` is called within seconds once the caller is let in no more."""
        return self._lasting.open(self._node(), caller, end)

    # sessions

    async def login(self, connection: "HTTPConnection", text: str) -> Login:
        """Exchange a token for a session of twelve hours that ends with its token; `Denied` and an audit row else."""
        node = self._node()
        asking = Asking.of(connection)
        address = asking.peer or "unknown"
        now = node.clock.now()
        try:
            self._check_address(node, asking)
            self._check_same_site(asking)
            try:
                token = await self._known.token(node, text.strip())
            except BadToken:
                self._check_failed(address, now)
                raise
        except Denied as error:
            await self._refuse(node, asking, f"address:{asking.peer}", error)
            raise
        value, id, hashed = new_secret("", self._entropy)
        ends_at = min(now + LENGTH_MS, token.expires_at or now + LENGTH_MS)
        session = Session(id=id, hash=hashed, token=token.id, expires_at=ends_at)
        await node.send(LOG, "visit", (_caller(token).name, "login", address), {})
        await node.send(ALL, "login", (to_builtins(session),), {})
        is_secure = connection.scope.get("scheme") == "https" or asking.headers.get(b"origin", b"").startswith(
            b"https:"
        )
        header = set_cookie(value, connection.scope, is_secure=is_secure, age_s=(ends_at - now) // 1000)
        return Login(header, _caller(token, session), csrf_of(value))

    async def logout(self, connection: "HTTPConnection", *, csrf: str | None = None) -> str:
        """End the session of this browser; the Set-Cookie header that takes its cookie away."""
        node = self._node()
        asking = Asking.of(connection)
        value = cookie_of(asking.headers.get(b"cookie"))
        if value is not None:
            try:
                caller = await self._caller(node, asking, csrf)
                await node.send(LOG, "visit", (caller.name, "logout", asking.peer or "unknown"), {})
                await node.send(ALL, "logout", (value.partition("_")[0],), {})
                self._known.forget()
            except Denied as error:
                if error.code in ("denied.csrf", "denied.site"):  # else the session is over already
                    await self._refuse(node, asking, f"address:{asking.peer}", error)
                    raise
        return set_cookie("", connection.scope, is_secure=connection.scope.get("scheme") == "https", age_s=0)

    def csrf(self, connection: "HTTPConnection") -> str:
        """What the forms of a page for this browser carry; empty when it has no session."""
        value = cookie_of(Asking.of(connection).headers.get(b"cookie"))
        return "" if value is None else csrf_of(value)

    # where it may listen

    async def check_bind(self, host: str) -> None:
        """`NoToken` when a server without tokens would listen beyond this machine."""
        node = self._node()
        if not is_loopback(host.strip("[]")) and not await has_tokens(node.store):
            raise too_open(host)

    # below

    def _node(self) -> "Node":
        node = self._deployment.node
        if node is None:
            raise NotRunning("the app is not running, so nobody can be let in")
        return node

    async def _caller(self, node: "Node", asking: Asking, csrf: str | None, *, is_lenient: bool = False) -> Caller:
        if not asking.is_clean:
            raise BadToken("a header that must be there once is there twice", code="denied.headers")
        text = asking.headers.get(b"authorization")
        if text is not None and is_object_token(_bearer(text)):
            return await self._grantee(node, _bearer(text))
        if await self._known.is_open(node, is_lenient=is_lenient):
            return self._local(asking)
        if text is not None:
            token = await self._known.token(node, _bearer(text), is_lenient=is_lenient)
            caller = _caller(token)
        else:
            value = cookie_of(asking.headers.get(b"cookie"))
            if value is None:
                raise NoToken("a token is needed: Authorization: Bearer wk_…, made by `wakeful tokens create`")
            self._check_same_site(asking)
            session, token = await self._known.session(node, value)
            caller = _caller(token, session)
            is_write = asking.method not in SAFE
            if is_write and not is_csrf(value, csrf or asking.headers.get(b"x-csrf-token", b"").decode("latin-1")):
                raise BadToken("the form is of another session; load the page again", code="denied.csrf")
        wait_s = self._tokens.take(token.id, node.clock.now(), rate=token.rate)
        if wait_s:
            raise TooMany(f"token {token.name} asks too often; try again in {wait_s:.1f} s", retry_after_s=wait_s)
        self._known.touch(node, token)
        if caller.tenant is not None and not is_lenient:
            return replace(caller, veil=await self._known.veil(node, caller.tenant))
        return caller

    async def _grantee(self, node: "Node", text: str) -> Caller:
        """Who has a token for one object; all who have one for the same object share its rate."""
        grant = await self._known.grant(node, text)
        mark = f"object:{grant.object}"
        wait_s = self._tokens.take(mark, node.clock.now())
        if wait_s:
            raise TooMany(f"{grant.object} is asked for too often; try again in {wait_s:.1f} s", retry_after_s=wait_s)
        return Caller(f"object:{grant.name}", frozenset({"call"}), token_id=mark, grant=grant)

    async def _is_still(self, node: "Node", caller: Caller) -> bool:
        if caller.grant is not None:
            return await self._known.is_granted(node, caller.grant)
        if caller.token_id is None:
            return await self._known.is_open(node)
        return await self._known.is_alive(node, caller.token_id, caller.session_id)

    def _local(self, asking: Asking) -> Caller:
        because = why_not_local(asking.peer, asking.headers)
        if because is not None:
            raise NoToken(
                f"no token was made yet, so only this machine is let in, and {because}; wakeful tokens create NAME",
                code="denied.remote",
            )
        self._check_same_site(asking)
        return LOCAL

    def _check_same_site(self, asking: Asking) -> None:
        because = why_cross_site(
            asking.headers, method=asking.method, is_socket=asking.is_socket, origins=self._origins
        )
        if because is not None:
            raise Denied(f"this request is not of our own pages: {because}", code="denied.site")

    def _check_failed(self, address: str, now: int) -> None:
        """A wrong token: `TooMany` when its address has to wait. With a right one nobody waits, or strangers behind the same proxy would lock all others out."""
        wait_s = self._failures.wait_s(address, now)
        if wait_s:
            words = "too many wrong tokens from this address; wait"
            raise TooMany(words, retry_after_s=wait_s, code="denied.login")
        self._failures.failed(address, now)

    def _check_address(self, node: "Node", asking: Asking) -> None:
        wait_s = self._addresses.take(asking.peer or "unknown", node.clock.now())
        if wait_s:
            raise TooMany("too many requests from this address", retry_after_s=wait_s)

    def _check_refused(self, node: "Node", asking: Asking, error: Denied) -> None:
        """Those who are refused all the time are told to wait instead of why."""
        wait_s = self._refused.take(asking.peer or "unknown", node.clock.now())
        if wait_s and not isinstance(error, TooMany):
            raise TooMany("refused too often; wait", retry_after_s=wait_s, code="denied.refused") from error

    async def _refuse(self, node: "Node", asking: Asking, actor: str, error: WakefulError) -> None:
        await self._refusals.add(
            node, code=error.code, actor=actor, act="request", target=asking.words, why=redact(error.message)
        )

    def _dice(self, count: int) -> bytes:
        """Of the node that runs now."""
        return dice_bytes(self._node().dice)(count)


def _caller(token: Token, session: Session | None = None) -> Caller:
    about = (token.all_scopes, token.tenant, token.id)
    return Caller(f"token:{token.name}", *about, session is not None, None if session is None else session.id)


def _bearer(header: bytes) -> str:
    text = header.decode("latin-1")
    return text[len(BEARER) :].strip() if text[: len(BEARER)].lower() == BEARER else ""


def _check_scope(caller: Caller, scope: str) -> None:
    if not caller.may(scope):
        raise WrongScope(
            f"{caller.name} may not do this: it needs the scope {scope}, and has {', '.join(sorted(caller.scopes))}"
        )


def _check_sight(caller: Caller, id: ObjectId | None, *, wide: bool) -> None:
    if wide and caller.tenant is not None:
        raise WrongTenant(f"{caller.name} is bound to {caller.tenant}, and this is about the whole deployment")
    if id is None or caller.sees(id):
        return
    if caller.grant is not None:
        caller.grant.check_object(id)
    if id.cls in SECRET:
        raise WrongScope(f"{id.cls} is Wakeful's own and shown to nobody", code="denied.reserved")
    raise WrongTenant(f"{caller.name} is bound to {caller.tenant}, and {id} is not of it")
