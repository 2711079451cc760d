"""Layer 5. What is a consumer handed, and what has it decided about each message when it is done?"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from wakeful.compat.workers.dates import Date
from wakeful.compat.workers.values import Array, option_of
from wakeful.values.codec import encode

Rows = list[list[Any]]


class Decision(NamedTuple):
    """Which messages come again, and after how many milliseconds; all others are done."""

    retries: dict[str, int]


class QueueMessage:
    """`id`, `timestamp`, `body`, `attempts`; `ack()` or `retry()`, of which the first counts."""

    def __init__(self, id: str, at_ms: int, attempts: int, body: Any) -> None:
        self.id = id
        self.timestamp = Date.new(at_ms)
        self.attempts = attempts
        self.body = body
        self._is_done = False
        self._delay_ms: int | None = None  # of the retry that it asked for; -1: whatever the queue has

    def ack(self) -> None:
        """It is done, whatever becomes of the others."""
        if self._delay_ms is None:
            self._is_done = True

    def retry(self, options: Any = None, **named: Any) -> None:
        """It is to come again, after `delaySeconds` if they are given."""
        if not self._is_done and self._delay_ms is None:
            self._delay_ms = _delay_of(option_of(options, named, "retry()"))

    def __repr__(self) -> str:
        return f"<message {self.id}, attempt {self.attempts}>"


class MessageBatch:
    """`queue`, `messages`; `ackAll()` or `retryAll()`, of which the first counts, for those that say nothing themselves."""

    def __init__(self, queue: str, messages: Iterable[QueueMessage]) -> None:
        self.queue = queue
        self.messages = Array(messages)
        self._is_done = False
        self._delay_ms: int | None = None

    def ackAll(self) -> None:  # noqa: N802  the name there
        if self._delay_ms is None:
            self._is_done = True

    def retryAll(self, options: Any = None, **named: Any) -> None:  # noqa: N802  the name there
        if not self._is_done and self._delay_ms is None:
            self._delay_ms = _delay_of(option_of(options, named, "retryAll()"))

    def decide(self, has_raised: bool, retry_delay_ms: int) -> Decision:
        """What its handler said, and when it raised that the rest comes again."""
        retries = {}
        for message in self.messages:
            delay = message._delay_ms
            if delay is None and not message._is_done and not self._is_done:
                delay = self._delay_ms if self._delay_ms is not None else -1 if has_raised else None
            if delay is not None:
                retries[message.id] = retry_delay_ms if delay < 0 else delay
        return Decision(retries)


def _delay_of(options: Mapping[str, Any]) -> int:
    seconds = options.get("delaySeconds")
    return -1 if seconds is None else check_delay(seconds)


DELAY_S_MAX = 86_400


def check_delay(seconds: Any) -> int:
    """Milliseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= DELAY_S_MAX:
        raise ValueError(f"delaySeconds is 0 to {DELAY_S_MAX}, not {seconds!r}")
    return round(seconds * 1000)


def size_of(body: Any) -> int:
    """Bytes of a message as it is stored."""
    return len(body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else encode(body))
