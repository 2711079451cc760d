"""Layer 5. Does a test wait for what never comes, and what does everybody wait for then?

In a world time passes by itself while everybody waits, and the chores of a node never end: a test that awaits what
nobody will ever bring would go on for ever. It is given up when it has stood at the same places for a year and more of
the world's time, or for very many steps of it. `world.advance` is the test's own will, and begins the count anew.
"""

import asyncio
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from wakeful.values.times import Duration, duration_ms

PATIENCE: Duration = "400d"
STEPS_MAX = (
    200_000  # of time: with several nodes, whose chores come every second, less than a day and about two minutes
)
LOOK_EVERY = 64  # steps; a look costs more than a step may
DEEPEST = 3  # frames that are shown of a task that is not the test's own
TASKS_MAX = 100
ALONE_S = 60.0  # real ones, when nothing at all waits for time: a thread of the test's own may still come back

Place = tuple[tuple[CodeType, int], ...]


class NeverComes(AssertionError):
    """The test awaits what never comes; says what everybody waits for."""


class Patience:
    """How long a test has stood at the same places."""

    def __init__(self, length: Duration | None) -> None:
        """None has no end."""
        self._most_s = None if length is None else duration_ms(length, what="patience") / 1000
        self._owner: asyncio.Task[Any] | None = None
        self._places: set[Place] = set()  # where it was seen since it last came to a new one
        self._since = 0.0
        self._steps = 0
        self.moving = 0  # under way: time that passes because the test says so
        self.found: NeverComes | None = None  # it was told, by being cancelled

    def begin(self, owner: "asyncio.Task[Any] | None") -> None:
        self._owner = owner

    def note_move(self) -> None:
        """The test did something that lets time pass on purpose."""
        self._steps, self._places = 0, set()

    def step(self, time_s: float) -> None:
        """Time is about to pass because everybody waits; the test that waits in vain is told, the second time by force."""
        self._steps += 1
        if self._steps % LOOK_EVERY or self._most_s is None or self.moving:
            return
        owner = self._test()
        if owner is None:
            return
        place = tuple((frame.f_code, frame.f_lasti) for frame in _frames(owner))
        if self._steps == LOOK_EVERY or place not in self._places:
            self._places.add(place)
            self._since, self._steps = time_s, LOOK_EVERY
            return
        is_asleep = (
            bool(place) and place[-1][0] is asyncio.sleep.__code__
        )  # it wakes by itself, in however busy a world
        if time_s - self._since > self._most_s or (self._steps > STEPS_MAX and not is_asleep):
            self._give_up(owner, time_s - self._since)

    @property
    def alone_s(self) -> float | None:
        """How long to wait for real when nothing in the world can go on."""
        return None if self._most_s is None else ALONE_S

    def alone(self) -> None:
        """That long nobody came."""
        owner = self._test()
        if owner is not None:
            self._give_up(owner, 0.0)

    def _test(self) -> "asyncio.Task[Any] | None":
        """The task that entered the world, or when that was a fixture's the one that the loop runs for."""
        if self._owner is None or self._owner.done():
            self._owner = next((task for task in asyncio.all_tasks(asyncio.get_running_loop()) if _is_main(task)), None)
        return self._owner

    def _give_up(self, owner: "asyncio.Task[Any]", seconds: float) -> None:
        said = words(owner, seconds)
        if self.found is not None:
            raise self.found  # it went on, so the loop itself ends
        self.found = NeverComes(said)
        self.note_move()
        owner.cancel("the test awaits what never comes")


def words(owner: "asyncio.Task[Any]", seconds: float) -> str:
    """What everybody waits for, the test first."""
    others = [task for task in asyncio.all_tasks(owner.get_loop()) if task is not owner]
    shown = sorted(others, key=lambda task: task.get_name())[:TASKS_MAX]
    lines = [
        f"the test awaits what never comes: {_length(seconds)}",
        "It stands at",
        *(f"    {_where(frame)}" for frame in _frames(owner)),
        f"and {len(others)} other tasks at",
        *(f"    {task.get_name()}: " + " > ".join(map(_where, _frames(task)[-DEEPEST:])) for task in shown),
    ]
    return "\n".join(lines) + (f"\n    and {len(others) - TASKS_MAX} more" if len(others) > TASKS_MAX else "")


def _length(seconds: float) -> str:
    if not seconds:
        return "nothing in the world waits for time any more."
    length = f"{seconds / 86_400:,.1f} days" if seconds >= 86_400 else f"{seconds:,.1f} s"
    return f"{length} of the world went by, and it stands where it was."


def _frames(task: "asyncio.Task[Any]") -> list[FrameType]:
    """Where a task that waits stands, outermost first."""
    frames: list[FrameType] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = next((f for kind in ("cr", "gi", "ag") if (f := getattr(awaited, f"{kind}_frame", None))), None)
        if frame is None:
            break
        frames.append(frame)
        awaited = next(
            (a for kind in ("cr_await", "gi_yieldfrom", "ag_await") if (a := getattr(awaited, kind, None))), None
        )
    return frames


def _where(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    here = Path.cwd()
    short = path.relative_to(here) if path.is_relative_to(here) else Path(*path.parts[-3:])
    return f"{short}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_main(task: "asyncio.Task[Any]") -> bool:
    """`run_until_complete` waits for it."""
    callbacks = getattr(task, "_callbacks", None) or ()
    return any(getattr(one[0], "__name__", "") == "_run_until_complete_cb" for one in callbacks)
