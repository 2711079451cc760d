"""Layer 5. What failed for good and waits for a person?"""

from wakeful.notices.deliveries import CLASS as NOTICES
from wakeful.store.protocol import Query
from wakeful.values.errors import BadOption, UnknownParked
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Parked
from wakeful.views.pages import PARKED, RowPage, ViewPage, find
from wakeful.views.plain import Instant, OfObject, iso
from wakeful.views.timer_names import name_words, schedule_named
from wakeful.views.view import View, is_shown

_NUMBER_MAX = 2**63 - 1


class PlainParked(OfObject):
    """A parked timer in the terms of JSON."""

    number: int
    timer: str
    words: str
    schedule: str | None
    nominal_at: Instant
    parked_at: Instant
    attempts: int
    reason: str
    error: str
    traceback: str | None
    run_id: str


async def page(
    view: View,
    cls: str | None = None,
    key: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    prefix: str | None = None,
) -> ViewPage[PlainParked]:
    """Parked timers, oldest first, each with the number that redriving takes; `prefix` is of the object's key."""
    found = await rows(view, Query(cls=cls, key=key, key_prefix=prefix), limit, cursor)
    return ViewPage(await view.each(lambda row: plain_parked(row, view.mask(row.number)), found.rows), found.cursor)


async def rows(view: View, query: Query, limit: int = 50, cursor: str | None = None) -> RowPage[Parked]:
    """The same before they are plain."""
    keep = lambda row: is_shown(row.timer.id.cls, query.cls) or row.timer.id.cls == NOTICES  # noqa: E731
    return await find(view, PARKED, query, limit=limit, cursor=cursor, keep=keep)


async def show(view: View, number: int, id: ObjectId | None = None, *, prefix: str | None = None) -> PlainParked:
    """One parked timer with its traceback; `id` says in which store, where several have their own numbers."""
    row = await one(view, number, id, prefix=prefix)
    return plain_parked(row, number)


async def one(view: View, number: int, id: ObjectId | None = None, *, prefix: str | None = None) -> Parked:
    """The parked timer of that number, or `UnknownParked`; `prefix` is of the keys of objects that may be known of."""
    matches = []
    meant = view.meant(number) if 0 < number <= _NUMBER_MAX else 0
    for store in view.stores if id is None else [view.store_of(id)]:
        if meant:
            rows = await store.find_parked(Query(after=(meant - 1,), limit=1))
            matches += [
                row
                for row in rows
                if row.number == meant and id in (None, row.timer.id) and row.timer.id.key.startswith(prefix or "")
            ]
    if not matches:
        raise UnknownParked(f"nothing is parked under the number {number}; it was redriven, or never there")
    if len(matches) > 1:
        who = " and ".join(str(row.timer.id) for row in matches)
        raise BadOption(f"number {number} stands for timers of {who}; say of which object", code="parked.number")
    return matches[0]


def plain_parked(row: Parked, number: int | None = None) -> PlainParked:
    """A parked timer: which, since when, why; the number as whoever looks sees it."""
    return {
        "number": row.number if number is None else number,
        "class": row.timer.id.cls,
        "key": row.timer.id.key,
        "timer": row.timer.name,
        "words": name_words(row.timer.name),
        "schedule": schedule_named(row.timer.name),
        "nominal_at": iso(row.timer.nominal_at),
        "parked_at": iso(row.parked_at),
        "attempts": row.attempts,
        "reason": row.reason,
        "error": row.error,
        "traceback": row.traceback,
        "run_id": row.run_id,
    }
