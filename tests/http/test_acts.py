"""Schedules, jobs, parked timers and nodes from outside; each act with its audit row."""

import asyncio
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.http.http_stage import Stage, later, opened, problem

NIGHTLY = "/v1/objects/Shop/a/schedules/nightly"


async def acts(stage: Stage) -> list[tuple[str, str]]:
    """What the audit rows say was done, oldest first."""
    rows = (await stage.get("/v1/audit?refusals=false"))["rows"]
    return [(row["act"], row["outcome"]) for row in reversed(rows)]


async def test_the_life_of_a_schedule() -> None:
    async with opened() as stage:
        body = {"spec": "0 3 * * *", "handler": "nightly", "args": [7], "zone": "Europe/Paris", "tags": ["x"]}
        made = (await stage.ask("PUT", NIGHTLY, json=body)).json()
        assert (made["spec"], made["state"], made["tags"]) == ("cron 0 3 * * * in Europe/Paris", "active", ["x"])
        assert made["next"][0] == "2026-01-01T02:00:00.000Z"
        again = (await stage.ask("PUT", NIGHTLY, json=body)).json()
        assert again["version"] == 1
        paused = (await stage.ask("POST", f"{NIGHTLY}/pause", json={"note": "stock", "lasts": "2d"})).json()
        assert (paused["state"], paused["note"], paused["paused_until"]) == (
            "paused",
            "stock",
            "2026-01-03T00:00:00.000Z",
        )
        assert (await stage.ask("POST", f"{NIGHTLY}/resume")).json()["state"] == "active"
        [run_id] = (await stage.ask("POST", f"{NIGHTLY}/trigger")).json()["run_ids"]
        await stage.world.advance(hours=3)
        shown = await stage.get("/v1/objects/Shop/a")
        assert shown["storage"] == {"night": 7}
        rows = (await stage.get(f"{NIGHTLY}/history"))["rows"]
        assert [row["verdict"] for row in rows] == ["run", "run"]
        assert run_id in {row["run_id"] for row in rows}
        assert (await stage.get(f"{NIGHTLY}/why?limit=1"))["verdicts"][0]["why"]
        assert (await stage.ask("DELETE", NIGHTLY)).json() == {"cancelled": True}
        problem(await stage.ask("POST", f"{NIGHTLY}/pause"), 404, "schedule.unknown")
        assert [act for act, outcome in await acts(stage) if outcome == "done"] == [
            "schedule.add",
            "schedule.add",
            "schedule.pause",
            "schedule.resume",
            "schedule.trigger",
            "schedule.cancel",
        ]


async def test_a_backfill_can_be_seen_before_it_is_done() -> None:
    async with opened() as stage:
        await stage.ask("PUT", NIGHTLY, json={"spec": "0 3 * * *", "handler": "nightly"})
        stretch = {"start": "2025-12-01T00:00:00Z", "end": "2025-12-03T12:00:00Z"}
        seen = (await stage.ask("POST", f"{NIGHTLY}/backfill", json=stretch | {"dry_run": True})).json()
        assert [row["nominal_at"] for row in seen["rows"]] == [f"2025-12-0{day}T03:00:00.000Z" for day in (1, 2, 3)]
        assert "schedule.backfill" not in [act for act, _ in await acts(stage)]
        done = (await stage.ask("POST", f"{NIGHTLY}/backfill", json=stretch)).json()
        assert (done["dry_run"], len(done["rows"])) == (False, 3)
        await stage.world.advance(minutes=1)
        rows = (await stage.get(f"{NIGHTLY}/history"))["rows"]
        assert [row["is_backfill"] for row in rows] == [True] * 3


