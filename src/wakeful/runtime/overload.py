"""Layer 3. Has this node more to do than it can, and what does it stop doing then?

While it is overloaded no due timer is handed out; calls are still answered, and bounded by the mailboxes. It is
looked at only while there is work, by the node's clock.
"""

import logging
from collections.abc import Callable
from typing import Any

from wakeful.policy.limits import Limits
from wakeful.values.clock import Clock, Wakeup

log = logging.getLogger("wakeful.overload")

LOOK_MS = 250
BACKLOG_MAX = 4_000  # commits on their way to disk


class Overload:
    """Whether, since when and why dispatch is paused."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        *,
        is_working: Callable[[], bool],
        backlog: Callable[[], int],
        on_over: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._is_working = is_working  # something is handed out or runs
        self._backlog = backlog  # how many commits are on their way to disk
        self._on_over = on_over
        self._look = Wakeup(clock, self._looked)
        self._asked_at = 0  # when the next look should come
        self._symptom: str | None = None  # what the last look saw; one alone may be a hiccup, or a clock that was set
        self._has_failed = False  # the program's own question raised
        self.ask: Callable[[], Any] | None = None  # the program's own: true, or the reason as text, when it is too much
        self.is_on = False
        self.since_at: int | None = None
        self.why: str | None = None
        self.episodes = 0
        self._paused_ms = 0
        self.lag_ms = 0  # how late the event loop was when last looked at

    def holds(self) -> bool:
        """Nothing due may be handed out now. Asked whenever something is due."""
        if self._look.at is None:
            self._judge(self._program_says())
            self._again()
        return self.is_on

    @property
    def paused_ms(self) -> int:
        """How long dispatch has been paused in all."""
        return self._paused_ms + (0 if self.since_at is None else max(0, self._clock.now() - self.since_at))

    def stop(self) -> None:
        """Nothing is handed out any more, so there is nothing to look at."""
        self._look.set(None)
        self._symptom = None
        self._judge(None)

    def status(self) -> dict[str, Any]:
        return {
            "is_on": self.is_on,
            "since_at": self.since_at,
            "why": self.why,
            "episodes": self.episodes,
            "paused_ms": self.paused_ms,
            "lag_ms": self.lag_ms,
        }

    def _again(self) -> None:
        self._asked_at = self._clock.now() + LOOK_MS
        self._look.set(self._asked_at)

    def _looked(self) -> None:
        self.lag_ms = max(0, self._clock.now() - self._asked_at)
        before, self._symptom = self._symptom, self._own_symptom()
        self._judge(self._program_says() or (self._symptom if before is not None else None))
        if self.is_on or self._symptom is not None or self._is_working():
            self._again()

    def _own_symptom(self) -> str | None:
        if self.lag_ms >= self._limits.overload_lag_ms:
            return f"the event loop is {self.lag_ms} ms late; a turn may be computing or blocking"
        if (backlog := self._backlog()) > BACKLOG_MAX:
            return f"{backlog} commits are on their way to the store, which does not keep up"
        return None

    def _program_says(self) -> str | None:
        if self.ask is None:
            return None
        try:
            said = self.ask()
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                log.exception("overloaded() raised; taken as no, and not told again", extra={"code": "node.overloaded"})
            return None
        return (said if isinstance(said, str) else "the program says so") if said else None

    def _judge(self, why: str | None) -> None:
        now = self._clock.now()
        if why is not None:
            self.why = why
            if not self.is_on:
                self.is_on, self.since_at = True, now
                self.episodes += 1
                log.warning("overloaded: %s; due timers wait", why, extra={"code": "node.overload"})
        elif self.is_on:
            self._paused_ms = self.paused_ms
            self.is_on, self.since_at, self.why = False, None, None
            self._on_over()
