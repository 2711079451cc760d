"""Layer 2. How do timers from outside a turn get in, all of them or none, and once though they are sent again?"""

import sqlite3
from collections.abc import Mapping, Sequence

from wakeful.policy.ranges import past_prefix
from wakeful.store.protocol import Guard, Obstacle, Receipt
from wakeful.store.sends import check_once, is_other, still_out
from wakeful.store.sqlite import statements
from wakeful.store.sqlite.gather import parked_of, timer_of, timer_row
from wakeful.store.sqlite.statements import SQL
from wakeful.values.commits import Remembered
from wakeful.values.ids import shard_of
from wakeful.values.timers import Timer

# Timers are flattened into parameters this many at a time, so that a million don't sit in memory twice.
INSERT_ROWS = 4096
_NOTHING = Guard("", "")


def insert(
    db: sqlite3.Connection,
    timers: Sequence[Timer],
    now: int,
    receipt: Receipt | None,
    guards: Mapping[int, Guard],
    each: bool,
) -> list[Obstacle]:
    """Add them in a transaction of theirs, or nothing when something is in the way, unless each is for itself; and tell what is."""
    if not each and not guards:  # as nearly all: one statement says whether it came before, and notes that it has now
        is_taken = _add(db, timers, now, receipt)
        return _all_in_the_way(db, timers, guards, now) if is_taken else []
    last = None if receipt is None else db.execute(SQL["find_receipt"], (receipt.id,)).fetchone()
    is_again = receipt is not None and last is not None and last[0] >= receipt.number
    if is_again and not each:
        return []
    left_out = _places(last[1]) if receipt is not None and last is not None and last[0] == receipt.number else []
    check_once(timers)
    asked = range(len(timers)) if each and not is_again else sorted(guards)
    obstacles = [_obstacle(db, n, timers[n], guards.get(n), now) for n in _find_barred(db, asked, timers, guards, now)]
    if is_again:
        return still_out([one for one in obstacles if is_other(one, timers)], left_out)
    if obstacles and not each:
        return obstacles if len(guards) == len(timers) else _all_in_the_way(db, timers, guards, now)
    barred = {one.index for one in obstacles}
    if _add(db, [timer for n, timer in enumerate(timers) if n not in barred] if barred else timers, now):
        return _all_in_the_way(db, timers, guards, now)
    if receipt is not None:
        left = ",".join(map(str, sorted(barred & guards.keys()))).encode() or None
        db.execute(SQL["keep_receipt"], (receipt.id, receipt.number, left, receipt.expires_at))
    return obstacles


def _places(data: bytes | None) -> list[int]:
    return [int(place) for place in data.decode().split(",")] if data else []


def _add(db: sqlite3.Connection, timers: Sequence[Timer], now: int, receipt: Receipt | None = None) -> bool:
    """Add them all, or nothing and True when a name is taken. With a receipt, which is kept, nothing that came before."""
    try:
        if receipt is not None:
            kept = db.execute(SQL["keep_newer_receipt"], (receipt.id, receipt.number, receipt.expires_at))
            if not kept.rowcount:
                return False
        for at in range(0, len(timers), INSERT_ROWS):
            some = [(timer, shard_of(timer.id)) for timer in timers[at : at + INSERT_ROWS]]
            statements.make_objects.run(db, [(*timer.id, shard, now, now) for timer, shard in some])
            statements.insert_timers.run(db, [timer_row(timer.id, shard, timer) for timer, shard in some])
    except sqlite3.IntegrityError:
        db.execute("ROLLBACK")
        db.execute(SQL["begin"])
        check_once(timers)
        if not any(db.execute(SQL["find_timer"], (*timer.id, timer.name)).fetchone() for timer in timers):
            raise
        return True
    return False


def _find_barred(
    db: sqlite3.Connection, asked: Sequence[int], timers: Sequence[Timer], guards: Mapping[int, Guard], now: int
) -> list[int]:
    """At which of these places something is in the way."""
    return statements.find_barred(db, [_probe(n, timers[n], guards.get(n, _NOTHING)) for n in asked], now)


def _probe(index: int, timer: Timer, guard: Guard) -> tuple[object, ...]:
    last = past_prefix(guard.prefix) if guard.prefix else ""
    answer = None if guard is _NOTHING else guard.answer
    return (index, *timer.id, timer.name, answer, guard.prefix or None, last)


def _all_in_the_way(
    db: sqlite3.Connection, timers: Sequence[Timer], guards: Mapping[int, Guard], now: int
) -> list[Obstacle]:
    places = _find_barred(db, range(len(timers)), timers, guards, now)
    return [_obstacle(db, n, timers[n], guards.get(n), now) for n in places]


def _obstacle(db: sqlite3.Connection, index: int, timer: Timer, guard: Guard | None, now: int) -> Obstacle:
    """What is there at that place, as far as its guard asks for it."""
    there = db.execute(SQL["find_timer"], (*timer.id, timer.name)).fetchone()
    if guard is None:
        return Obstacle(index, timer_of(there))
    if there is None:
        there = db.execute(SQL["last_timer"], (*timer.id, guard.prefix, past_prefix(guard.prefix))).fetchone()
    parked = db.execute(SQL["last_parked"], (*timer.id, timer.name)).fetchone()
    answer = db.execute(SQL["recall"], (*timer.id, guard.answer, now)).fetchone()
    return Obstacle(
        index,
        None if there is None else timer_of(there),
        None if parked is None else parked_of(parked),
        None if answer is None else Remembered(*answer),
    )
