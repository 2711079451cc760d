"""Layer 5. The pages of what is parked: errors, tracebacks, and setting them due again."""

from typing import TYPE_CHECKING, Any

from wakeful.dashboard.visits import Visit
from wakeful.operations.acts import Which
from wakeful.values.errors import BadOption, UnknownParked
from wakeful.values.ids import ObjectId
from wakeful.views import parked

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 100


async def listing(visit: Visit, outcome: dict[str, Any] | None = None) -> "Response":
    """Parked timers, oldest first."""
    found = await parked.page(visit.view, limit=ROWS, cursor=visit.query("cursor"), prefix=visit.caller.prefix)
    return await visit.render(
        "parked.html",
        "parked",
        rows=found.rows,
        cursor=found.cursor,
        outcome=outcome,
        count_is_known=visit.caller.tenant is None,
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
    """Those that are ticked, or all that the visitor sees."""
    return await _say(visit, await visit.acts.redrive(await _choice(visit, "redrive")), "redriven")


async def drop(visit: Visit) -> "Response":
    """Those that are ticked: they never run."""
    which = await _choice(visit, "drop")
    if which.is_all:
        raise BadOption("tick the rows to drop; all at once is for `wakeful parked drop --all`", code="option.drop")
    return await _say(visit, await visit.acts.drop(which), "dropped")


async def _choice(visit: Visit, what: str) -> Which:
    prefix = visit.caller.prefix
    if visit.field("do") == "all":
        return Which(is_all=True, prefix=prefix)
    numbers = [_number(text) for text in visit.form.get("number", ())]
    if not numbers:
        raise BadOption(f"nothing is ticked; tick the rows to {what}", code=f"option.{what}")
    id = await _object(visit)
    return Which([visit.view.meant(one) for one in numbers], cls=id and id.cls, key=id and id.key, prefix=prefix)


async def _say(visit: Visit, results: list[dict[str, Any]], done: str) -> "Response":
    failed = [row | {"number": visit.view.mask(row["number"])} for row in results if not row["ok"]]
    if not failed:
        job = visit.field("job")  # it came from the page of a job
        return visit.go("/job", id=job, said=done) if job else visit.go("/parked", said=done)
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