async def test_who_posts_a_schedule_is_told_how_one_is_made() -> None:
    async with opened() as stage:
        path = NIGHTLY.rpartition("/")[0]
        answer = await stage.ask("POST", path, json={"spec": "0 3 * * *", "handler": "nightly"})
        assert "PUT …/schedules/{name}" in problem(answer, 405, "method.not_allowed")["detail"]
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_a_backfill_does_not_count_what_is_still_to_come() -> None:
    async with opened() as stage:
        await stage.ask("PUT", NIGHTLY, json={"spec": "0 3 * * *", "handler": "nightly"})
        stretch = {"start": "2025-12-30T00:00:00Z", "end": "2026-01-05T00:00:00Z"}  # it is the 1st
        for body in (stretch | {"dry_run": True}, stretch):
            rows = (await stage.ask("POST", f"{NIGHTLY}/backfill", json=body)).json()["rows"]
            assert [row["nominal_at"] for row in rows] == [f"2025-12-{day}T03:00:00.000Z" for day in (30, 31)]
        later = {"start": "2026-01-03T00:00:00Z", "end": "2026-01-05T00:00:00Z"}
        for body in (later | {"dry_run": True}, later):
            assert (await stage.ask("POST", f"{NIGHTLY}/backfill", json=body)).json()["rows"] == []


async def test_at_after_and_options_of_a_schedule() -> None:
    async with opened() as stage:
        base = "/v1/objects/Shop/a/schedules"
        retry = {"max_attempts": 2, "first": "1s", "factor": 3, "most": 60}
        once = await stage.ask("PUT", f"{base}/once", json={"at": later(hours=5), "handler": "add", "retry": retry})
        assert once.json()["next"] == ["2026-01-01T05:00:00.000Z"]
        assert once.json()["max_attempts"] == 2
        soon = await stage.ask("PUT", f"{base}/soon", json={"after": "90s", "handler": "add", "kwargs": {"amount": 4}})
        assert soon.json()["next"] == ["2026-01-01T00:01:30.000Z"]
        await stage.world.advance(minutes=2)
        assert await stage.result("a", "total") == 4


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"handler": "add"}, 422, "schedule.when"),
        ({"handler": "add", "spec": "0 3 * * *", "after": 1}, 422, "schedule.when"),
        ({"handler": "add", "spec": "99 * * * *"}, 422, None),
        ({"handler": "inside", "spec": "0 3 * * *"}, 404, "method.unknown"),
        ({"handler": "_private", "spec": "0 3 * * *"}, 400, "name.method"),
        ({"handler": "add", "spec": "0 3 * * *", "args": ["x"]}, 422, "arguments.type"),
        ({"handler": "add", "spec": "0 3 * * *", "args": [1, 2]}, 422, "arguments.many"),
        ({"handler": "add", "spec": "0 3 * * *", "odd": 1}, 422, "body.fields"),
        ({"handler": "add", "spec": "0 3 * * *", "tags": "x"}, 422, "body.fields"),
        ({"handler": "add", "spec": "0 3 * * *", "overlap": "odd"}, 422, None),
        ({"handler": "add", "spec": "0 3 * * *", "start_at": "2026-01-01T00:00:00"}, 422, "time.naive"),
        ([], 422, "body.fields"),
        (None, 400, "body.missing"),
    ],
)
async def test_a_schedule_that_makes_no_sense_wakes_nothing(body: object, status: int, code: str | None) -> None:
    async with opened() as stage:
        answer = await stage.ask("PUT", NIGHTLY, **({} if body is None else {"json": body}))
        assert answer.status_code == status, answer.text
        problem(answer, status, code or answer.json()["code"])
        problem(await stage.ask("GET", "/v1/objects/Shop/a"), 404, "object.unknown")


