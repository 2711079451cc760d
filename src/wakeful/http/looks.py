"""Layer 5. What is there to see: objects, timers, schedules, jobs, parked timers, nodes? Nothing of it wakes an object."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any
from urllib.parse import quote

from wakeful.http.asks import MSGPACK, Answer, Ask, json_answer, result
from wakeful.http.problems import Problem
from wakeful.machines.node_machines import feature_of
from wakeful.operations.acts import Which
from wakeful.schedules.options import check_schedule_name
from wakeful.schedules.queries import as_schedule, record_of
from wakeful.schedules.schedules import next_times
from wakeful.security import audit
from wakeful.values.errors import BadOption, UnknownParked
from wakeful.values.ids import ObjectId
from wakeful.values.times import duration_ms
from wakeful.views import (
    calls,
    classes,
    due,
    history,
    jobs,
    ledger,
    machines,
    nodes,
    objects,
    parked,
    schedules,
    search,
    webhooks,
)

SVG = b"image/svg+xml"
NUMBER_DIGITS_MAX = 18  # of what stores can count

# A picture is drawn from what the program and its objects say: should it hold a script, no browser runs it.
SVG_HEADERS = ((b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),)


def object_of(ask: Ask) -> ObjectId:
    return ObjectId(ask.params["class"], ask.params["key"])


def page_answer(ask: Ask, rows: Sequence[Mapping[str, Any]], cursor: str | None) -> Answer:
    """A page, with a link to the next; of rows about objects only those that the caller may know of."""
    rows = [row for row in rows if "class" not in row or ask.who.sees(ObjectId(row["class"], row["key"]))]
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if cursor is not None:
        given = {name: value for name, value in ask.query.items() if value is not None and name != "cursor"}
        query = "&".join(
            f"{name}={quote(_text(value), safe='')}" for name, value in {**given, "cursor": cursor}.items()
        )
        headers = ((b"link", f'<{ask.path}?{query}>; rel="next"'.encode()),)
    return Answer(json_answer({"rows": rows, "cursor": cursor}).body, headers=headers)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def prefix_of(ask: Ask) -> str | None:
    """The beginning of keys that is asked for, within what the caller may know of."""
    bound, asked = ask.who.prefix, ask.query.get("prefix")
    if bound is None or asked is None:
        return bound if asked is None else str(asked)
    return asked if asked.startswith(bound) else bound


def is_outside(ask: Ask) -> bool:
    """The beginning asked for and the caller's own have nothing in common."""
    bound, asked = ask.who.prefix, ask.query.get("prefix")
    return bound is not None and asked is not None and not (asked.startswith(bound) or bound.startswith(asked))


# lists


async def list_classes(ask: Ask) -> Answer:
    has_counts = ask.who.tenant is None  # how many others have is not a tenant's to know
    found = await classes.page(ask.view, has_counts=has_counts)
    return json_answer({"rows": found.rows, "cursor": None})


async def list_objects(ask: Ask) -> Answer:
    if is_outside(ask):
        return page_answer(ask, [], None)
    asked = ask.query
    found = await objects.page(
        ask.view, asked["class"], prefix_of(ask), asked["contains"], asked["limit"], asked["cursor"]
    )
    return page_answer(ask, found.rows, found.cursor)


async def list_due(ask: Ask) -> Answer:
    if is_outside(ask):
        return page_answer(ask, [], None)
    asked = ask.query
    prefix = prefix_of(ask)
    found = await due.page(
        ask.view, asked["class"], asked["key"], asked["limit"], asked["cursor"], prefix=prefix, name=asked["timer"]
    )
    return page_answer(ask, found.rows, found.cursor)


async def list_ledger(ask: Ask) -> Answer:
    if is_outside(ask):
        return page_answer(ask, [], None)
    asked = ask.query
    id = ObjectId(asked["class"], asked["key"]) if asked["class"] and asked["key"] else None
    if asked["key"] and not asked["class"]:
        raise BadOption("key goes with class", code="query.value")
    found = await ledger.page(
        ask.view, id, asked["timer"], asked["limit"], asked["cursor"], cls=asked["class"], prefix=prefix_of(ask)
    )
    return page_answer(ask, found.rows, found.cursor)


