"""Looking: every list and every thing, page by page, waking nothing, and only what the caller may know of."""

from urllib.parse import quote

import pytest

from tests.http.http_stage import Stage, opened, problem


async def furnish(stage: Stage) -> str:
    """Something of everything; the id of a job."""
    await stage.result("eu/1", "add", [3])
    await stage.result("eu/1", "plan")
    await stage.result("us/1", "alarm_soon", [3_600])
    await stage.result("eu/2", "doomed")
    await stage.ask("POST", "/v1/objects/Lamp/hall/send", json=[{"type": "TOGGLE"}])
    body = {"class": "Shop", "key": "eu/1", "method": "add", "args": [1], "after": "2h", "tags": ["x"]}
    job: str = (await stage.ask("POST", "/v1/jobs", json=body)).json()["id"]
    await stage.world.advance(minutes=10)
    await stage.world.sleep_all()
    assert stage.awake == set()
    return job


LISTS = ["classes", "objects", "schedules", "due", "ledger", "parked", "jobs", "nodes", "search?q=eu", "audit"]
OBJECT = "objects/Shop/eu%2F1"
THINGS = [
    OBJECT,
    *(f"{OBJECT}/{part}" for part in ("storage", "timers", "ledger", "schedules", "parked", "jobs")),
    f"{OBJECT}/schedules/nightly",
    *(f"{OBJECT}/schedules/nightly/{part}" for part in ("history", "next", "why")),
    "objects/Lamp/hall",
]


async def test_nothing_that_looks_wakes_anything() -> None:
    async with opened() as stage:
        job = await furnish(stage)
        number = (await stage.get("/v1/parked"))["rows"][0]["number"]
        for path in [*LISTS, *THINGS, f"parked/{number}", f"jobs/{quote(job, safe='')}"]:
            answer = await stage.ask("GET", f"/v1/{path}")
            assert answer.status_code == 200, (path, answer.text)
            assert stage.awake == set(), path
            head = await stage.ask("HEAD", f"/v1/{path}")
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] != "0"


async def test_what_is_shown_is_what_is_there() -> None:
    async with opened() as stage:
        await furnish(stage)
        keys = [row["key"] for row in (await stage.get("/v1/objects?class=Shop"))["rows"]]
        assert keys == ["eu/1", "eu/2", "us/1"]
        shown = await stage.get("/v1/objects/Shop/eu%2F1")
        assert shown["storage"] == {"sum": 3}
        assert shown["state"] is None
        assert [row["schedule"] for row in shown["schedules"]] == ["nightly"]
        assert (await stage.get("/v1/objects/Lamp/hall"))["machine"]["value"] == "off"
        [row] = (await stage.get("/v1/parked"))["rows"]
        assert (row["key"], row["schedule"]) == ("eu/2", "doomed")
        assert await stage.get(f"/v1/parked/{row['number']}") == row
        assert "ValueError: bad luck" in row["error"]
        names = [row["timer"] for row in (await stage.get("/v1/due?class=Shop"))["rows"]]
        assert names[0] == "alarm"
        assert {row["verdict"] for row in (await stage.get("/v1/ledger?class=Shop"))["rows"]} == {"failed"}
        times = (await stage.get("/v1/objects/Shop/eu%2F1/schedules/nightly/next?limit=3"))["times"]
        assert times == [f"2026-01-0{day}T09:00:00+00:00" for day in (1, 2, 3)]
        hits = (await stage.get("/v1/search?q=nightly"))["rows"]
        assert [(hit["kind"], hit["schedule"]) for hit in hits] == [("schedule", "nightly")]


