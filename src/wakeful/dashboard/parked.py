"""Layer 5. The pages of what is parked: errors, tracebacks, and setting them due again."""

from typing import TYPE_CHECKING, Any

from wakeful.dashboard.visits import Visit
from wakeful.operations.acts import Which
from wakeful.values.errors import BadOption, UnknownParked
from wakeful.values.ids import ObjectId
from wakeful.values.times import duration_ms
from wakeful.views import parked

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 100
AGES = {"1h": "an hour", "1d": "a day", "7d": "a week", "30d": "30 days"}


async def listing(visit: Visit, outcome: dict[str, Any] | None = None) -> "Response":
    """Parked timers, oldest first, that the filters of the address leave."""
    filters = _filters(visit) if outcome is None else {}
    which = _choose_all(visit, filters)
    page = await parked.page(
        visit.view, which.cls, which.key, ROWS, visit.query("cursor"), prefix=which.prefix, fits=which.fits
    )
    is_whole = page.cursor is None and visit.query("cursor") is None
    total = None if filters or visit.caller.tenant is not None else await visit.count("parked")
    return await visit.render(
        "parked.html",
        "parked",
        rows=page.rows,
        cursor=page.cursor,
        outcome=outcome,
        classes=await visit.classes(),
        filters=filters,
        ages=AGES,
        count=len(page.rows) if is_whole else total,
    )


async def one(visit: Visit) -> "Response":
    """One of them, with its traceback."""
    number, id = _number(visit.query("number")), await _object(visit)
    try:
        row = await parked.show(visit.view, number, id, prefix=visit.caller.prefix)
    except UnknownParked as error:  # whose it is, if there is one, is not said; that somebody tried is written down
        if visit.caller.tenant is not None:
            await visit.desk.gate.refuse(visit.request, visit.caller, error)
        raise
    await visit.desk.gate.check_named(visit.request, visit.caller, row["class"], row["key"])
    return await visit.render("parked_one.html", "parked", lives=False, one=row)


async def redrive(visit: Visit) -> "Response":
    """Those that are ticked, or all that the filters leave of what the visitor sees."""
    return await _say(visit, await visit.acts.redrive(await _choice(visit, "redrive")), "redriven")


async def drop(visit: Visit) -> "Response":
    """Those that are ticked, or all that the filters leave: they never run."""
    return await _say(visit, await visit.acts.drop(await _choice(visit, "drop")), "dropped")


async def _choice(visit: Visit, what: str) -> Which:
    if visit.field("do") == "all":
        return _choose_all(visit, _filters(visit))._replace(is_all=True)
    numbers = [_number(text) for text in visit.form.get("number", ())]
    if not numbers:
        raise BadOption(f"nothing is ticked; tick the rows to {what}", code=f"option.{what}")
    id = await _object(visit)
    meant = [visit.view.meant(one) for one in numbers]
    return Which(meant, cls=id and id.cls, key=id and id.key, prefix=visit.caller.prefix)


def _filters(visit: Visit) -> dict[str, str]:
    """What the address filters by: of a list, and of the forms in it that are for all of it."""
    return {name: text for name in ("class", "prefix", "error", "older_than") if (text := visit.query(name))}


def _choose_all(visit: Visit, filters: dict[str, str]) -> Which:
    age = filters.get("older_than")
    before = None if age is None else visit.now - duration_ms(age, what="older_than")
    which = Which(cls=filters.get("class"), prefix=filters.get("prefix"), error=filters.get("error"), before=before)
    return which.within(visit.caller.prefix, "option.prefix")


async def _say(visit: Visit, results: list[dict[str, Any]], done: str) -> "Response":
    failed = [row | {"number": visit.view.mask(row["number"])} for row in results if not row["ok"]]
    if not failed:
        job = visit.field("job")  # it came from the page of a job
        if job:
            return visit.go("/job", id=job, said=done)
        return visit.go("/parked", said=done, **_filters(visit))
    visit.place = ("/parked", {})
    return await listing(visit, {"done": len(results) - len(failed), "failed": failed, "what": done})


async def _object(visit: Visit) -> ObjectId | None:
    """The object, when it is named: in several stores there may be several of one number."""
    named = visit.field("class") if visit.form else visit.query("class")
    return await visit.object() if named else None


def _number(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadOption(f"{text!r} is no number of a parked timer", code="parked.number")
    return int(text)
