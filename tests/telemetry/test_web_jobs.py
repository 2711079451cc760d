"""A job that is scheduled over HTTP has the span of its scheduling, as one that the program schedules."""

import httpx

from tests.telemetry.spans_seen import Watch
from wakeful import App, DurableObject
from wakeful.server import Site


async def test_one_job_and_many_have_a_span() -> None:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def work(self) -> None: ...

    seen = Watch(app)
    job = {"class": "Cell", "key": "a", "method": "work"}
    async with app.world() as world:
        transport = httpx.ASGITransport(Site(app, dashboard=False))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7420") as client:
            assert (await client.post("/v1/jobs", json=job)).status_code == 201
            assert (await client.post("/v1/jobs/batch", json={"jobs": [job, job]})).status_code == 201
        await world.advance(seconds=1)
    assert [one.about["wakeful.jobs"] for one in seen.named("schedule Cell.work")] == [1, 2]
