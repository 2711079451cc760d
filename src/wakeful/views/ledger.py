"""Layer 5. What came of the timers: run, failed, left out?"""

from typing import Any

from wakeful.jobs.ids import KEYED, method_in
from wakeful.store.protocol import Query
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Entry
from wakeful.views.pages import ENTRIES, ViewPage, find
from wakeful.views.plain import iso
from wakeful.views.timer_names import name_words, schedule_named
from wakeful.views.view import View, is_shown


async def page(
    view: View,
    id: ObjectId | None = None,
    name: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    cls: str | None = None,
    prefix: str | None = None,
) -> ViewPage:
    """Rows of the ledger, newest first: all, or of an object, a class, keys that begin so, a timer of that name."""
    cls, key = (cls, None) if id is None else id
    query = Query(cls=cls, key=key, key_prefix=prefix, name=name)
    found = await find(
        view, ENTRIES, query, limit=limit, cursor=cursor, keep=lambda row: is_shown(row[1].id.cls, query.cls)
    )
    return ViewPage(await view.each(lambda row: plain_entry(row[1], view.shown(row[0])), found.rows), found.cursor)


def plain_entry(entry: Entry, number: int) -> dict[str, Any]:
    """What came of one attempt, or of several occurrences that did not run."""
    return {
        "number": number,
        "class": entry.id.cls,
        "key": entry.id.key,
        "timer": entry.name,
        "words": _words(entry),
        "schedule": schedule_named(entry.name),
        "verdict": entry.verdict,
        "covers": entry.covers,
        "nominal_at": iso(entry.nominal_at),
        "fired_at": iso(entry.fired_at),
        "finished_at": iso(entry.finished_at),
        "lateness_ms": entry.fired_at - entry.nominal_at,
        "attempt": entry.attempt,
        "error": entry.error,
        "run_id": entry.run_id,
        "node": entry.node,
    }


def _words(entry: Entry) -> str:
    """The timer's name for people; of a job with a key the method too, which only its rows have."""
    words = name_words(entry.name)
    method = method_in(entry.name, entry.run_id) if entry.name.startswith(KEYED) else ""
    return f"{words}, {method}" if method else words
