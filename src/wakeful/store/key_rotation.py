"""Layer 2. How does everything in a store get under the newest key, while nodes go on working?

Page by page: rows that are not sealed with the newest key are sealed anew and put in place of what was read, if that is
still there. Whoever wrote in between wrote with the newest key. What is done already is passed over, so it can be
stopped at any time and begun again.
"""

from typing import Any, NamedTuple, cast

from msgspec import Struct

from wakeful.store.protocol import Query, Range, Swap, Swapping
from wakeful.store.seal_places import about_answer, about_row, about_text, about_timer
from wakeful.store.sealed_store import CHECK, CHECK_SLOT, SealedStore
from wakeful.values.commits import SPACES
from wakeful.values.errors import BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.seals import is_fresh_text, text_anew

ROWS = 100  # in one page of values, which may be large
SMALL_ROWS = 500  # of the others
TABLES = ("storage", "timers", "requests", "parked", "ledger")

Place = list[Any]  # the table, and where in it the next page begins


class RotationPage(Struct, frozen=True):
    """What was looked at, and how much of it is not under the newest key."""

    place: Place | None  # where the next page begins; None: that was all
    seen: int
    stale: int  # not under the newest key when it was read
    swapped: int  # of these, those that are now
    shut: int  # of these, those that no key of the ring opens


class StaleRows(NamedTuple):
    """A page of one table: how many rows, what of them is stale, and after which row the next one begins."""

    seen: int
    stale: list[tuple[Swap, bool]]  # with whether it could be opened
    last: list[Any] | None


async def page(store: SealedStore, place: Place | None, *, now: int, is_change: bool) -> RotationPage:
    """One page: seal what is stale anew, or only count it."""
    table, *after = place or [TABLES[0]]
    if table not in _READ:
        raise BadOption("this is no place to go on from; begin anew", code="keys.place")
    if is_change:
        await store.note_key(now)
    rows = await _READ[table](store, after, now)
    swaps = [swap for swap, is_open in rows.stale if is_open]
    swapped = await cast("Swapping", store.inner).swap(swaps) if is_change and swaps else 0
    if rows.last is None:
        following = TABLES.index(table) + 1
        next_place = [TABLES[following]] if following < len(TABLES) else None
    else:
        next_place = [table, *rows.last]
    return RotationPage(next_place, rows.seen, len(rows.stale), swapped, len(rows.stale) - len(swaps))


async def finish(store: SealedStore) -> None:
    """Note that everything is sealed: from now on a value that is not was put there by somebody else."""
    space, name = CHECK_SLOT
    old = (await store.inner.read(CHECK, space, [name])).get(name)
    if old is not None:
        new = store.check_value(is_whole=True)
        await cast("Swapping", store.inner).swap([Swap("storage", (*CHECK, space, name), (old,), (new,))])
        store.sealing.is_whole = True


async def _storage(store: SealedStore, after: list[Any], now: int) -> StaleRows:
    """Rows in the order of objects, spaces and names; `after` is the last one that was done."""
    inner, ring = store.inner, store.sealing.ring
    stale: list[tuple[Swap, bool]] = []
    seen = 0
    id, space, start = (
        (ObjectId(*after[:2]), after[2], after[3] + "\0") if after else (ObjectId("", ""), SPACES[-1], "")
    )
    while True:
        rows = await inner.scan(id, space, Range(start, limit=ROWS - seen)) if id.cls else []
        for name, data in rows:
            if not ring.is_fresh(data):
                stale.append(_sealed_anew(store, "storage", (*id, space, name), [(data, about_row(id, (space, name)))]))
        seen += len(rows)
        if seen >= ROWS:
            return StaleRows(seen, stale, [*id, space, rows[-1][0]])
        if space != SPACES[-1]:
            space, start = space + 1, ""
            continue
        objects = await inner.find_objects(Query(after=tuple(id) if id.cls else None, limit=1))
        if not objects:
            return StaleRows(seen, stale, None)
        id, space, start = objects[0].id, SPACES[0], ""


