"""Layer 1, pure. Several want the same few places: how many may one have, and whose turn is next?

An asker is a house and a room in it: a tenant and its tokens, say. A house may have so many times what is free, a room so
many times what its house has left. So one that is alone has most of them, two that want all have about the same, and
whoever comes new finds some, though nobody else ever gives back what he has.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

GREED = 7  # how many times what is free one may have: seven eighths of all, when nobody else has any
KEPT = 8  # one place in so many is only for those who have next to none


class Asker(NamedTuple):
    """Who shares with others."""

    house: str
    room: str = ""


class Verdict(Enum):
    """Whether there was room."""

    TAKEN = 0
    SHARE = 1  # there is, but not for this one, who has its share
    FULL = 2  # all places are taken


class Shares:
    """Places, and who has them. `few` is what a house may have while there is any at all."""

    def __init__(self, places: int, few: int = 2) -> None:
        self.places = places
        self.taken = 0
        self._few = few
        self._open = places - places // KEPT  # for those who have some already
        self._houses: dict[str, int] = {}
        self._rooms: dict[Asker, int] = {}

    def verdict(self, asker: Asker, count: int = 1) -> Verdict:
        """Whether so many could be taken."""
        held = self._houses.get(asker.house, 0)
        is_new = held + count <= self._few
        if self.taken + count > self.places:
            return Verdict.FULL if is_new else Verdict.SHARE
        if is_new or self._is_fair(held, self._rooms.get(asker, 0), count):
            return Verdict.TAKEN
        return Verdict.SHARE

    def take(self, asker: Asker, count: int = 1) -> Verdict:
        """Take so many, if there are some for this asker."""
        house, houses, rooms = asker.house, self._houses, self._rooms
        held, within, taken = houses.get(house, 0) + count, rooms.get(asker, 0) + count, self.taken + count
        if taken > self.places or held > self._few:  # nearly never, of one call of many
            verdict = self.verdict(asker, count)
            if verdict is not Verdict.TAKEN:
                return verdict
        self.taken, houses[house], rooms[asker] = taken, held, within
        return Verdict.TAKEN

    def give(self, asker: Asker, count: int = 1) -> None:
        """Give so many back."""
        self.taken -= count
        house, houses, rooms = asker.house, self._houses, self._rooms
        held, within = houses[house] - count, rooms[asker] - count
        if held:
            houses[house] = held
        else:
            del houses[house]
        if within:
            rooms[asker] = within
        else:
            del rooms[asker]

    def move(self, asker: Asker, other: Asker, count: int) -> Verdict:
        """So many of one become another's, if that one may have so many: else they stay, and count for who has them."""
        self.give(asker, count)
        verdict = self.take(other, count)
        if verdict is not Verdict.TAKEN:
            self.taken += count
            self._houses[asker.house] = self._houses.get(asker.house, 0) + count
            self._rooms[asker] = self._rooms.get(asker, 0) + count
        return verdict

    def count_of(self, house: str) -> int:
        """How many the house has."""
        return self._houses.get(house, 0)

    @property
    def is_full(self) -> bool:
        """Nobody at all finds one."""
        return self.taken >= self.places

    def _is_fair(self, held: int, within: int, count: int) -> bool:
        most = (self._open - self.taken + held) * GREED // (GREED + 1)  # of the house, as things are
        if held + count > most:
            return False
        return within + count <= max(self._few, (most - held + within) * GREED // (GREED + 1))


class Rounds(Generic[T]):
    """Those who wait: house by house, in each room by room, in each of these in the order in which they came."""

    def __init__(self) -> None:
        self._houses: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, house: str) -> bool:
        return house in self._houses

    def add(self, asker: Asker, one: T) -> None:
        """Behind those of the same room."""
        rooms = self._houses.setdefault(asker.house, OrderedDict())
        rooms.setdefault(asker.room, deque()).append(one)
        self._count += 1

    def __iter__(self) -> Iterator[str]:
        """The houses: whose turn is next, first."""
        return iter(self._houses)

    def next(self, house: str | None = None) -> T:
        """Whoever is next, of all or of one house; the others come before the next of the same."""
        house = next(iter(self._houses)) if house is None else house
        rooms = self._houses[house]
        room, line = next(iter(rooms.items()))
        waiter = line.popleft()
        self._count -= 1
        if line:
            rooms.move_to_end(room)
        else:
            del rooms[room]
        if rooms:
            self._houses.move_to_end(house)
        else:
            del self._houses[house]
        return waiter
