"""Layer 5. What failed for good and waits for a person?"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wakeful.jobs.ids import PREFIX as JOB
from wakeful.jobs.ids import job_id
from wakeful.jobs.payload import readable_payload
from wakeful.store.protocol import Query
from wakeful.values.errors import BadOption, UnknownParked
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Parked
from wakeful.views import arguments
from wakeful.views.pages import PARKED, RowPage, ViewPage, find
from wakeful.views.plain import Instant, OfObject, iso, plain_of
from wakeful.views.schedules import records_named
from wakeful.views.timer_names import parked_words, schedule_named
from wakeful.views.view import View

_NUMBER_MAX = 2**63 - 1
Fits = Callable[[Parked], bool]


class PlainParked(OfObject):
    """A parked timer in the terms of JSON."""

    number: int
    timer: str
    words: str
    schedule: str | None
    job: str | None
    method: str | None
    arguments: arguments.PlainArguments | None
    metadata: Any
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
    fits: Fits = lambda row: True,
) -> ViewPage[PlainParked]:
    """Parked timers, oldest first, each with the number that redriving takes; `prefix` is of the object's key.

    `fits` is what no store filters. A page looks through a bounded number of rows, and may have few and not be the last.
    """
    found = await rows(view, Query(cls=cls, key=key, key_prefix=prefix), limit, cursor, fits)
    return ViewPage(await plain_rows(view, found.rows), found.cursor)


async def plain_rows(view: View, rows: Sequence[Parked]) -> list[PlainParked]:
    """Each in the terms of JSON, with what its method is called with."""
    made = zip(rows, await _calls(view, rows), strict=True)
    return await view.each(
        lambda one: _plain(view, one[0], one[1], None if one[1] is None else arguments.brief(view, one[1].args)), made
    )


async def rows(
    view: View, query: Query, limit: int = 50, cursor: str | None = None, fits: Fits = lambda row: True
) -> RowPage[Parked]:
    """The same before they are plain; those of Wakeful's own classes too, since a person has to look at them as well."""
    return await find(view, PARKED, query, limit=limit, cursor=cursor, keep=fits)


async def show(view: View, number: int, id: ObjectId | None = None, *, prefix: str | None = None) -> PlainParked:
    """One parked timer with its traceback; `id` says in which store, where several have their own numbers."""
    row = await one(view, number, id, prefix=prefix)
    [call] = await _calls(view, [row])
    return _plain(view, row, call, None if call is None else await arguments.show(view, call.args))


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


class _Call(NamedTuple):
    """What a parked timer would call, and with what."""

    method: str
    args: bytes | None
    metadata: bytes | None


async def _calls(view: View, rows: Sequence[Parked]) -> list[_Call | None]:
    """Of a job what its timer carries; of a schedule's run what its schedule has now, as a redrive would. Others have none."""
    timers = [row.timer for row in rows]
    names = {timer: (timer.id, name) for timer in timers if (name := schedule_named(timer.name)) is not None}
    records = {(id, name): record for id, name, record in await records_named(view, set(names.values()))}
    calls: list[_Call | None] = []
    for timer in timers:
        if timer.name.startswith(f"{JOB}:"):
            kept = readable_payload(timer)
            calls.append(_Call(kept.method, kept.args, kept.metadata))
        elif timer in names and names[timer] in records:
            options = records[names[timer]].options
            calls.append(_Call(options.handler, options.args, options.metadata))
        else:
            calls.append(None)
    return calls


def _plain(view: View, row: Parked, call: _Call | None, given: arguments.PlainArguments | None) -> PlainParked:
    """A parked timer: which, since when, why; the number as whoever looks sees it."""
    timer = row.timer
    return {
        "number": view.mask(row.number),
        "class": timer.id.cls,
        "key": timer.id.key,
        "timer": timer.name,
        "words": parked_words(timer),
        "schedule": schedule_named(timer.name),
        "job": job_id(timer.id, timer.name) if timer.name.startswith(f"{JOB}:") else None,
        "method": None if call is None else call.method,
        "arguments": given,
        "metadata": None if call is None or call.metadata is None else plain_of(call.metadata),
        "nominal_at": iso(timer.nominal_at),
        "parked_at": iso(row.parked_at),
        "attempts": row.attempts,
        "reason": row.reason,
        "error": row.error,
        "traceback": row.traceback,
        "run_id": row.run_id,
    }