async def test_the_life_of_a_job() -> None:
    async with opened() as stage:
        body = {"class": "Shop", "key": "a/b", "method": "add", "args": [2], "after": "10m", "job_key": "welcome"}
        answer = await stage.ask("POST", "/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        job = answer.json()
        assert (job["state"], job["due_at"], job["job_key"]) == ("scheduled", "2026-01-01T00:10:00.000Z", "welcome")
        assert (await stage.ask("POST", "/v1/jobs", json=body)).json()["id"] == job["id"]
        problem(await stage.ask("POST", "/v1/jobs", json=body | {"args": [3]}), 409, "job.key")
        path = f"/v1/jobs/{quote(job['id'], safe='')}"
        assert (await stage.get(path))["id"] == job["id"]
        assert (await stage.get("/v1/objects/Shop/a%2Fb/jobs"))["rows"][0]["id"] == job["id"]
        problem(await stage.ask("GET", f"{path}/wait?timeout=1"), 504, "job.wait")
        await stage.world.advance(minutes=11)
        assert await stage.get(f"{path}/wait") == {"result": 2}
        assert (await stage.get(path))["state"] == "done"
        assert (await stage.ask("POST", f"{path}/cancel")).json()["cancelled"] is False


async def test_a_cancelled_and_a_failed_job() -> None:
    async with opened() as stage:
        body = {"class": "Shop", "key": "a", "method": "add", "after": "10m"}
        path = f"/v1/jobs/{quote((await stage.ask('POST', '/v1/jobs', json=body)).json()['id'], safe='')}"
        assert (await stage.ask("POST", f"{path}/cancel")).json()["cancelled"] is True
        problem(await stage.ask("GET", f"{path}/wait"), 409, "job.cancelled")
        body = {"class": "Shop", "key": "a", "method": "fails", "retry": {"max_attempts": 1}}
        path = f"/v1/jobs/{quote((await stage.ask('POST', '/v1/jobs', json=body)).json()['id'], safe='')}"
        await stage.world.advance(minutes=1)
        problem(await stage.ask("GET", f"{path}/wait"), 424, "job.failed")
        [number] = [row["number"] for row in (await stage.get("/v1/parked"))["rows"]]
        rows = (await stage.ask("POST", "/v1/parked/redrive", json={"numbers": [number, 999]})).json()["rows"]
        assert {row["number"]: row["ok"] for row in rows} == {number: True, 999: False}
        await stage.world.advance(minutes=1)
        assert number not in [row["number"] for row in (await stage.get("/v1/parked"))["rows"]]
        rows = (await stage.ask("POST", "/v1/parked/redrive", json={"all": True, "class": "Shop"})).json()["rows"]
        assert [row["ok"] for row in rows] == [True]


async def test_many_jobs_all_or_none_and_one_when_all_have_ended() -> None:
    async with opened() as stage:
        one = {"class": "Shop", "key": "a", "method": "add", "args": [1], "after": 5}
        answer = await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [one, one | {"args": ["x"]}]})
        assert "jobs[1]" in problem(answer, 422, "arguments.type")["detail"]
        assert (await stage.get("/v1/jobs"))["rows"] == []
        then = {"class": "Shop", "key": "b", "method": "add", "args": [10]}
        made = (await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [one, one], "then": then})).json()
        assert len(made["rows"]) == 2
        await stage.world.advance(minutes=1)
        assert (await stage.result("a", "total"), await stage.result("b", "total")) == (2, 10)
        made = (await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [one]})).json()
        assert made["then"] is None
        problem(await stage.ask("POST", "/v1/jobs/batch", json={"jobs": []}), 422, "limit.count")


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"method": "inside"}, 404, "method.unknown"),
        ({"class": "wakeful.Tokens"}, 404, "class.unknown"),
        ({"key": ""}, 400, "name.key"),
        ({"args": ["x"]}, 422, "arguments.type"),
        ({"at": "2026-01-01T00:00:00"}, 422, "time.naive"),
        ({"at": "2026-01-01T00:00:00Z", "after": 1}, 422, "job.when"),
        ({"after": "soon"}, 422, "time.text"),
        ({"depends_on": ["x"]}, 404, "job.unknown"),
        ({"replace": True}, 422, "job.replace"),
        ({"metadata": {"a": [1]}}, 422, "body.fields"),
        ({"priority": 5_000}, 422, "job.priority"),
    ],
)
async def test_a_job_that_makes_no_sense(change: dict[str, object], status: int, code: str) -> None:
    async with opened() as stage:
        body = {"class": "Shop", "key": "a", "method": "add"} | change
        problem(await stage.ask("POST", "/v1/jobs", json=body), status, code)
        assert (await stage.get("/v1/jobs"))["rows"] == []


