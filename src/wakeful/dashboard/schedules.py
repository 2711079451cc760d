"""Layer 5. The pages Schedules and Schedule: how do they stand, why did they run or not, and what can be done?"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.dashboard.visits import Visit
from wakeful.dashboard.words import instant, length
from wakeful.policy.plan import spec_of
from wakeful.schedules.nights import local_time, night_note
from wakeful.specs.zones import instants_of, zone_of
from wakeful.values.errors import BadInput, BadTime
from wakeful.values.ids import ObjectId
from wakeful.values.times import duration_ms, from_datetime, to_datetime, within_years
from wakeful.views import ledger, schedules

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 50
TEN = 10


class BackfillForm(NamedTuple):
    """What somebody wants to run again, and what that would be."""

    start: str = ""
    end: str = ""
    start_at: int = 0
    end_at: int = 0
    times: list[ledger.PlainKnown] | None = None
    is_open: bool = False


async def listing(visit: Visit) -> "Response":
    """Those that have a next time, soonest first, then the ended ones."""
    asked = {name: visit.query(name) for name in ("class", "key", "tag", "state", "contains")}
    page = await schedules.page(
        visit.view,
        asked["class"],
        asked["key"],
        asked["tag"],
        asked["state"],
        asked["contains"],
        limit=ROWS,
        cursor=visit.query("cursor"),
        prefix=visit.caller.prefix,
    )
    return await visit.render(
        "schedules.html",
        "schedules",
        rows=page.rows,
        cursor=page.cursor,
        classes=await visit.classes(),
        states=schedules.STATES,
        cls=asked["class"],
        key=asked["key"],
        state=asked["state"],
        contains=asked["contains"] or "",
    )


async def one(visit: Visit) -> "Response":
    """One schedule; with `from` and `to` also what a backfill of that stretch would run."""
    id, name = await visit.object(), visit.query("name") or ""
    if visit.query("from") is None or visit.query("to") is None or not visit.caller.may("operate"):
        return await _show(visit, id, name, BackfillForm())
    start, end = visit.query("from") or "", visit.query("to") or ""
    try:
        zone = (await schedules.show(visit.view, id, name, limit=1))["zone"]
        start_at = meant(start, zone, visit.now, is_past=True)
        end_at = meant(end, zone, visit.now, is_past=True)
        times = await ledger.preview(visit.view, id, name, start_at, end_at)
    except BadInput as error:
        return await _show(visit, id, name, BackfillForm(start, end, is_open=True), problem=str(error))
    return await _show(visit, id, name, BackfillForm(start, end, start_at, end_at, times))


async def _show(visit: Visit, id: ObjectId, name: str, backfill: BackfillForm, problem: str = "") -> "Response":
    standing = await schedules.show(visit.view, id, name, limit=TEN)
    return await visit.render(
        "schedule.html",
        "schedules",
        status=400 if problem else 200,
        problem=problem,
        one=standing,
        cls=id.cls,
        key=id.key,
        name=name,
        sums=sums(standing),
        next=upcoming(standing),
        backfill=backfill,
    )


def sums(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The sums of its life, those that say something."""
    counted = found.get("counters")
    if counted is None:
        return []
    rows = [("runs", f"{counted['runs']:,}"), ("failed", f"{counted['failures']:,}")]
    rows += [("retried", f"{counted['retries']:,}"), ("missed", f"{counted['missed']:,}")]
    for name in ("overlap", "paused", "gap", "coalesced", "skipped", "too_late"):
        rows += [(name.replace("_", " "), f"{counted[name]:,}")] if counted[name] else []
    if counted["average_lateness_ms"] is not None:
        rows.append(("late on average", length(counted["average_lateness_ms"])))
    if counted["last_duration_ms"] is not None:
        rows.append(("last took", length(counted["last_duration_ms"])))
    return rows


def upcoming(found: dict[str, Any]) -> list[tuple[int, str, str]]:
    """The next times: instant, as the schedule's zone shows it, and what the clocks do there."""
    rows = []
    spec = spec_of(found["spec"]) if found.get("next") else None
    for at in map(instant, found.get("next", ())):
        assert at is not None
        assert spec is not None
        rows.append((at, f"{local_time(at, found['zone']):%a %Y-%m-%d %H:%M:%S}", night_note(spec, at)))
    return rows


def meant(text: str, zone: str, now: int, *, is_past: bool) -> int:
    """The instant that a person means: a length from now (or ago), milliseconds, or a time in the zone."""
    text = text.strip()
    try:
        span = duration_ms(text)
        return within_years(now - span if is_past else now + span, text)
    except BadTime as error:
        if error.code != "time.text":
            raise
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(
            f"{text!r} is no time: write it like 2026-03-29 02:30, 2026-03-29T00:30Z, or a length like 2h",
            code="time.text",
        ) from None
    if when.tzinfo is not None:
        return from_datetime(when)
    return within_years(instants_of(when, zone_of(zone), "shift", "first")[0], text)


# forms


async def pause(visit: Visit) -> "Response":
    id, name = await visit.object(), visit.field("name")
    until = visit.field("until").strip()
    try:
        found = await schedules.show(visit.view, id, name, limit=1)
        end = to_datetime(meant(until, found["zone"], visit.now, is_past=False)) if until else None
        await visit.acts.pause(id, name, note=visit.field("note").strip(), until=end)
    except BadInput as error:
        visit.place = ("/schedule", {"class": id.cls, "key": id.key, "name": name})
        return await _show(visit, id, name, BackfillForm(), problem=str(error))
    return _back(visit, id, name, "paused")


async def resume(visit: Visit) -> "Response":
    id, name = await visit.object(), visit.field("name")
    await schedules.show(visit.view, id, name, limit=1)  # asking an object that is not there would make it
    await visit.acts.resume(id, name)
    return _back(visit, id, name, "resumed")


async def trigger(visit: Visit) -> "Response":
    id, name = await visit.object(), visit.field("name")
    await schedules.show(visit.view, id, name, limit=1)
    await visit.acts.trigger(id, name)
    return _back(visit, id, name, "running")


async def backfill(visit: Visit) -> "Response":
    """What the preview showed."""
    id, name = await visit.object(), visit.field("name")
    try:
        start, end = (to_datetime(int(visit.field(field))) for field in ("from", "to"))
    except (ValueError, OverflowError):
        raise BadTime("a backfill is from one instant to another; preview it first", code="time.text") from None
    await schedules.show(visit.view, id, name, limit=1)
    await visit.acts.backfill(id, name, start, end)
    return _back(visit, id, name, "backfilled")


def _back(visit: Visit, id: ObjectId, name: str, said: str) -> "Response":
    return visit.go("/schedule", class_=id.cls, key=id.key, name=name, said=said)