async def _timers(store: SealedStore, after: list[Any], now: int) -> StaleRows:
    rows = await store.inner.find_timers(Query(after=tuple(after) or None, limit=SMALL_ROWS))
    stale = [
        _sealed_anew(store, "timers", (*one.id, one.name), [(one.payload, about_timer(one.id, one.name))])
        for one in rows
        if one.payload is not None and not store.sealing.ring.is_fresh(one.payload)
    ]
    return StaleRows(len(rows), stale, list(rows[-1].sort_key) if len(rows) == SMALL_ROWS else None)


async def _requests(store: SealedStore, after: list[Any], now: int) -> StaleRows:
    rows = await store.inner.find_answers(Query(after=tuple(after) or None, limit=ROWS), now=now)
    is_fresh = store.sealing.ring.is_fresh
    stale = [
        _sealed_anew(
            store,
            "requests",
            (*id, one.key),
            [
                (one.fingerprint, about_answer(id, one.key, "fingerprint")),
                (one.answer, about_answer(id, one.key, "answer")),
            ],
        )
        for id, one in rows
        if not (is_fresh(one.fingerprint) and is_fresh(one.answer))
    ]
    return StaleRows(len(rows), stale, [*rows[-1][0], rows[-1][1].key] if len(rows) == ROWS else None)


async def _parked(store: SealedStore, after: list[Any], now: int) -> StaleRows:
    rows = await store.inner.find_parked(Query(after=tuple(after) or None, limit=ROWS))
    ring, stale = store.sealing.ring, []
    for parked in rows:
        id, name, payload = parked.timer.id, parked.timer.name, parked.timer.payload
        about = [about_text(id, name, parked.run_id, part) for part in ("parked", "traceback")]
        is_fresh = payload is None or ring.is_fresh(payload)
        if is_fresh and is_fresh_text(ring, parked.error) and is_fresh_text(ring, parked.traceback):
            continue
        swap, is_open = Swap("parked", (parked.number,), (None,), (None,)), True
        if payload is not None:
            swap, is_open = _sealed_anew(store, "parked", (parked.number,), [(payload, about_timer(id, name))])
        texts = [text_anew(ring, parked.error, about[0]), text_anew(ring, parked.traceback, about[1])]
        is_open = is_open and None not in texts
        stale.append(
            (Swap("parked", (parked.number,), (payload, parked.error, parked.traceback), (*swap.new, *texts)), is_open)
        )
    return StaleRows(len(rows), stale, [rows[-1].number] if len(rows) == ROWS else None)


async def _ledger(store: SealedStore, after: list[Any], now: int) -> StaleRows:
    rows = await store.inner.find_entries(Query(after=tuple(after) or None, limit=SMALL_ROWS))
    ring, stale = store.sealing.ring, []
    for number, one in rows:
        if one.error is not None and not is_fresh_text(ring, one.error):
            text = text_anew(ring, one.error, about_text(one.id, one.name, one.run_id, "error"))
            stale.append((Swap("ledger", (number,), (one.error,), (text,)), text is not None))
    return StaleRows(len(rows), stale, [rows[-1][0]] if len(rows) == SMALL_ROWS else None)


def _sealed_anew(
    store: SealedStore, table: Any, where: tuple[Any, ...], values: list[tuple[bytes, bytes]]
) -> tuple[Swap, bool]:
    """The values under the newest key, and whether all of them could be opened; those that could not stay as they are."""
    sealing = store.sealing
    new = tuple(sealing.seal(sealing.open(data, about), about) for data, about in values)
    return Swap(table, where, tuple(data for data, _ in values), new), all(map(sealing.ring.is_fresh, new))


_READ = {"storage": _storage, "timers": _timers, "requests": _requests, "parked": _parked, "ledger": _ledger}