async def test_an_argument_may_be_called_like_an_option_of_a_job() -> None:
    async with opened() as stage:
        body = {"class": "Shop", "key": "a", "method": "typed", "kwargs": {"at": "x", "key": "y", "method": "z"}}
        job = (await stage.ask("POST", "/v1/jobs", json=body)).json()
        await stage.world.advance(seconds=1)
        path = f"/v1/jobs/{quote(job['id'], safe='')}/wait"
        assert await stage.get(path) == {"result": [[], {"at": "x", "key": "y", "method": "z"}]}


async def test_a_tenant_acts_on_its_own_only() -> None:
    async with opened() as stage:
        for key in ("eu/1", "us/1"):
            await stage.result(key, "doomed")
        await stage.world.advance(minutes=1)
        others = [row["number"] for row in (await stage.get("/v1/parked"))["rows"] if row["key"] == "us/1"]
        eu = await stage.token("eu", "operate", "call", tenant="eu/")
        body = {"class": "Shop", "key": "us/1", "method": "add"}
        problem(await stage.ask("POST", "/v1/jobs", json=body, token=eu), 403, "denied.tenant")
        other = [{"class": "Shop", "key": "eu/1", "method": "add"}, body]
        problem(await stage.ask("POST", "/v1/jobs/batch", json={"jobs": other}, token=eu), 403, "denied.tenant")
        problem(await stage.ask("POST", "/v1/jobs/Shop%2Fus%252F1%2Fx/cancel", token=eu), 403, "denied.tenant")
        path = "/v1/objects/Shop/us%2F1/schedules/doomed/trigger"
        problem(await stage.ask("POST", path, token=eu), 403, "denied.tenant")
        problem(await stage.ask("POST", "/v1/nodes/x/drain", token=eu), 403, "denied.tenant")
        rows = (await stage.ask("POST", "/v1/parked/redrive", json={"all": True}, token=eu)).json()["rows"]
        assert [row["key"] for row in rows] == ["eu/1"]
        rows = (await stage.ask("POST", "/v1/parked/redrive", json={"numbers": others}, token=eu)).json()["rows"]
        assert [row["ok"] for row in rows] == [False]


async def test_parked_timers_are_dropped_by_filters_within_what_a_token_may_see() -> None:
    async with opened() as stage:
        body = {"class": "Shop", "method": "fails", "retry": {"max_attempts": 1}}
        for key in ("eu/1", "eu/2", "us/1"):
            await stage.ask("POST", "/v1/jobs", json=body | {"key": key})
        await stage.world.advance(minutes=1)
        eu, all_of_it = await stage.token("eu", "operate", tenant="eu/"), await stage.token("all", "operate", "call")

        async def drop(token: str = "", **choice: object) -> list[str]:
            answer = await stage.ask("POST", "/v1/parked/drop", json=choice, token=token or all_of_it)
            return [row["key"] for row in answer.json()["rows"]]

        async def listed(**choice: str) -> list[str]:
            found = await stage.get(f"/v1/parked?{urlencode(choice)}", token=all_of_it)
            return [row["key"] for row in found["rows"]]

        [error] = {row["error"] for row in (await stage.get("/v1/parked", token=all_of_it))["rows"]}
        assert await listed(error=error.upper()) == ["eu/1", "eu/2", "us/1"]
        assert await listed(error="no such text") == await listed(older_than="2m") == []
        assert await listed(error=error, older_than="10s", prefix="eu/") == ["eu/1", "eu/2"]
        problem(await stage.ask("GET", "/v1/parked?older_than=soon", token=all_of_it), 422, "time.text")

        assert await drop(all=True, error="no such text") == []
        assert await drop(all=True, older_than="2m") == []
        assert await drop(eu, all=True, prefix="eu/2") == ["eu/2"]
        problem(
            await stage.ask("POST", "/v1/parked/drop", json={"all": True, "prefix": "us/"}, token=eu),
            422,
            "option.drop",
        )
        assert await drop(eu, all=True, prefix="") == ["eu/1"]
        problem(await stage.ask("POST", "/v1/parked/drop", json={}, token=all_of_it), 422, "option.drop")
        problem(
            await stage.ask("POST", "/v1/parked/drop", json={"all": True, "older_than": "soon"}, token=all_of_it),
            422,
            "time.text",
        )
        assert [row["key"] for row in (await stage.get("/v1/parked", token=all_of_it))["rows"]] == ["us/1"]
        [failed] = (await stage.get("/v1/jobs?state=failed", token=all_of_it))["rows"]
        path = f"/v1/jobs/{quote(failed['id'], safe='')}"
        assert (await stage.ask("POST", f"{path}/cancel", token=all_of_it)).json()["cancelled"] is True
        assert (await stage.get(path, token=all_of_it))["state"] == "cancelled"
        assert (await stage.get("/v1/parked", token=all_of_it))["rows"] == []