async def list_schedules(ask: Ask) -> Answer:
    if is_outside(ask):
        return page_answer(ask, [], None)
    asked = ask.query
    named = [asked[name] for name in ("class", "key", "tag", "state", "contains", "limit", "cursor")]
    found = await schedules.page(ask.view, *named, prefix=prefix_of(ask))
    return page_answer(ask, found.rows, found.cursor)


async def list_jobs(ask: Ask) -> Answer:
    if is_outside(ask):
        return page_answer(ask, [], None)
    asked = ask.query
    page = await jobs.page(
        ask.view,
        asked["class"],
        asked["key"],
        asked["state"],
        asked["limit"],
        asked["cursor"],
        method=asked["method"],
        key_prefix=asked["job_key_prefix"],
        tag=asked["tag"],
        prefix=prefix_of(ask),
    )
    return page_answer(ask, page.rows, page.cursor)


async def list_parked(ask: Ask) -> Answer:
    if is_outside(ask):
        return page_answer(ask, [], None)
    asked = ask.query
    age = asked["older_than"]
    before = None if age is None else ask.node.clock.now() - duration_ms(age, what="older_than")
    which = Which(error=asked["error"], before=before)
    page = await parked.page(
        ask.view,
        asked["class"],
        asked["key"],
        asked["limit"],
        asked["cursor"],
        prefix=prefix_of(ask),
        fits=which.fits,
    )
    return page_answer(ask, [_without_trace(ask, row) for row in page.rows], page.cursor)


async def list_nodes(ask: Ask) -> Answer:
    found = await nodes.page(ask.view)
    return json_answer({"rows": found.rows, "cursor": None, "unowned": found.unowned, "lost": found.lost})


async def list_webhooks(ask: Ask) -> Answer:
    return json_answer({"rows": await webhooks.rows(ask.node.send), "cursor": None})


async def list_calls(ask: Ask) -> Answer:
    if is_outside(ask):
        return json_answer({"rows": [], "cursor": None, "mute": []})
    asked = ask.query
    found = await calls.page(ask.view, asked["class"], asked["key"], asked["limit"], prefix=prefix_of(ask))
    rows = [row for row in found.rows if ask.who.sees(ObjectId(row["class"], row["key"]))]
    return json_answer({"rows": rows, "cursor": None, "mute": found.mute})


async def list_audit(ask: Ask) -> Answer:
    asked = ask.query
    page = await audit.page(
        ask.node.store,
        limit=asked["limit"],
        cursor=asked["cursor"],
        has_refusals=asked["refusals"],
        actor=asked["actor"],
        breathe=ask.view.breathe,
    )
    return page_answer(ask, page.rows, page.cursor)


async def find(ask: Ask) -> Answer:
    found = await search.find(ask.view, ask.query["q"], ask.query["limit"], prefix=ask.who.prefix)
    return json_answer({"rows": found, "cursor": None})


# one thing


async def show_object(ask: Ask) -> Answer:
    shown = await objects.show(ask.view, object_of(ask), ask.query["limit"])
    shown["parked"] = [_without_trace(ask, row) for row in shown["parked"]]
    return json_answer(shown)


async def show_storage(ask: Ask) -> Answer:
    id = object_of(ask)
    await ask.view.info(id)
    found = await objects.storage(ask.view, id, ask.query["prefix"], ask.query["limit"], ask.query["cursor"])
    return page_answer(ask, found.rows, found.cursor)


async def show_timers(ask: Ask) -> Answer:
    id, asked = object_of(ask), ask.query
    found = await due.page(ask.view, id.cls, id.key, asked["limit"], asked["cursor"])
    return page_answer(ask, found.rows, found.cursor)


async def show_ledger(ask: Ask) -> Answer:
    asked = ask.query
    found = await ledger.page(ask.view, object_of(ask), asked["timer"], asked["limit"], asked["cursor"])
    return page_answer(ask, found.rows, found.cursor)


async def show_points(ask: Ask) -> Answer:
    id, asked = object_of(ask), ask.query
    await ask.view.info(id)
    found = await history.page(ask.view, id, asked["limit"], asked["cursor"])
    return page_answer(ask, found.rows, found.cursor)


async def show_schedules(ask: Ask) -> Answer:
    id, asked = object_of(ask), ask.query
    if ask.wants_types:
        wanted = schedules.ScheduleFilter(id.cls, id.key, asked["tag"], asked["state"], asked["contains"])
        typed = await schedules.rows(ask.view, wanted, asked["limit"], asked["cursor"])
        return result({"rows": [row.schedule for row in typed.rows], "cursor": typed.cursor}, MSGPACK)
    named = [asked[name] for name in ("tag", "state", "contains", "limit", "cursor")]
    found = await schedules.page(ask.view, id.cls, id.key, *named)
    return page_answer(ask, found.rows, found.cursor)


