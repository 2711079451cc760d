"""Layer 5. What is somebody told who finds no place, and what are operators told of it?"""

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.values.errors import TooMany, Unavailable, WakefulError

if TYPE_CHECKING:
    from wakeful.app import App

log = logging.getLogger("wakeful.http")

SHARE = "server.share"
BUSY = "server.busy"
RETRY_S = 1.0
LOG_EVERY_MS = 60_000
NAMES_MAX = 1_000  # of those who were told of in the last minute


class Crowding:
    """Refuses those for whom there is no place, and says in the log, once a minute, who had more than others."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._told: OrderedDict[str, int] = OrderedDict()
        self.refused = 0

    def refusal(self, verdict: Verdict, what: str, shares: Shares, asker: Asker) -> WakefulError:
        """The error for who has its share already, or for whom there is nothing left; nothing was done either way."""
        self.refused += 1
        self._tell(verdict, what, shares, asker)
        if verdict is Verdict.FULL:
            return Unavailable(f"all {shares.places:,} places for {what} are taken; try again", code=BUSY)
        words = (
            f"you have {shares.held(asker.house):,} of {shares.places:,} places for {what}, and the rest is kept for others; "
            "wait until some of yours are free, ask for less at once, or use jobs for what takes long"
        )
        return TooMany(words, retry_after_s=RETRY_S, code=SHARE)

    def _tell(self, verdict: Verdict, what: str, shares: Shares, asker: Asker) -> None:
        node = self._app.node
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
            log.warning(words, who, what, shares.held(who), shares.places, extra={"code": "server.share"})
        else:
            words = "all %d places for %s are taken; everybody is refused until some are free"
            log.warning(words, shares.places, what, extra={"code": "server.busy"})