async def test_a_call_that_hangs_is_seen_and_cancelled() -> None:
    async with opened() as stage:
        hanging = asyncio.ensure_future(stage.call("eu/1", "slow", [1_000]))
        other = asyncio.ensure_future(stage.call("us/1", "slow", [20]))
        await stage.world.advance(seconds=3)
        rows = (await stage.get("/v1/calls?class=Shop"))["rows"]
        assert [(row["key"], row["method"], row["state"], row["for_ms"]) for row in rows] == [
            ("eu/1", "slow", "running", 3_000),
            ("us/1", "slow", "running", 3_000),
        ]
        assert (await stage.get("/v1/calls?prefix=us/&limit=1"))["rows"][0]["key"] == "us/1"
        reads, own = await stage.token("r", "read"), await stage.token("eu", "operate", tenant="eu/")
        path = f"/v1/calls/{quote(rows[0]['id'], safe='')}/cancel"
        foreign = f"/v1/calls/{quote(rows[1]['id'], safe='')}/cancel"
        problem(await stage.ask("POST", path, token=reads), 403, "denied.scope")
        problem(await stage.ask("POST", foreign, token=own), 403, "denied.tenant")
        problem(await stage.ask("POST", "/v1/calls/nonsense/cancel", token=own), 400, "call.id")
        seen = await stage.get("/v1/calls", token=own)
        assert [(row["key"], row["node"]) for row in seen["rows"]] == [("eu/1", None)]
        done = await stage.ask("POST", path, token=own)
        assert (done.status_code, done.json()["method"]) == (200, "slow")
        problem(await hanging, 409, "call.cancelled")
        problem(await stage.ask("POST", path, token=own), 409, "call.ended")
        auditor = await stage.token("auditor", "admin")
        rows = (await stage.get("/v1/audit?refusals=false", token=auditor))["rows"]
        assert [row["outcome"] for row in rows if row["act"] == "call.cancel"] == ["nothing", "done"]
        await stage.world.advance(seconds=30)
        assert (await other).status_code == 200


async def test_draining_a_node() -> None:
    async with opened() as stage:
        problem(await stage.ask("POST", "/v1/nodes/node-1/drain"), 409, "store.single")
    async with opened(nodes=2) as stage:
        problem(await stage.ask("POST", "/v1/nodes/nobody/drain"), 409, "node.left")
        name = stage.world.members[1].node.name  # type: ignore[union-attr]
        assert (await stage.ask("POST", f"/v1/nodes/{name}/drain")).json() == {"node": name, "is_draining": True}
        await stage.world.advance(seconds=20)
        rows = {row["node"]: row for row in (await stage.get("/v1/nodes"))["rows"]}
        assert (rows[name]["state"], rows[name]["shards"]) == ("draining", [])
        assert (await stage.ask("POST", f"/v1/nodes/{name}/undrain")).json()["is_draining"] is False


