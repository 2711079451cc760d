"""Layer 5. The pages Jobs and Job: what is owed, what failed, what became of the rest."""

from typing import TYPE_CHECKING

from wakeful.dashboard.visits import Visit
from wakeful.jobs.ids import parse_id
from wakeful.views import jobs

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 50
STATES = ("scheduled", "waiting", "running", "failed", "done", "cancelled")


async def listing(visit: Visit) -> "Response":
    """Owed ones in firing order, then failed, then ended ones."""
    cls, state = visit.query("class"), visit.query("state")
    page = await jobs.page(
        visit.view, cls, None, state, limit=ROWS, cursor=visit.query("cursor"), prefix=visit.caller.prefix
    )
    return await visit.render(
        "jobs.html",
        "jobs",
        rows=page.rows,
        cursor=page.cursor,
        classes=await visit.classes(),
        states=STATES,
        cls=cls,
        state=state,
    )


async def one(visit: Visit) -> "Response":
    """Everything that is known of one job."""
    id = visit.query("id") or ""
    await _check_seen(visit, id)
    return await visit.render("job.html", "jobs", one=await jobs.show(visit.view, id, is_cut=True))


async def cancel(visit: Visit) -> "Response":
    id = visit.field("id")
    await _check_seen(visit, id)
    found = await jobs.show(visit.view, id)  # asking an object that is not there would make it
    done = "ended" if found["state"] == "failed" else "cancelled"
    return visit.go("/job", id=id, said=done if await visit.acts.cancel_job(id) else "over")


async def _check_seen(visit: Visit, id: str) -> None:
    """The visitor may know of the object that the job is of."""
    target, _ = parse_id(id)
    await visit.desk.gate.check_named(visit.request, visit.caller, target.cls, target.key)
