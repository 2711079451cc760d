"""Layer 0. What does the end of a turn say to the store?"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer

# Four key spaces per object: what the class's own code stores, what Wakeful keeps beside it (typed state, the
# features' rows), which `list` and `delete_all` never touch, the pages of its database, under their numbers, and the
# undo images of its commits, under their bookmarks.
USER = 0
SYSTEM = 1
PAGES = 2
HISTORY = 3
SPACES = (USER, SYSTEM, PAGES, HISTORY)
Slot = tuple[int, str]  # (space, key)
# What an object can't wake without, however many rows it has: its typed state, how many migrations it has had, and
# that it is to be forgotten, which is finished first; and from which point on its undo images are whole.
STATE_SLOT: Slot = (SYSTEM, "state")
MIGRATIONS_SLOT: Slot = (SYSTEM, "migrations")
FORGOTTEN_SLOT: Slot = (SYSTEM, "forgotten")
FORGET_TIMER = "forget"  # the timer that finishes it if nobody else does
HISTORY_SLOT: Slot = (SYSTEM, "history")


def page_slot(number: int) -> Slot:
    """Where a page of an object's database is kept, the first under 1; keys are in the order of their numbers."""
    return (PAGES, f"{number:08x}")


def is_page(key: str, data: bytes) -> bool:
    """Whether a row with that key and value could be one."""
    return len(data) == PAGE_BYTES and re.fullmatch("[0-9a-f]{8}", key) is not None and int(key, 16) > 0


PAGE_BYTES = 4_096
FIRST_PAGE = page_slot(1)  # there is one as soon as there is a database
_NO_ROWS: Mapping[Slot, bytes] = MappingProxyType({})


class Remembered(Struct, frozen=True, gc=False):
    """The first answer to a request key, to be given again instead of running again."""

    key: str
    fingerprint: bytes  # of the method and arguments: the same key for another call is an error
    answer: bytes
    expires_at: int


class Start(Struct, frozen=True, gc=False):
    """A note on one setting of a timer that it is about to run, so that a crash of the process can be laid at its door."""

    name: str
    seq: int
    crashes: int
    is_running: bool = True  # False takes the note back: the owner stops, and it was not the timer's fault


class Commit(Struct, gc=False, kw_only=True):
    """One atomic step of one object, fenced by the epoch of its shard.

    Applied in this order: `wipe`, `deletes`, `puts`, `clears`, `sets`, `starts`, `sends`, then the rest.
    """

    id: ObjectId
    shard: int
    epoch: int
    now: int
    # What most commits have none of costs nothing: an empty list each would be felt.
    wipe: bool = False  # drop every USER row first
    puts: Mapping[Slot, bytes] = _NO_ROWS
    deletes: Sequence[Slot] = ()
    sets: Sequence[Timer] = ()  # insert, or replace the timer of that name
    clears: Sequence[tuple[str, int]] = ()  # name and seq: only that very setting is removed; seq 0: any
    starts: Sequence[Start] = ()
    sends: Sequence[Timer] = ()  # timers of any object, unfenced; one whose name is taken is left as it is
    entries: Sequence[Entry] = ()
    parks: Sequence[Parked] = ()
    unparks: Sequence[int] = ()  # numbers of parked rows to remove
    remember: Remembered | None = None
    records: Sequence[Remembered] = ()  # what features remember beside it

    @property
    def must_sync(self) -> bool:
        """False when losing it in a power cut harms nothing: a bare start note only has to outlive the process."""
        return not self.starts or bool(
            self.puts
            or self.deletes
            or self.wipe
            or self.sets
            or self.clears
            or self.sends
            or self.entries
            or self.parks
            or self.unparks
            or self.remember
            or self.records
        )


def start_note(timer: Timer, shard: int, epoch: int, crashes: int, now: int, *, is_running: bool = True) -> Commit:
    """The note on disk that the timer is about to run, so that a crash can be laid at its door; or that it is not after all."""
    starts = (Start(timer.name, timer.seq, crashes, is_running),)
    return Commit(id=timer.id, shard=shard, epoch=epoch, now=now, starts=starts)


class Info(Struct, frozen=True, gc=False):
    """What a store keeps about every object; rows and bytes count the rows of all spaces."""

    id: ObjectId
    created_at: int
    active_at: int
    rows: int
    bytes: int


class Loaded(Struct, frozen=True, gc=False):
    """What an object needs in order to wake: None as `info` means that it never wrote anything."""

    info: Info | None
    alarm: Timer | None
    rows: dict[
        Slot, bytes
    ]  # STATE_, MIGRATIONS_, FORGOTTEN_, HISTORY_SLOT and the first pages of its database; all its rows when they are few
    complete: bool  # `rows` is everything the object has

    @property
    def has_history(self) -> bool:
        """There are undo images of it."""
        return HISTORY_SLOT in self.rows