async def test_the_audit_row_of_an_act_that_changed_nothing_or_not_all_says_so() -> None:
    async with opened() as stage:
        body = {"class": "Shop", "key": "a", "method": "fails", "retry": {"max_attempts": 1}, "job_key": "f"}
        path = f"/v1/jobs/{quote((await stage.ask('POST', '/v1/jobs', json=body)).json()['id'], safe='')}"
        await stage.world.advance(minutes=1)
        [number] = [row["number"] for row in (await stage.get("/v1/parked"))["rows"]]
        for numbers in ([999], [998, 999], [number, 999]):
            await stage.ask("POST", "/v1/parked/redrive", json={"numbers": numbers})
        await stage.ask("POST", "/v1/parked/redrive", json={"all": True, "class": "Nobody"})
        await stage.world.advance(minutes=1)
        assert (await stage.ask("POST", f"{path.replace('fails', 'add')}x/cancel")).json()["cancelled"] is False
        await stage.ask("PUT", NIGHTLY, json={"spec": "0 3 * * *", "handler": "nightly"})
        await stage.ask("POST", f"{NIGHTLY}/resume")  # it is not paused
        assert (await stage.ask("DELETE", NIGHTLY)).json() == {"cancelled": True}
        assert (await stage.ask("DELETE", NIGHTLY)).json() == {"cancelled": False}
        rows = (await stage.get("/v1/audit?refusals=false"))["rows"]
        assert [(row["act"], row["outcome"], row["error"]) for row in reversed(rows)] == [
            ("redrive", "nothing", "999 is not parked"),
            ("redrive", "nothing", "998 is not parked; 999 is not parked"),
            ("redrive", "partly", "1 of 2 set due again: 999 is not parked"),
            ("redrive", "nothing", "nothing like that is parked"),
            ("job.cancel", "nothing", "it is over, or there is none"),
            ("schedule.add", "done", None),
            ("schedule.resume", "nothing", "it was not paused"),
            ("schedule.cancel", "done", None),
            ("schedule.cancel", "nothing", "there is none of that name"),
        ]


async def test_objects_are_forgotten_by_whoever_may_and_counted_before() -> None:
    async with opened() as stage:
        for key in ("eu/1", "eu/2", "us/1"):
            await stage.ask("POST", "/v1/jobs", json={"class": "Shop", "key": key, "method": "fails", "after": 60})
        operator, admin = await stage.token("all", "operate"), await stage.token("root", "admin", "read")

        async def forget(**choice: object) -> Any:
            return await stage.ask("POST", "/v1/forget", json=choice, token=admin)

        problem(await stage.ask("POST", "/v1/forget", json={"prefix": "eu/"}, token=operator), 403, "denied.scope")
        for wrong in ({}, {"class": "Shop"}, {"key": "eu/1"}, {"class": "wakeful.Audit", "key": "all"}, {"prefix": ""}):
            problem(await forget(**wrong), 422, "option.forget")
        bound = await stage.token("bound", "admin", tenant="us/")
        for foreign in ({"class": "Shop", "key": "eu/1"}, {"prefix": "eu/"}, {"prefix": "u"}):
            answer = await stage.ask("POST", "/v1/forget", json=foreign | {"dry_run": True}, token=bound)
            problem(answer, 403, "denied.tenant")
        refused = (await stage.get("/v1/audit", token=admin))["rows"]
        assert (
            sum("denied.tenant" in str(row) or "bound to us/" in str(row) for row in refused) == 1
        )  # alike ones are counted
        held = (await forget(prefix="eu/", dry_run=True)).json()["held"]
        assert (held["objects"], held["timers"], held["parked"]) == (2, 2, 0)
        one = {"dry_run": False, "forgotten": 1, "held": None}
        assert (await forget(**{"class": "Shop", "key": "eu/1"})).json() == one
        assert (await forget(**{"class": "Shop", "key": "eu/1"})).json() == one | {"forgotten": 0}
        assert (await forget(prefix="eu/")).json() == one
        assert [row["key"] for row in (await stage.get("/v1/objects?class=Shop", token=admin))["rows"]] == ["us/1"]
