"""Layer 3. Which timers wait because a process died while they ran, and who waits behind them?"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer


class Tried(NamedTuple):
    """One that runs again since then, while others wait; `is_last`: one more death, and it is parked."""

    timer: Timer
    since: int
    is_last: bool


class Suspects:
    """Timers in line until there is room to try them, and later ones of their objects, which must not overtake them."""

    def __init__(self) -> None:
        self._line: deque[Timer] = deque()
        self._of: dict[ObjectId, deque[Timer]] = {}
        self.tried: list[Tried] = []

    def __len__(self) -> int:
        return len(self._line)

    @property
    def first(self) -> Timer:
        return self._line[0]

    def add(self, timer: Timer) -> None:
        self._line.append(timer)
        self._of.setdefault(timer.id, deque()).append(timer)

    def pop(self) -> Timer:
        timer = self._line.popleft()
        own = self._of[timer.id]
        own.popleft()  # each object's are in the order of the line
        if not own:
            del self._of[timer.id]
        return timer

    def has_before(self, timer: Timer, running: Mapping[tuple[ObjectId, str], Timer]) -> bool:
        """One of the same object is in line that is due before it, and is still meant to run."""
        own = self._of.get(timer.id)
        if own is None:
            return False
        return any(one.sort_key < timer.sort_key and running.get((one.id, one.name)) is one for one in own)

    def waiting(self, running: Mapping[tuple[ObjectId, str], Timer]) -> int:
        """How many are in line and still meant to run."""
        return sum(running.get((one.id, one.name)) is one for one in self._line)

    def said(self, running: Mapping[tuple[ObjectId, str], Timer], now: int) -> dict[str, Any] | None:
        """The line in plain values: how many wait, behind which one, and for how long that has run; None: nobody waits."""
        waiting = self.waiting(running)
        if not waiting:
            return None
        first = self.tried[0] if self.tried else None
        return {
            "waiting": waiting,
            "is_alone": first is not None and first.is_last,
            "behind": first and {"class": first.timer.id.cls, "key": first.timer.id.key, "timer": first.timer.name},
            "for_ms": 0 if first is None else now - first.since,
        }
