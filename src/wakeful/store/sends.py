"""Layer 2, pure. Which commits of a group can be written table by table, although some of them send timers?

A send leaves a timer of that name as it is, so it matters whether it comes before or after somebody
else's clear or set of the same timer. Commits between which it matters must not be written together.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from wakeful.store.protocol import Obstacle
from wakeful.values.commits import Commit
from wakeful.values.errors import BadInput
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer


class Sends:
    """The timers that a run of commits touches, until one of them would have to be touched in order."""

    def __init__(self) -> None:
        self._sent: set[tuple[ObjectId, str]] = set()
        self._touched: set[tuple[ObjectId, str]] = set()

    def admits(self, commit: Commit) -> bool:
        """Take the commit into the run, unless what it does to a timer depends on its place in it."""
        id = commit.id
        own = {(id, name) for name, _ in commit.clears}
        own.update((id, timer.name) for timer in commit.sets)
        own.update((id, start.name) for start in commit.starts)
        sent = {(timer.id, timer.name) for timer in commit.sends}
        if not (self._sent.isdisjoint(own) and self._touched.isdisjoint(sent)):
            return False
        self._touched |= own
        self._sent |= sent
        return True


def check_once(timers: Sequence[Timer]) -> None:
    """`BadInput` when two of the timers are of one object and name."""
    if len(timers) == 1:
        return
    seen: set[tuple[ObjectId, str]] = set()
    for timer in timers:
        if (timer.id, timer.name) in seen:
            raise BadInput(
                f"timer {timer.name!r} of {timer.id} is there twice in one insert; leave one out", code="timer.twice"
            )
        seen.add((timer.id, timer.name))


def is_other(obstacle: Obstacle, timers: Sequence[Timer]) -> bool:
    """It is not the very timer that was inserted, which is there from the first try."""
    there, sent = obstacle.timer, timers[obstacle.index]
    return there is None or (there.name, there.seq) != (sent.name, sent.seq)


def still_out(obstacles: list[Obstacle], left_out: Iterable[int]) -> list[Obstacle]:
    """These, and those that the first try left out for what is gone since: they are not in, and may be tried again."""
    seen = {one.index for one in obstacles}
    gone = [Obstacle(n) for n in left_out if n not in seen]
    return sorted([*obstacles, *gone], key=attrgetter("index")) if gone else obstacles