async def show_parked_of(ask: Ask) -> Answer:
    id, asked = object_of(ask), ask.query
    found = await parked.page(ask.view, id.cls, id.key, asked["limit"], asked["cursor"])
    return page_answer(ask, [_without_trace(ask, row) for row in found.rows], found.cursor)


async def show_jobs_of(ask: Ask) -> Answer:
    id, asked = object_of(ask), ask.query
    found = await jobs.page(ask.view, id.cls, id.key, asked["state"], asked["limit"], asked["cursor"])
    return page_answer(ask, found.rows, found.cursor)


async def show_chart(ask: Ask) -> Answer:
    """The picture of a machine as it stands."""
    id = object_of(ask)
    bound = feature_of(ask.node).classes.get(id.cls)
    if bound is None:
        raise Problem(404, "machine.class", f"{id.cls} is no Machine, so there is no picture of it")
    picture = await machines.picture(ask.view, id, bound.chart.config, bound.version, UTC)
    return Answer(picture.encode(), 200, SVG, SVG_HEADERS)


async def show_schedule(ask: Ask) -> Answer:
    if ask.wants_types:
        id, name, view = object_of(ask), schedule_name(ask), ask.view
        await view.info(id)
        return result(as_schedule(name, await record_of(view.store_of(id), id, name), view.now()), MSGPACK)
    return json_answer(await schedules.show(ask.view, object_of(ask), schedule_name(ask)))


async def show_history(ask: Ask) -> Answer:
    """The latest verdicts with their reasons."""
    id, name = object_of(ask), schedule_name(ask)
    if ask.wants_types:
        about = await schedules.about_of(ask.view.store_of(id), id, name, limit=ask.query["limit"])
        return result(about.runs[: ask.query["limit"]], MSGPACK)
    shown = await schedules.show(ask.view, id, name, limit=ask.query["limit"], upcoming=1)
    return json_answer({"class": id.cls, "key": id.key, "schedule": name, "rows": shown["verdicts"], "cursor": None})


async def show_next(ask: Ask) -> Answer:
    """The times to come."""
    id, name, view = object_of(ask), schedule_name(ask), ask.view
    await view.info(id)
    record = await record_of(view.store_of(id), id, name)
    # A thousand times of a rare spec take longer than timers may wait.
    found = await asyncio.to_thread(next_times, record, view.now(), ask.query["limit"])
    times = [when.isoformat() for when in found]
    return json_answer({"class": id.cls, "key": id.key, "schedule": name, "times": times})


async def show_why(ask: Ask) -> Answer:
    shown = await schedules.show(ask.view, object_of(ask), schedule_name(ask), limit=ask.query["limit"])
    return json_answer(shown)


async def show_parked(ask: Ask) -> Answer:
    number = ask.params["number"]
    if not (number.isascii() and number.isdigit()):
        raise UnknownParked(f"nothing is parked under {number[:40]!r}, which is no number; GET /v1/parked has them")
    if len(number) > NUMBER_DIGITS_MAX:
        words = f"nothing is parked under a number of {len(number)} digits, {NUMBER_DIGITS_MAX} at most"
        raise UnknownParked(f"{words}; GET /v1/parked has them")
    try:
        row = await parked.show(ask.view, int(number), prefix=ask.who.prefix)
    except UnknownParked as error:  # whose it is, if there is one, is not said; that somebody tried is written down
        if ask.who.tenant is not None:
            await ask.gate.refuse(connection_of(ask), ask.who, error)
        raise
    await ask.gate.check_named(connection_of(ask), ask.who, row["class"], row["key"])
    return json_answer(_without_trace(ask, row))


def connection_of(ask: Ask) -> Any:
    from starlette.requests import HTTPConnection

    return HTTPConnection(ask.scope)


def schedule_name(ask: Ask) -> str:
    return check_schedule_name(ask.params["name"])


def _without_trace(ask: Ask, row: parked.PlainParked) -> parked.PlainParked:
    """Tracebacks are for operators."""
    return row if ask.who.may("operate") else {**row, "traceback": None}