async def test_a_chart_is_a_picture_that_no_browser_runs_scripts_of() -> None:
    async with opened() as stage:
        await stage.ask("POST", "/v1/objects/Lamp/hall/send", json=[{"type": "TOGGLE"}])
        await stage.result("eu/1", "add")
        await stage.world.sleep_all()
        answer = await stage.ask("GET", "/v1/objects/Lamp/hall/chart.svg")
        assert "Lamp/hall" not in stage.awake
        assert answer.headers["content-type"] == "image/svg+xml"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.text.startswith("<svg")
        problem(await stage.ask("GET", "/v1/objects/Shop/eu%2F1/chart.svg"), 404, "machine.class")
        problem(await stage.ask("GET", "/v1/objects/Lamp/attic/chart.svg"), 404, "object.unknown")


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_pages_join_without_a_gap_or_a_repeat(limit: int) -> None:
    async with opened() as stage:
        for number in range(9):
            await stage.result(f"k{number}", "add")
        seen, path = [], f"/v1/objects?class=Shop&limit={limit}"
        while path:
            answer = await stage.ask("GET", path)
            rows = answer.json()["rows"]
            assert len(rows) <= limit
            seen += [row["key"] for row in rows]
            link = answer.headers.get("link")
            assert (link is None) == (answer.json()["cursor"] is None)
            path = "" if link is None else link[1 : link.index(">")]
        assert seen == [f"k{number}" for number in range(9)]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("objects?nothing=1", "query.unknown"),
        ("objects?limit=0", "query.value"),
        ("objects?limit=1001", "query.value"),
        ("objects?limit=ten", "query.value"),
        ("objects?limit=1&limit=2", "query.twice"),
        ("objects?cursor=rubbish", "cursor"),
        ("objects?cursor=", "query.value"),
        ("objects?prefix=%ff", "query.form"),
        ("objects?prefix=%00", "query.value"),
        ("schedules?state=odd", "query.value"),
        ("search", "query.missing"),
        ("audit?refusals=maybe", "query.value"),
        ("events?kinds=nothing", "query.value"),
        ("events?since=yesterday", "query.value"),
        ("ledger?key=1", "query.value"),
    ],
)
async def test_a_query_that_makes_no_sense_is_said_to(path: str, code: str) -> None:
    async with opened() as stage:
        answer = await stage.ask("GET", f"/v1/{path}")
        assert answer.status_code in (400, 422)
        problem(answer, answer.status_code, code)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("objects/Shop/none", "object.unknown"),
        ("objects/Shop/none/storage", "object.unknown"),
        ("objects/Shop/eu%2F1/schedules/none", "schedule.unknown"),
        ("objects/Shop/none/schedules/x", "object.unknown"),
        ("parked/99", "parked.unknown"),
        ("parked/x", "parked.unknown"),
        ("parked/99999999999999999999", "parked.unknown"),
        ("jobs/x", "job.unknown"),
        ("jobs/Shop%2Fa%2Fadd%253Anone", "job.unknown"),
        ("nothing", "path.unknown"),
        ("objects/", "path.unknown"),
        ("objects/Shop/eu%2F1/nothing/x/y/z", "path.unknown"),
    ],
)
async def test_what_is_not_there_is_404(path: str, code: str) -> None:
    async with opened() as stage:
        await stage.result("eu/1", "add")
        answer = await stage.ask("GET", f"/v1/{path}")
        if path == "objects/":
            assert answer.status_code == 404
        else:
            problem(answer, 404, code)


async def test_methods_that_are_not_for_a_path() -> None:
    async with opened() as stage:
        answer = await stage.ask("DELETE", "/v1/objects")
        problem(answer, 405, "method.not_allowed")
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
        problem(await stage.ask("PATCH", "/v1/objects/Shop/a/add"), 405, "method.not_allowed")
        problem(await stage.ask("BREW", "/v1/jobs"), 405, "method.not_allowed")
        answer = await stage.ask("OPTIONS", "/v1/jobs")
        assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
        problem(await stage.ask("OPTIONS", "/v1/nothing"), 404, "path.unknown")
        problem(await stage.ask("GET", f"/v1/objects?prefix={'x' * 9_000}"), 414, "path.long")


