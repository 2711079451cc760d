"""What an object should have done, in a hundred plain lines without a disk, a crash or a task."""

import copy
from dataclasses import dataclass, field
from typing import Any

RETRIES = 6
BACKOFF_MS = 2_000
SLACK_MS = 200  # a store that is away for a moment makes a retry that much later


class Oops(Exception):
    """Raised by the object because the model told it to."""


@dataclass
class Alarm:
    nominal: int
    low: int  # fires not before
    high: int  # and not after; jitter makes the two differ
    attempt: int = 0


@dataclass
class Oracle:
    """One object: rows, state, alarm, and what its ledger counts."""

    rows: dict[str, Any] = field(default_factory=dict)
    state: int = 0
    alarm: Alarm | None = None
    ledger: list[str] = field(default_factory=list)
    parked: int = 0
    leaves: bool = False  # with the running turn

    def turn(self, ops: list[Any], now: int) -> list[Any]:
        """The answers of one turn; on Oops everything since its last durable point is undone."""
        self.leaves = False
        self.saved = self.copied()
        try:
            return [self.apply(op, now) for op in ops]
        except Oops:
            self.rows, self.state, self.alarm, self.leaves = self.saved
            raise
        finally:
            if self.leaves:
                self.__init__()  # type: ignore[misc]

    def copied(self) -> Any:
        return copy.deepcopy((self.rows, self.state, self.alarm, self.leaves))

    def apply(self, op: Any, now: int) -> Any:
        match op:
            case ("put", key, value):
                self.rows[key] = value
            case ("get", key):
                return self.rows.get(key, "none")
            case ("delete", key):
                return self.rows.pop(key, self) is not self
            case ("delete_many", keys):
                return sum(self.rows.pop(key, self) is not self for key in set(keys))
            case ("delete_all", keep):
                self.rows.clear()
                self.alarm = self.alarm if keep else None
            case ("list", options):
                return self.listed(**options)
            case ("count", prefix):
                return len(self.listed(prefix=prefix))
            case ("alarm", delay, failures):
                self.rows["fail"] = failures
                self.alarm = Alarm(now + delay, now + delay, now + delay)
            case ("get_alarm",):
                return self.alarm and self.alarm.nominal
            case ("delete_alarm",):
                self.alarm = None
            case ("state", amount):
                self.state += amount
                return self.state
            case ("commit",):
                self.saved = self.copied()
            case ("leave",):
                self.leaves = True
            case ("raise",):
                raise Oops
            case ("transaction", ops):
                before = self.copied()
                try:
                    return [self.apply(inner, now) for inner in ops]
                except Oops:
                    self.rows, self.state, self.alarm, self.leaves = before
                    return "undone"
        return None

    def listed(
        self,
        prefix: str = "",
        start: str | None = None,
        start_after: str | None = None,
        end: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[list[Any]]:
        keys = [
            key
            for key in sorted(self.rows, key=str.encode, reverse=reverse)
            if key.startswith(prefix)
            and (start is None or key.encode() >= start.encode())
            and (start_after is None or key.encode() > start_after.encode())
            and (end is None or key.encode() < end.encode())
        ]
        return [[key, self.rows[key]] for key in keys[:limit]]

    def fire(self, low: int, high: int) -> None:
        """The handler runs once, at some instant between the two."""
        alarm = self.alarm
        assert alarm is not None
        if alarm.attempt >= self.rows.get("fail", 0):
            self.rows |= {"fired": self.rows.get("fired", 0) + 1, "at": alarm.nominal}
            self.alarm = None
            self.ledger.append("run")
            return
        self.ledger.append("failed")
        delay = BACKOFF_MS * 2**alarm.attempt
        alarm.attempt += 1
        alarm.low, alarm.high = low + delay, high + delay * 5 // 4 + SLACK_MS
        if alarm.attempt > RETRIES:
            self.alarm = None
            self.parked += 1
