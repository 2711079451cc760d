"""Queues at the edges: on the dashboard, with the client, on the command line."""

from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from tests.unit.dashboard_stage import staged
from wakeful import DurableObject, ObjectId, Queue, errors
from wakeful.client.jobs import ClientJobs
from wakeful.jobs.job import JobSpec

wakeful = pytest.fixture(make_stage)

MORE = """

from wakeful import Queue

class Mailer(DurableObject):
    async def send(self): ...
    async def fill(self):
        for _ in range(3):
            await self.jobs.schedule(self.send, queue=Queue("mail", rate="1/h"))

app.object(Mailer)
"""


async def test_the_page_shows_pauses_and_resumes_them_with_audit_rows() -> None:
    async with staged(is_seeded=False) as stage:

        class Mailer(DurableObject):
            async def send(self) -> None: ...

        stage.app.object(Mailer)
        assert "There are no queues" in await stage.text("/queues")
        for n in range(3):
            job = await stage.app.jobs.schedule(
                stage.app.get(Mailer, f"m{n}").send, queue=Queue("mail", rate="1/h", key="acme")
            )
        await stage.world.advance("1s")
        text = await stage.text("/queues")
        assert "rate 1/h" in text
        assert "Pause" in text
        assert (await stage.post("/queues/pause", name="mail")).status_code in (200, 303)
        assert (await stage.app.queues.get("mail")).paused_at is not None
        assert "Resume" in await stage.text("/queues")
        assert (await stage.post("/queues/resume", name="mail")).status_code in (200, 303)
        assert (await stage.app.queues.get("mail")).paused_at is None
        assert (await stage.post("/queues/pause", name="none")).status_code == 404
        assert "acme" in await stage.text(f"/job?id={job.id}")


def test_the_command_lists_pauses_and_resumes_them(wakeful: Stage) -> None:
    with (wakeful.path / "app.py").open("a") as file:
        file.write(MORE)

    async def fill(world: Any, _: Any) -> None:
        await world.node.send(ObjectId("Mailer", "m"), "fill", (), {})
        await world.advance("1s")

    wakeful.past(fill, start="2026-03-01T00:00Z")
    wakeful.monkeypatch.undo()
    wakeful.monkeypatch.chdir(wakeful.path)
    store = ("--store", f"sqlite:{wakeful.path}/wakeful.db")
    app = ("--app", "app.py", *store)
    [row] = wakeful("queues", *store, "--json").json["queues"]
    assert (row["name"], row["rate"], row["waiting"], row["admitted"]) == ("mail", "1/h", 2, 1)
    found = wakeful("queues", "pause", "mail", "--note", "no paper", *app)
    assert (found.code, found.out.strip()) == (0, "mail is paused")
    assert wakeful("queues", "pause", "mail", *app).code == 1
    assert "no paper" in wakeful("queues", *store).words
    assert wakeful("queues", "resume", "mail", *app, "--json").json == {"queue": "mail", "resumed": True}
    assert "no queue 'none'" in wakeful("queues", "resume", "none", *app).err


def test_a_client_says_that_it_can_t_put_a_job_into_one() -> None:
    jobs: Any = ClientJobs.__new__(ClientJobs)
    with pytest.raises(errors.BadOption, match="over HTTP"):
        jobs._job_body(JobSpec(_method(), queue=Queue("mail")))


def _method() -> Any:
    from wakeful import App

    app = App()

    @app.object
    class Mailer(DurableObject):
        async def send(self) -> None: ...

    return app.get(Mailer, "m").send