async def test_a_tenant_sees_its_own_and_counts_nothing_else() -> None:
    async with opened() as stage:
        await furnish(stage)
        eu = await stage.token("eu", "read", "operate", tenant="eu/")
        keys = {row["key"] for row in (await stage.get("/v1/objects", token=eu))["rows"]}
        assert keys == {"eu/1", "eu/2"}
        for path in ("schedules", "due", "ledger", "parked", "jobs", "search?q=1"):
            rows = (await stage.get(f"/v1/{path}", token=eu))["rows"]
            assert rows, path
            assert {row["key"][:3] for row in rows} == {"eu/"}, path
        assert (await stage.get("/v1/objects?prefix=us/", token=eu))["rows"] == []
        assert [row["key"] for row in (await stage.get("/v1/objects?prefix=e", token=eu))["rows"]] == ["eu/1", "eu/2"]
        assert {row["objects"] for row in (await stage.get("/v1/classes", token=eu))["rows"]} == {None}
        problem(await stage.ask("GET", "/v1/objects/Shop/us%2F1", token=eu), 403, "denied.tenant")
        problem(await stage.ask("GET", "/v1/nodes", token=eu), 403, "denied.tenant")
        assert (await stage.get("/v1/objects/Shop/eu%2F1/storage", token=eu))["rows"][0]["key"] == "sum"


async def test_tracebacks_of_parked_timers_are_for_operators() -> None:
    async with opened() as stage:
        await furnish(stage)
        number = (await stage.get("/v1/parked"))["rows"][0]["number"]
        reads, operates = await stage.token("r", "read"), await stage.token("o", "operate")
        for path in (f"/v1/parked/{number}", "/v1/parked", "/v1/objects/Shop/eu%2F2", "/v1/objects/Shop/eu%2F2/parked"):
            assert "Traceback" not in (await stage.ask("GET", path, token=reads)).text
            assert "Traceback" in (await stage.ask("GET", path, token=operates)).text


async def test_arguments_are_for_operators_and_others_see_how_many_there_are() -> None:
    async with opened() as stage:
        await furnish(stage)
        spec = {"spec": "every day at 9am", "handler": "add", "args": [4711]}
        assert (await stage.ask("PUT", "/v1/objects/Shop/eu%2F1/schedules/secret", json=spec)).status_code == 200
        body = {"class": "Shop", "key": "eu/1", "method": "add", "args": [4711], "at": "2999-01-01T09:00+00:00"}
        job = quote((await stage.ask("POST", "/v1/jobs", json=body)).json()["id"], safe="")
        reads, operates = await stage.token("r", "read", "call"), await stage.token("o", "operate")
        schedule = "/v1/objects/Shop/eu%2F1/schedules"
        for path in (
            f"/v1/jobs/{job}",
            f"{schedule}/secret",
            f"{schedule}/secret/why",
            schedule,
            "/v1/schedules",
            "/v1/objects/Shop/eu%2F1",
        ):
            seen, whole = [(await stage.ask("GET", path, token=one)).text for one in (reads, operates)]
            assert '"count":1' in seen, path
            assert "4711" not in seen, path
            assert "4711" in whole, path


async def test_health_is_for_everyone_and_says_no_names() -> None:
    async with opened() as stage:
        await stage.token("admin", "admin")
        assert (await stage.ask("GET", "/healthz")).json() == {"status": "up"}
        assert (await stage.ask("GET", "/readyz")).json() == {"status": "ready"}
        stage.world.node.membership.is_draining = True
        answer = await stage.ask("GET", "/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "the node is draining")
        problem(await stage.ask("GET", "/v1/objects"), 401, "denied.no_token")


async def test_metrics_are_for_those_who_may_read() -> None:
    async with opened() as stage:
        await stage.result("a", "add")
        token = await stage.token("scraper", "read")
        problem(await stage.ask("GET", "/metrics"), 401, "denied.no_token")
        answer = await stage.ask("GET", "/metrics", token=token)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "\nwakeful_" in answer.text
        problem(await stage.ask("POST", "/metrics", token=token), 405, "method.not_allowed")
