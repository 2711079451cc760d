"""What people do on the dashboard: each act happens once, leaves a row, and nobody does what they may not."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.dashboard_stage import Stage, csrf_of, staged
from wakeful.dashboard.login import back
from wakeful.security import audit
from wakeful.values.errors import CallCancelled
from wakeful.values.ids import ObjectId

ANN = {"class": "Note", "key": "ann", "name": "read"}
PAGE = "/schedule?class=Note&key=ann&name=read"
READ = [
    "/",
    "/objects",
    "/object?class=Note&key=ann",
    "/schedules",
    PAGE,
    "/jobs",
    "/job?id=Note/ann/%253Dbig",
    "/parked",
    "/calls",
]
READ += [
    "/parked/one?number=1",
    "/search?q=ann",
    "/live",
    "/chart.svg?class=Door&key=front",
    "/history",
    "/nodes",
    "/webhooks",
]
ADMIN = ["/audit", "/tokens"]
FORMS: dict[str, dict[str, str]] = {
    "/schedule/pause": ANN,
    "/schedule/resume": ANN,
    "/schedule/trigger": ANN,
    "/schedule/backfill": ANN | {"from": "0", "to": "1"},
    "/job/cancel": {"id": "Note/ann/%3Dlater"},
    "/call/cancel": {"id": "Note/ann@0123456789ab"},
    "/parked/redrive": {"do": "all"},
    "/parked/drop": {"do": "some", "number": "1"},
    "/object/forget": {"class": "Note", "key": "ann", "typed": "ann"},
    "/node/drain": {"node": "x"},
    "/node/undrain": {"node": "x"},
    "/webhooks/test": {"name": "x"},
}


async def acts(stage: Stage) -> list[tuple[str, str, str]]:
    rows = (await audit.page(stage.world.node.store, limit=100, has_refusals=False)).rows
    return [(row["act"], row["target"], row["outcome"]) for row in reversed(rows)]


async def schedule(stage: Stage) -> Any:
    return await stage.app.schedules(stage.app.deployment.registry.by_name("Note").cls, "ann").get("read")


async def test_a_schedule_is_paused_with_a_note_and_an_end_and_resumed() -> None:
    async with staged() as stage:
        answer = await stage.post("/schedule/pause", **ANN, note="the post is on strike", until="2h")
        assert answer.status_code == 303
        text = await stage.text(answer.headers["location"])
        assert "Paused." in text
        assert "the post is on strike" in text
        assert "Resume" in text
        found = await schedule(stage)
        assert (found.state, found.paused_until - stage.world.now()) == ("paused", timedelta(hours=2))
        await stage.world.advance(minutes=30)
        assert "the post is on strike" in await stage.text(PAGE)
        assert text.count("paused") < (await stage.text(PAGE)).count("paused")  # verdicts of what it held
        await stage.post("/schedule/resume", **ANN)
        assert (await schedule(stage)).state == "active"
        assert await acts(stage) == [
            ("schedule.pause", "Note/ann read", "done"),
            ("schedule.resume", "Note/ann read", "done"),
        ]


async def test_a_wrong_end_is_said_on_the_page_and_nothing_is_done() -> None:
    async with staged() as stage:
        answer = await stage.post("/schedule/pause", **ANN, note="x", until="next thursdayish")
        assert answer.status_code == 400
        assert "is no time" in answer.text
        assert (await schedule(stage)).state == "active"
        assert await acts(stage) == []


async def test_a_schedule_without_next_times_says_why() -> None:
    async with staged() as stage:
        none, paused = "It has no more times to come.", "It is paused: none until it is resumed."
        await stage.post("/schedule/pause", **ANN, until="2h")
        text = await stage.text(PAGE)
        assert (none in text, paused in text) == (False, False)  # there are some, after the pause
        await stage.post("/schedule/pause", **ANN)
        text = await stage.text(PAGE)
        assert (none in text, paused in text) == (False, True)
        await stage.post("/schedule/resume", **ANN)
        note = stage.app.deployment.registry.by_name("Note").cls
        await stage.app.get(note, "zoe").write("after 1s")
        await stage.world.advance(seconds=5)
        assert none in await stage.text(PAGE.replace("ann", "zoe"))


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("99999999h", "99999999h is past the year 9999 in UTC"),
        ("99999999999999h", "is longer than a timedelta can be"),
        ("0001-01-01", "0001-01-01 is before the year 1 in UTC"),  # in Paris it already is
    ],
)
async def test_an_end_that_no_calendar_has_is_said_on_the_page(until: str, words: str) -> None:
    async with staged() as stage:
        answer = await stage.post("/schedule/pause", **ANN | {"name": "open"}, until=until)
        assert (answer.status_code, words in answer.text) == (400, True)
        backfill = await stage.client.get("/schedule", params=ANN | {"name": "open", "from": "1h", "to": until})
        assert backfill.status_code == 400


async def test_running_now_runs_once() -> None:
    async with staged() as stage:
        before = (await stage.world.ledger(stage.app.deployment.registry.by_name("Note").cls, "ann"))[:]
        answer = await stage.post("/schedule/trigger", **ANN)
        await stage.world.advance(seconds=1)
        await stage.text(answer.headers["location"])  # loading the page again does nothing again
        await stage.world.advance(seconds=1)
        after = await stage.world.ledger(stage.app.deployment.registry.by_name("Note").cls, "ann")
        assert len(after) == len(before) + 1


async def test_a_backfill_is_previewed_and_then_run() -> None:
    async with staged() as stage:
        known = stage.app.deployment.registry.by_name("Note").cls
        text = await stage.text(f"{PAGE}&from=35m&to=5m")
        assert "Backfill would run 3 occurrences" in text
        before = len(await stage.world.ledger(known, "ann"))
        fields = dict(re.findall(r'name="(from|to)" value="(\d+)"', text))
        assert set(fields) == {"from", "to"}
        assert await acts(stage) == []
        assert len(await stage.world.ledger(known, "ann")) == before  # a preview does nothing
        await stage.post("/schedule/backfill", **ANN, **fields)
        await stage.world.advance(seconds=5)
        rows = [run for run in await stage.world.ledger(known, "ann") if run.is_backfill]
        assert [run.verdict for run in rows] == ["run"] * 3
        assert await acts(stage) == [("schedule.backfill", "Note/ann read", "done")]
        assert "There is nothing to backfill there" in await stage.text(f"{PAGE}&from=2m&to=1m")
        assert "is no time" in await stage.text(f"{PAGE}&from=soon&to=1m", 400)


async def test_parked_timers_are_redriven_one_by_one_and_together() -> None:
    async with staged() as stage:
        numbers = [row.number for row in await stage.world.parked()]
        assert len(numbers) == 4
        assert (await stage.post("/parked/redrive", do="some")).status_code == 400
        answer = await stage.post("/parked/redrive", do="some", number=str(numbers[1]))
        assert answer.headers["location"].startswith("/parked")
        assert len(await stage.world.parked()) == 3
        again = await stage.post("/parked/redrive", do="some", number=str(numbers[1]))
        assert "is not parked" in again.text
        await stage.post("/parked/redrive", do="all")
        again_parked = [row.timer.name for row in await stage.world.parked()]
        assert again_parked == ["job:=big"]  # it ran at once, and has one attempt
        assert [act for act, _, _ in await acts(stage)] == ["redrive"] * 3


async def test_parked_timers_that_are_ticked_are_dropped() -> None:
    async with staged() as stage:
        numbers = [row.number for row in await stage.world.parked()]
        assert (await stage.post("/parked/drop", do="some")).status_code == 400
        answer = await stage.post("/parked/drop", do="some", number=str(numbers[1]))
        assert "Dropped: it never runs." in await stage.text(answer.headers["location"])
        assert [row.number for row in await stage.world.parked()] == [numbers[0], *numbers[2:]]
        again = await stage.post("/parked/drop", do="some", number=str(numbers[1]))
        assert "is not parked" in again.text
        assert "0 timers dropped, 1 not" in again.text
        assert await acts(stage) == [
            ("drop", f"parked {numbers[1]}", "done"),
            ("drop", f"parked {numbers[1]}", "nothing"),
        ]


async def test_what_is_parked_is_filtered_and_dropped_or_redriven_as_filtered() -> None:
    async with staged() as stage:
        parked = {row.number: row for row in await stage.world.parked()}
        [big] = [number for number, row in parked.items() if row.timer.name == "job:=big"]

        async def shown(**filters: str) -> set[int]:
            text = await stage.text(f"/parked?{urlencode(filters)}")
            return {number for number in parked if f'aria-label="Tick {number}"' in text}

        error = parked[big].error.upper()
        fits = {number for number, row in parked.items() if error in row.error.upper()}
        assert 0 < len(fits) < len(parked)
        assert await shown() == set(parked)
        assert await shown(error=error) == fits
        assert await shown(prefix=parked[big].timer.id.key[:2]) == {
            number for number, row in parked.items() if row.timer.id.key.startswith(parked[big].timer.id.key[:2])
        }
        assert await shown(**{"class": "Note"}) == {n for n, row in parked.items() if row.timer.id.cls == "Note"}
        assert await shown(older_than="1d") == set()
        assert "Nothing that is parked fits." in await stage.text("/parked?older_than=1d")
        assert (await stage.client.get("/parked?older_than=tea")).status_code == 400
        page = await stage.text(f"/parked?{urlencode({'error': error})}")
        assert f"Of all {len(fits)} parked timer" in page
        assert "that the filters leave none ever runs" in page

        answer = await stage.post(f"/parked/drop?{urlencode({'error': error})}", do="all")
        assert answer.headers["location"] == f"/parked?{urlencode({'said': 'dropped', 'error': error})}"
        assert {row.number for row in await stage.world.parked()} == set(parked) - fits
        await stage.world.advance(days=2)
        assert await shown(older_than="1d") == set(parked) - fits
        await stage.post("/parked/redrive?prefix=nobody", do="all")
        assert {row.number for row in await stage.world.parked()} == set(parked) - fits
        await stage.post("/parked/drop", do="all")
        assert await stage.world.parked() == []
        assert [outcome for _, _, outcome in await acts(stage)] == ["done", "nothing", "done"]


async def test_an_object_is_forgotten_when_its_key_is_typed_once_more() -> None:
    async with staged() as stage:
        page = await stage.text("/object?class=Note&key=ann")
        assert "Forget the object" in page
        ann = {"class": "Note", "key": "ann"}
        for typed in ({}, {"typed": "Ann"}, {"typed": ""}):
            assert (await stage.post("/object/forget", **ann, **typed)).status_code == 400
        answer = await stage.post("/object/forget", **ann, typed="ann")
        assert "Forgotten: nothing of it is left." in await stage.text(answer.headers["location"])
        assert (await stage.client.get("/object?class=Note&key=ann")).status_code == 404
        [(act, target, outcome)] = await acts(stage)
        assert (act, outcome, target.startswith("Note/~"), "ann" in target) == ("forget", "done", True, False)


async def test_a_job_is_cancelled_once() -> None:
    async with staged() as stage:
        for word in ("Cancelled:", "Not cancelled:"):
            answer = await stage.post("/job/cancel", id="Note/ann/%3Dlater")
            assert word in await stage.text(answer.headers["location"])
        assert (await stage.app.jobs.get("Note/ann/%3Dlater")).state == "cancelled"


async def test_a_failed_job_is_redriven_and_cancelled_on_its_own_page() -> None:
    async with staged() as stage:
        path = "/job?id=Note/ann/%253Dbig"
        page = await stage.text(path)
        assert "<code>500</code>" in page  # what it is called with
        assert page.count("the bank is &lt;closed&gt;") >= 2  # its error, and that of its attempt
        fields = dict(re.findall(r'name="(number|class|key|job)" value="([^"]+)"', page))
        assert fields["job"] == "Note/ann/%3Dbig"
        answer = await stage.post("/parked/redrive", do="some", **fields)
        again = await stage.text(answer.headers["location"])
        assert "Set due again" in again
        assert len(re.findall(r'data-id="[^"]*-1-failed"', again)) == 2  # it has run, and failed, once more
        assert (await stage.app.jobs.get("Note/ann/%3Dbig")).state == "failed"
        answer = await stage.post("/job/cancel", id="Note/ann/%3Dbig")
        assert "it is not tried again" in await stage.text(answer.headers["location"])
        assert (await stage.app.jobs.get("Note/ann/%3Dbig")).state == "cancelled"
        assert "Redrive it" not in await stage.text(path)
        assert [act for act, _, _ in await acts(stage)] == ["redrive", "job.cancel"]


async def test_a_call_that_hangs_is_cancelled() -> None:
    async with staged() as stage:
        assert "Nothing is under way." in await stage.text("/calls")
        hanging = asyncio.ensure_future(stage.world.node.send(ObjectId("Note", "ann"), "hang", (), {}))
        behind = asyncio.ensure_future(stage.world.node.send(ObjectId("Note", "ann"), "pay", (7,), {}))
        await stage.world.advance(seconds=5)
        page = await stage.text("/calls?class=Note")
        assert "its turn, behind hang" in page
        id = re.findall(r'name="id" value="(Note/ann@[0-9a-f]+)"', page)[0]
        answer = await stage.post("/call/cancel", id=id)
        assert "Cancelled: it is being undone" in await stage.text(answer.headers["location"])
        with pytest.raises(CallCancelled):
            await hanging
        assert await behind == 7
        assert "hung" not in await stage.text("/object?class=Note&key=ann")
        late = await stage.post("/call/cancel", id=id)
        assert (late.status_code, "the call had ended" in late.text) == (409, True)
        assert [(act, end) for act, _, end in await acts(stage)] == [
            ("call.cancel", "done"),
            ("call.cancel", "nothing"),
        ]


async def test_forms_about_what_is_not_there_make_nothing() -> None:
    async with staged() as stage:
        for path in ("pause", "resume", "trigger", "backfill"):
            fields = {"class": "Note", "key": "nobody", "name": "read", "from": "0", "to": "1"}
            assert (await stage.post(f"/schedule/{path}", **fields)).status_code in (400, 404), path
        assert (await stage.post("/job/cancel", id="Note/nobody/%3Dx")).status_code == 404
        assert "nobody" not in await stage.text("/objects")
        assert (await stage.post("/node/drain", node="x")).status_code == 409


async def test_what_is_no_form_is_refused() -> None:
    async with staged() as stage:
        for body, kind in ((b"{}", "application/json"), (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded")):
            answer = await stage.client.post("/schedule/trigger", content=body, headers={"content-type": kind})
            assert answer.status_code == 400
        odd = await stage.client.post(
            "/schedule/trigger", content=b"class=%ff", headers={"content-type": "application/x-www-form-urlencoded"}
        )
        assert odd.status_code == 400
        assert (await stage.client.get("/schedule/trigger")).status_code == 404


async def test_without_a_token_everything_leads_to_the_login() -> None:
    async with staged() as stage:
        await stage.token("boss", "admin")
        for path in READ + ADMIN:
            answer = await stage.client.get(path)
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login")
        for path, fields in FORMS.items():
            answer = await stage.post(path, **fields)
            assert answer.headers.get("location") == "/login", path
        part = await stage.client.get("/jobs", headers={"hx-request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, "/login")
        assert await acts(stage) == []


async def test_login_opens_and_logout_closes() -> None:
    async with staged() as stage:
        token = await stage.token("boss", "admin")
        wrong = await stage.post("/login", token="wk_00000000_" + "0" * 43)
        assert wrong.status_code == 403
        assert "not known here" in wrong.text
        right = await stage.post("/login", token=token, next="/jobs?state=done")
        assert right.headers["location"] == "/jobs?state=done"
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        for path in READ[:10] + ADMIN:
            assert (await stage.client.get(path)).status_code in (200, 404), path
        page = await stage.text("/")
        assert "token:boss" in page
        assert token not in await stage.text("/tokens")
        bare = await stage.post("/logout")
        assert bare.status_code == 403  # a form of somebody else's page can't log out
        await stage.post("/logout", csrf=csrf_of(page))
        assert (await stage.client.get("/")).status_code == 303


async def test_forms_of_a_session_need_their_token() -> None:
    async with staged() as stage:
        await stage.login(await stage.token("boss", "admin"))
        for path, fields in FORMS.items():
            for csrf in ("", "wrong"):
                assert (await stage.post(path, **fields, csrf=csrf)).status_code == 403, path
        assert [row for row in await acts(stage) if row[0] != "login"] == []
        csrf = csrf_of(await stage.text(PAGE))
        assert (await stage.post("/schedule/trigger", **ANN, csrf=csrf)).status_code == 303
        refused = (await audit.page(stage.world.node.store, limit=100)).rows
        assert "denied.csrf" in {row["outcome"] for row in refused}


async def test_a_reader_sees_and_does_nothing() -> None:
    async with staged() as stage:
        await stage.login(await stage.token("eye", "read"))
        page = await stage.text(PAGE)
        assert "Pause…" not in page
        assert "scope operate" in page
        assert "Redrive all" not in await stage.text("/parked")
        number = (await stage.world.parked())[0].number
        assert "Traceback (most" not in await stage.text(f"/parked/one?number={number}")
        [big] = [row.number for row in await stage.world.parked() if row.timer.name == "job:=big"]
        for place in ("/job?id=Note/ann/%253Dbig", f"/parked/one?number={big}"):
            text = await stage.text(place)
            assert "1 argument" in text, place
            assert "<code>500</code>" not in text, place
            assert "Redrive it" not in text, place
        for path, fields in FORMS.items():
            answer = await stage.post(path, **fields, csrf=csrf_of(page))
            assert answer.status_code == 403, path
        for path in ADMIN:
            assert (await stage.client.get(path)).status_code == 403
        assert 'id="nav-audit"' not in page


async def test_a_tenant_sees_only_its_own() -> None:
    async with staged() as stage:
        await stage.login(await stage.token("eu", "operate", tenant="eu/"))
        for path in ("/", "/objects", "/schedules", "/jobs", "/parked", "/search?q=a"):
            text = await stage.text(path)
            assert not re.search(r"ann|lane-|front", text), path
        assert "eu/bob" in await stage.text("/objects")
        for path in ("/object?class=Note&key=ann", PAGE, "/job?id=Note/ann/%253Dbig", "/nodes", "/history"):
            assert (await stage.client.get(path)).status_code == 403, path
        number = (await stage.world.parked())[0].number
        assert (await stage.client.get(f"/parked/one?number={number}")).status_code == 404
        csrf = csrf_of(await stage.text("/schedule?class=Note&key=eu/bob&name=read"))
        assert (await stage.post("/schedule/trigger", **ANN, csrf=csrf)).status_code == 403
        await stage.post("/parked/redrive", do="all", csrf=csrf)
        await stage.post("/parked/redrive", do="some", number=str(number), csrf=csrf)
        assert len(await stage.world.parked()) == 4


async def test_a_node_of_a_cluster_is_drained_and_let_back() -> None:
    async with staged(nodes=3) as stage:
        page = await stage.text("/nodes")
        names = [member.node.name for member in stage.world.members if member.node is not None]
        assert all(name in page for name in names)
        assert page.count("Drain…") == 3
        assert len(set(re.findall(r'rect class="(hue-.)"', page))) == 3
        other = next(name for name in names if name != stage.world.node.name)
        answer = await stage.post("/node/drain", node=other)
        assert "hands its shards over" in await stage.text(answer.headers["location"])
        await stage.world.advance(seconds=30)
        assert "Let it own again" in await stage.text("/nodes")
        await stage.post("/node/undrain", node=other)
        await stage.world.advance(seconds=30)
        assert "Let it own again" not in await stage.text("/nodes")
        assert [act for act, _, _ in await acts(stage)] == ["node.drain", "node.undrain"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("/jobs?state=done", "/jobs?state=done"),
        (None, "/"),
        ("", "/"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/login", "/"),
        ("/logout", "/"),
        ("objects", "/"),
    ],
)
def test_login_leads_to_our_own_pages_only(text: str | None, where: str) -> None:
    assert back(text) == where
