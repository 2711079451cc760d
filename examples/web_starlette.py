"""Cron for each tenant behind a Starlette application. Run it: cd examples && uvicorn web_starlette:web"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from wakeful import App, DurableObject, Run, WakefulError, errors

app = App()


@app.object
class Tenant(DurableObject):
    """Holds the jobs of one tenant; the key is its name."""

    async def call(self, url: str, run: Run) -> None:
        # A real one would post to the url, with run.id as the idempotency key.
        await self.storage.put(f"called:{url}", run.nominal_at)


async def put(request: Request) -> JSONResponse:
    """PUT /tenants/acme/jobs/report {"when": "every weekday at 9am", "zone": "Asia/Tokyo", "url": "https://…"}"""
    tenant, name, job = request.path_params["tenant"], request.path_params["name"], await request.json()
    schedules = app.schedules(Tenant, tenant)
    # What fell due while nobody ran it is made up for once; a call that still runs is not joined by a second.
    policy = {"catch_up": "latest", "overlap": "skip", "jitter": "2m", "zone": job.get("zone", "UTC")}
    made = await schedules.add(job["when"], Tenant.call, job["url"], name=name, **policy)
    return JSONResponse({"name": made.name, "words": made.spec.describe(), "next": made.next_at.isoformat()})


async def listed(request: Request) -> JSONResponse:
    found = await app.schedules(Tenant, request.path_params["tenant"]).list()
    return JSONResponse([{"name": one.name, "state": one.state, "runs": one.counters.runs} for one in found])


async def act(request: Request) -> JSONResponse:
    """POST /tenants/acme/jobs/report/pause, resume or trigger"""
    schedules = app.schedules(Tenant, request.path_params["tenant"])
    acts = {"pause": schedules.pause, "resume": schedules.resume, "trigger": schedules.trigger}
    asked = request.path_params["act"]
    if asked not in acts:
        return JSONResponse({"error": f"{asked} is none of {', '.join(acts)}"}, 404)
    await acts[asked](request.path_params["name"])
    return JSONResponse({"done": asked})


async def refused(request: Request, error: Exception) -> JSONResponse:
    """Errors say what is wrong and what to do; they are made to be shown."""
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, errors.UnknownSchedule) else 422)


web = Starlette(
    lifespan=app.lifespan,  # the one line: in $WAKEFUL_STORE, or in wakeful.db
    exception_handlers={WakefulError: refused},
    routes=[
        Route("/tenants/{tenant}/jobs", listed),
        Route("/tenants/{tenant}/jobs/{name}", put, methods=["PUT"]),
        Route("/tenants/{tenant}/jobs/{name}/{act}", act, methods=["POST"]),
        Mount("/durable", app.asgi()),  # API and dashboard; without tokens for this machine only
    ],
)
