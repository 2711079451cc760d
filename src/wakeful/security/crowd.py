"""Layer 5. With whom does a request share the server, who waits, and what is somebody told who finds no place?"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wakeful.policy.shares import Asker, Rounds, Shares, Verdict
from wakeful.values.errors import TooMany, Unavailable, WakefulError
from wakeful.values.ids import tenant_of

if TYPE_CHECKING:
    from wakeful.deployment import Deployment
    from wakeful.security.scopes import Caller


log = logging.getLogger("wakeful.http")

SHARE = "server.share"
BUSY = "server.busy"
RETRY_S = 1.0
LOG_EVERY_MS = 60_000
NAMES_MAX = 1_000  # of those who were told of in the last minute


class Crowding:
    """Refuses those for whom there is no place, and says in the log, once a minute, who had more than others."""

    def __init__(self, deployment: "Deployment") -> None:
        self._deployment = deployment
        self._told: OrderedDict[str, int] = OrderedDict()
        self.refused = 0

    def refusal(self, verdict: Verdict, what: str, shares: Shares, asker: Asker) -> WakefulError:
        """The error for who has its share already, or for whom there is nothing left; nothing was done either way."""
        self.refused += 1
        self._tell(verdict, what, shares, asker)
        if verdict is Verdict.FULL:
            return Unavailable(f"all {shares.places:,} places for {what} are taken; try again", code=BUSY)
        words = (
            f"you have {shares.count_of(asker.house):,} of {shares.places:,} places for {what}, and the rest is kept for others; "
            "wait until some of yours are free, ask for less at once, or use jobs for what takes long"
        )
        return TooMany(words, retry_after_s=RETRY_S, code=SHARE)

    def _tell(self, verdict: Verdict, what: str, shares: Shares, asker: Asker) -> None:
        node = self._deployment.node
        if node is None:
            return
        now, who = node.clock.now(), "" if verdict is Verdict.FULL else asker.house
        if who in self._told and 0 <= now - self._told[who] < LOG_EVERY_MS:
            return
        self._told[who] = now
        self._told.move_to_end(who)
        if len(self._told) > NAMES_MAX:
            self._told.popitem(last=False)
        if who:
            words = "%s has its share of the places for %s, %d of %d, and is refused more; others are served"
            log.warning(words, who, what, shares.count_of(who), shares.places, extra={"code": "server.share"})
        else:
            words = "all %d places for %s are taken; everybody is refused until some are free"
            log.warning(words, shares.places, what, extra={"code": "server.busy"})


# With whom does a request share the server? Known before anybody is let in, and better afterwards.
#
# Tokens that are bound to a tenant share what the tenant has, a token of no tenant is for itself, and whoever has shown
# none that is good is one of the strangers, who share by their addresses. Nobody can be taken for another: which house a
# token is of is remembered once it was let in, under the hash of all of it.

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

    def remember(self, scope: Mapping[str, Any], caller: "Caller") -> None:
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


# Few may do something at once that holds everybody up: who waits for it, and who is next?


class FairLine:
    """Lets a few through at a time, asker by asker: nobody waits behind all of another's."""

    def __init__(self, at_once: int) -> None:
        self.left = at_once
        self._rounds: Rounds[asyncio.Future[None]] = Rounds()

    @asynccontextmanager
    async def passing(self, asker: Asker) -> AsyncIterator[None]:
        """Around what is done."""
        await self._through(asker)
        try:
            yield
        finally:
            self._leave()

    async def _through(self, asker: Asker) -> None:
        if self.left and not self._rounds:
            self.left -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rounds.add(asker, future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave()  # it was this one's turn already
            raise

    def _leave(self) -> None:
        while self._rounds:
            future = self._rounds.next()
            if not future.done():
                future.set_result(None)
                return
        self.left += 1


class Turnstile:
    """A line in which no more wait than there are places, and nobody has all of these."""

    def __init__(self, at_once: int, places: int, what: str, crowding: Crowding) -> None:
        """`what` is what errors call those that wait."""
        self.shares = Shares(places)
        self.line = FairLine(at_once)
        self._what = what
        self._crowding = crowding

    @asynccontextmanager
    async def passing(self, asker: Asker) -> AsyncIterator[None]:
        """Around what is done; `TooMany` or `Unavailable` when too many wait."""
        verdict = self.shares.take(asker)
        if verdict is not Verdict.TAKEN:
            raise self._crowding.refusal(verdict, self._what, self.shares, asker)
        try:
            async with self.line.passing(asker):
                yield
        finally:
            self.shares.give(asker)
