"""Layer 3. Which calls have run out of time?

A timer handle for every call costs more than many calls do. Most calls have the same deadline, so
they expire in the order in which they came: a dict in that order and one handle for its first.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from wakeful.runtime.calls import Call, undone
from wakeful.values.clock import Clock, Handle
from wakeful.values.errors import DeadlineExceeded, TurnFailed


class Deadlines:
    """Expires calls at their deadlines; one that would break the order of the line gets a handle of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: dict[Call, None] = {}  # deadlines never fall along it
        self._latest = 0
        self._own: dict[Call, Handle] = {}
        self._alarm: Handle | None = None
        self._alarm_at = 0

    def add(self, call: Call) -> None:
        at = call.deadline_at
        if at < self._latest and self._line:
            self._own[call] = self._clock.call_at(at, call.expire)
            return
        self._latest = at
        self._line[call] = None
        if self._alarm is not None and at < self._alarm_at:
            # Left by a longer call that has gone: a shorter one after it would wait for that one's deadline.
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._wake_at(at)

    def remove(self, call: Call) -> None:
        if call in self._line:
            del self._line[call]
        else:
            handle = self._own.pop(call, None)
            if handle is not None:
                handle.cancel()

    def stepped(self, by_ms: int) -> None:
        """The clock was set: what was asked for before that has as long as it had.

        It is heard of a moment later. Set ahead, what has time left was asked for since; set back, what would have none.
        """
        now = self._clock.now()
        calls = [*self._line, *self._own]
        for call in calls:
            left_ms = call.deadline_at - now
            if left_ms <= 0 if by_ms > 0 else left_ms + by_ms > 0:
                call.deadline_at += by_ms
        self.stop()
        self._line, self._own, self._latest = {}, {}, 0
        for call in sorted(calls, key=attrgetter("deadline_at")):
            self.add(call)

    def stop(self) -> None:
        for handle in (*self._own.values(), *(() if self._alarm is None else (self._alarm,))):
            handle.cancel()
        self._alarm = None

    def _expire(self) -> None:
        self._alarm = None
        now = self._clock.now()
        for call in _past(self._line, now):
            call.expire()
            self._line.pop(call, None)
        first = next(iter(self._line), None)
        if first is not None:
            self._wake_at(first.deadline_at)

    def _wake_at(self, at: int) -> None:
        self._alarm_at = at
        self._alarm = self._clock.call_at(at, self._expire)


def cancelled(what: str, trace: str) -> TurnFailed:
    """Its own code said CancelledError, and nobody had asked for that."""
    return TurnFailed(
        f"{what} was cancelled by its own code",
        remote_type="asyncio.CancelledError",
        remote_traceback=trace,
        code="turn.cancelled",
    )


def too_long(what: str, deadline_ms: int, commits: int) -> DeadlineExceeded:
    """It was stopped at its deadline, after so many durable points."""
    return DeadlineExceeded(f"{what} ran longer than {deadline_ms} ms; {undone(commits)}")


def _past(line: Iterable[Call], now: int) -> list[Call]:
    """The calls at the head of the line whose time is over."""
    found = []
    for call in line:
        if call.deadline_at > now:
            break
        found.append(call)
    return found


@contextmanager
def within(clock: Clock, until: int, late: Callable[[], Exception]) -> Iterator[None]:
    """What is awaited in it ends at that time, with that error."""
    task, is_late = asyncio.current_task(), False
    assert task is not None
    before = task.cancelling()  # one that was told to end may still ask for something

    def expire() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    handle = clock.call_at(until, expire)
    try:
        yield
    except asyncio.CancelledError:
        if is_late and task.uncancel() <= before:
            raise late() from None
        raise
    finally:
        handle.cancel()
