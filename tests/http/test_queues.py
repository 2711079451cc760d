"""Queues at the edges: on the dashboard, with the client, on the command line."""

from typing import Any

import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import opened, problem
from tests.unit.cli_stage import Stage, make_stage
from tests.unit.dashboard_stage import staged
from wakeful import App, DurableObject, ObjectId, Queue, Step, Workflow, errors
from wakeful.cli import checkups
from wakeful.telemetry import prometheus
from wakeful.telemetry.samples import count_queues

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


class Post(DurableObject):
    async def send(self) -> None: ...


class Flow(Workflow):
    async def run(self, step: Step, length: str) -> None:  # type: ignore[override]
        await step.sleep("a while", length)


def make_app() -> App:
    app = App()
    app.object(Post)
    app.object(Flow)
    return app


async def test_over_http_they_are_listed_and_joined_by_name() -> None:
    async with opened(app := make_app()) as stage:
        assert (await stage.get("/v1/queues"))["rows"] == []
        problem(await stage.ask("GET", "/v1/queues/mail"), 404, "queue.unknown")
        limits = Queue("mail", rate="1/h", concurrency=5)
        await app.jobs.schedule(app.get(Post, "first").send, queue=limits)
        await stage.world.advance("1s")
        job = {"class": "Post", "key": "m", "method": "send"}
        row = (await stage.ask("POST", "/v1/jobs", json={**job, "queue": {"name": "mail", "key": "acme"}})).json()
        assert (row["queue"], row["queue_key"]) == ("mail", "acme")
        assert (await stage.ask("POST", "/v1/jobs", json={**job, "queue": "mail"})).json()["queue"] == "mail"
        started = await stage.ask("POST", "/v1/objects/Flow/a/start", json={"length": "1h", "queue": "mail"})
        assert started.json()["result"]["state"] == "queued"
        await stage.world.advance("2m")
        row = await stage.get("/v1/queues/mail")
        assert (row["waiting"], row["rate"], row["concurrency"], row["admitted"]) == (3, "1/h", 5, 1)
        assert (await stage.get("/v1/queues"))["rows"] == [row]
        assert row["oldest_at"] == "2026-01-01T00:00:01.000Z"
        assert row["moved_at"] == "2026-01-01T00:00:01.000Z"  # when the first came to wait
        paused = await stage.ask("POST", "/v1/queues/mail/pause", json={"note": "no paper"})
        assert (paused.json()["note"], paused.json()["paused_at"] is not None) == ("no paper", True)
        assert (await stage.ask("POST", "/v1/queues/mail/resume")).json()["paused_at"] is None
        for queue in ({"name": "mail", "concurrency": 1_000}, {"key": "acme"}, 5):
            body = {"length": "1h", "queue": queue}
            problem(await stage.ask("POST", "/v1/objects/Flow/b/start", json=body), 422, "queue.outside")
        wrong = await stage.ask("POST", "/v1/jobs", json={**job, "queue": {"name": "mail", "concurrency": 1}})
        assert wrong.status_code in (400, 422)
        rows = (await stage.get("/v1/audit?refusals=false"))["rows"]
        assert [(row["act"], row["outcome"]) for row in rows] == [("queue.resume", "done"), ("queue.pause", "done")]


async def test_a_client_names_one_and_says_no_limits_of_it() -> None:
    async with served(app := make_app()) as server, client_of(server) as client:
        job = await client.jobs.schedule(client.get(Post, "m").send, queue=Queue("mail", key="acme"))
        assert (job.queue, job.queue_key) == ("mail", "acme")
        status = await client.get(Flow, "a").start("1h", queue=Queue("mail", key="acme"))
        assert status.queue == "mail"
        assert [row["name"] for row in await client.queues()] == ["mail"]
        assert (await client.pause_queue("mail", "why"))["note"] == "why"
        assert (await client.resume_queue("mail"))["paused_at"] is None
        assert (await client.queue("mail"))["concurrency"] is None
        with pytest.raises(errors.UnknownObject):
            await client.queue("none")
        with pytest.raises(errors.BadOption) as caught:
            await client.jobs.schedule(client.get(Post, "m").send, queue=Queue("mail", concurrency=9))
        assert caught.value.code == "queue.outside"
        with pytest.raises(errors.BadOption) as start:
            await client.get(Flow, "b").start("1h", queue=Queue("mail", concurrency=9))
        assert start.value.code == "queue.outside"
        assert (await app.queues.get("mail")).concurrency is None


async def test_how_they_stand_is_measured_and_the_doctor_sees_one_that_does_not_move() -> None:
    app = make_app()
    async with app.world() as world:
        for key in "abc":
            await world.get(Flow, key).start("1d", queue=Queue("mail", concurrency=1))
        await world.advance("5m")
        await count_queues(world.node)
        text = prometheus.page(app)
        for line in ('waiting{queue="mail"} 2', 'running{queue="mail"} 1', 'oldest_seconds{queue="mail"} 300'):
            assert f"wakeful_queues_{line}" in text
        assert await _examined(world) == []
        await world.advance("10m")
        [found] = await _examined(world)
        assert (found.status, "2 wait" in found.text, "1 place of 1 taken" in found.text) == ("warn", True, True)
        await app.queues.pause("mail", "no paper")
        [found] = await _examined(world)
        assert "it is paused (no paper)" in found.text
        assert found.remedy == "wakeful queues resume mail"


async def _examined(world: Any) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkups, "now_ms", world.node.clock.now)
        return await checkups.queues(world.store)
