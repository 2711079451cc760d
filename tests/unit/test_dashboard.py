"""The dashboard's pages without a browser: what they show, that they wake nothing, and what they let nobody do."""

import html
import re
import sys
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from tests.unit.dashboard_stage import ODD, staged
from wakeful.dashboard.renderer import HERE, POLICY
from wakeful.values.ids import ObjectId
from wakeful.views import objects
from wakeful.views.view import View


@pytest.fixture(autouse=True)
def quick_threads() -> Iterator[None]:
    """Static files are read in threads that the world's clock does not wait for: on a quiet machine its loop left them no turn."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    yield
    sys.setswitchinterval(before)


def page_of(path: str, **query: object) -> str:
    return f"{path}?{urlencode({name.rstrip('_'): value for name, value in query.items()})}"


PAGES = {
    "/": ["Note/", "schedule read", "Just happened", "Lateness"],
    "/objects": ["lane-0", "eu/bob", "front"],
    page_of("/object", class_="Note", key="ann"): ["hello", "read", "the bank is", "ConnectionError"],
    page_of("/object", class_="Door", key="front"): ["open", "chart.svg", "delay 2h"],
    page_of("/object", class_="Lamp", key="lane-1"): [
        "TimeoutError: no answer",
        "failed",
        "Parked",
        "1 of 1 migration",
    ],
    page_of("/objects", class_="Lamp"): ["lane-0", "1 migration: ", "at the newest"],
    "/schedules": ["every 10 minutes", "Europe/Paris", "active"],
    page_of("/schedule", class_="Note", key="ann", name="read"): ["Next ten", "Last ten", "on time", "Run now"],
    page_of("/schedule", class_="Note", key="ann", name="open"): ["Europe/Paris", "Mon 2026-03-30 09:00:00"],
    "/jobs": ["pay", "failed", "done", "scheduled"],
    "/jobs?state=failed": ["the bank is"],
    page_of("/job", id="Note/ann/%3Dbig"): ["ConnectionError", "failed"],
    page_of("/job", id="Note/ann/%3Dsmall"): ["done", "50"],
    page_of("/job", id="Note/ann/%3Dlater"): ["Cancel the job"],
    "/parked": ["Redrive", "TimeoutError: no answer", "lane-2"],
    "/nodes": ["this one", "256"],
    "/audit": ["No operator has done anything yet"],
    "/webhooks": ["Nobody is told of anything", "app.webhook("],
    "/tokens": ["wakeful tokens create"],
    "/search?q=ann": ["Note/ann"],
}


async def test_every_page_shows_what_it_is_for() -> None:
    async with staged() as stage:
        for path, expected in PAGES.items():
            text = await stage.text(path)
            assert [one for one in expected if one not in text] == [], path
        for row in await stage.world.parked():
            text = await stage.text(f"/parked/one?number={row.number}")
            assert "Traceback (most recent call last)" in text
            assert "Redrive it" in text


async def test_looking_wakes_nothing() -> None:
    async with staged() as stage:
        node = stage.world.node
        await stage.world.sleep_all()
        before = node.meter.wakes.value
        for path in PAGES:
            await stage.text(path)
        assert not node.awake
        assert node.meter.wakes.value == before
        known = await objects.page(View.of_node(node), limit=100)
        await stage.text(page_of("/object", class_="Note", key="nobody"), 404)
        await stage.text(page_of("/schedule", class_="Note", key="nobody", name="read"), 404)
        assert len((await objects.page(View.of_node(node), limit=100)).rows) == len(known.rows)


async def test_a_part_is_the_same_page_without_its_frame() -> None:
    async with staged() as stage:
        for path in PAGES:
            if path in ("/tokens", "/webhooks", "/search?q=ann"):
                continue
            part = await stage.text(path, **{"hx-request": "true"})
            assert "<html" not in part
            assert 'hx-swap-oob="true"' in part, path


async def test_names_are_never_markup() -> None:
    async with staged() as stage:
        shown = page_of("/object", class_="Note", key=ODD)
        for path in (
            "/",
            "/objects",
            "/schedules",
            shown,
            page_of("/search", q="<script>"),
            page_of("/objects", contains=ODD),
        ):
            text = await stage.text(path)
            assert "<script>alert" not in text, path
            assert "<closed>" not in text
        link = re.search(r'href="(/object\?class=Note&amp;key=%3Cscript[^"]+)"', await stage.text("/objects"))
        assert link is not None
        assert ODD in html.unescape(await stage.text(html.unescape(link[1])))


async def test_headers_let_nothing_in_from_outside() -> None:
    async with staged() as stage:
        for path in (*PAGES, "/object?class=Note&key=nobody", "/login"):
            answer = await stage.client.get(path)
            if answer.status_code == 303:
                continue
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            body = answer.text
            assert not re.search(r"<script(?![^>]*\bsrc=)", body), path
            assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", body), path
            assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", body), path


def test_templates_have_nothing_inline() -> None:
    for path in (HERE / "templates").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|\|safe|hx-on", text), path.name


def test_what_is_vendored_has_its_licence() -> None:
    vendor = HERE / "static" / "vendor"
    for name in ("htmx", "uPlot"):
        assert (vendor / f"{name}.LICENSE").stat().st_size > 400
        assert [path for path in vendor.iterdir() if path.name.startswith(name) and path.suffix == ".js"]


@pytest.mark.parametrize("path", ["/static/wakeful.css", "/static/vendor/htmx.min.js", "/static/favicon.svg"])
async def test_static_files_are_kept_by_browsers(path: str) -> None:
    async with staged(is_seeded=False) as stage:
        answer = await stage.client.get(path)
        assert answer.status_code == 200
        assert "max-age" in answer.headers["cache-control"]


@pytest.mark.parametrize("path", ["/static/../pages.py", "/static/%2e%2e/pages.py", "/static/..%2fpages.py"])
async def test_static_files_end_at_their_folder(path: str) -> None:
    async with staged(is_seeded=False) as stage:
        assert (await stage.client.get(path)).status_code == 404


async def test_empty_pages_say_what_to_do() -> None:
    expected = {
        "/": "self.schedules.add",
        "/objects": "wakeful call",
        "/schedules": "@every.weekday",
        "/jobs": "app.jobs.schedule",
        "/parked": "Nothing is parked",
        "/search?q=zzz": "Nothing is called that",
        "/objects?contains=zzz": "No object matches",
        "/schedules?state=paused": "No schedule matches",
        "/jobs?state=done": "No job is done",
    }
    async with staged(is_seeded=False) as stage:
        for path, words in expected.items():
            assert words in await stage.text(path), path


async def test_what_is_not_there_says_so() -> None:
    bad = {
        page_of("/object", class_="Note", key="nobody"): 404,
        page_of("/schedule", class_="Note", key="ann", name="nope"): 404,
        page_of("/job", id="Note/ann/%3Dnope"): 404,
        page_of("/job", id="rubbish"): 404,
        "/parked/one?number=999": 404,
        "/parked/one?number=x": 400,
        "/objects?cursor=x": 400,
        "/jobs?state=x": 400,
        "/object": 400,
        page_of("/object", class_="../x", key="y"): 400,
    }
    async with staged() as stage:
        for path, status in bad.items():
            text = await stage.text(path, status)
            assert 'role="alert"' in text
            assert "Traceback" not in text


async def test_a_job_that_has_not_run_has_no_run() -> None:
    async with staged() as stage:
        assert "<dt>run</dt>" in await stage.text(page_of("/job", id="Note/ann/%3Dbig"))
        text = await stage.text(page_of("/job", id="Note/ann/%3Dlater"))
        assert ("<dt>run</dt>" in text, "None" in text) == (False, False)


async def test_the_search_does_not_call_the_node_gone_that_answers() -> None:
    async with staged() as stage:
        text = await stage.text(page_of("/search", q=stage.world.node.name))
        assert stage.world.node.name in text
        assert '<td class="right soft">up</td>' in text


async def test_it_lives_under_a_prefix() -> None:
    async with staged(prefix="/ops/tools") as stage:
        text = await stage.text("/ops/tools/")
        assert 'data-base="/ops/tools"' in text
        links = re.findall(r'(?:href|src|action|hx-get)="([^"]+)"', text)
        assert links
        assert [link for link in links if not link.startswith(("/ops/tools/", "#"))] == []
        static = next(link for link in links if "wakeful.css" in link)
        assert (await stage.client.get(static)).status_code == 200
        answer = await stage.post("/ops/tools/schedule/pause", **{"class": "Note", "key": "ann", "name": "read"})
        assert answer.headers["location"].startswith("/ops/tools/schedule?class=Note")
        inner = await stage.text(f"/ops/tools/object?class=Note&key={quote('eu/bob')}")
        assert 'hx-get="/ops/tools/object?class=Note&amp;key=eu%2Fbob"' in inner


async def test_a_form_that_was_refused_shows_a_page_that_goes_on_living() -> None:
    """The address of a form has no page: what htmx asks for again is the one that is shown."""
    async with staged(prefix="/ops") as stage:
        named = {"class": "Note", "key": "ann", "name": "read"}
        refused = await stage.post("/ops/schedule/pause", **named, until="someday")
        parked = await stage.post("/ops/parked/redrive", do="some", number="999999")
        for answer, status, word in ((refused, 400, "is no time"), (parked, 200, "999999")):
            assert answer.status_code == status
            assert word in answer.text
            again = re.search(r'id="live"[^>]* hx-get="([^"]+)"', answer.text)
            assert again is not None
            assert "<html" not in await stage.text(html.unescape(again[1]), **{"hx-request": "true"})


async def test_the_chart_is_drawn_by_day_and_by_night() -> None:
    async with staged() as stage:
        drawn = [
            await stage.text(page_of("/chart.svg", class_="Door", key="front", theme=theme))
            for theme in ("light", "dark")
        ]
        assert drawn[0] != drawn[1]
        assert all("<svg" in one for one in drawn)
        await stage.text(page_of("/chart.svg", class_="Note", key="ann"), 404)


async def test_pages_follow_their_cursor() -> None:
    async with staged(is_seeded=False) as stage:
        known = stage.app.deployment.registry.by_name("Note").cls
        for number in range(120):
            await stage.app.get(known, f"n-{number:03}").write("after 3d")
        seen: list[str] = []
        path = "/objects"
        while True:
            text = await stage.text(path)
            seen += re.findall(r'<bdi class="key">(n-\d+)</bdi>', text)
            more = re.search(r'href="([^"]+)" rel="next"', text)
            if more is None:
                break
            path = html.unescape(more[1])
        assert seen == [f"n-{number:03}" for number in range(120)]


async def test_a_page_that_has_not_looked_through_all_does_not_say_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wakeful.views.schedules.LOOKS_MAX", 10)
    monkeypatch.setattr("wakeful.views.schedules.CHUNK_THINNED", 5)
    async with staged(is_seeded=False) as stage:
        note = stage.app.deployment.registry.by_name("Note").cls
        for number in range(20):
            await stage.app.get(note, f"n-{number:03}").write("after 3d")
        await stage.app.schedules(note, "n-019").pause("read")
        path, looks = "/schedules?state=paused", 0
        while "n-019" not in (text := await stage.text(path)):
            assert "No schedule matches" not in text
            more = re.search(r'href="([^"]+)" rel="next"', text)
            assert more is not None
            path, looks = html.unescape(more[1]), looks + 1
        assert looks > 1


async def test_characters_that_nobody_sees_are_written_out_and_still_sent_back_as_they_are() -> None:
    odd = "invoice\u202efdp.exe\x9b\u200b"
    async with staged(is_seeded=False) as stage:
        note = stage.app.deployment.registry.by_name("Note").cls
        await stage.app.get(note, odd).write("after 3d")
        where = urlencode({"class": "Note", "key": odd})
        for path in (
            "/",
            "/objects",
            f"/object?{where}",
            "/schedules",
            f"/schedule?{where}&name=read",
            "/search?q=inv",
        ):
            text = await stage.text(path)
            seen = re.sub(r'<input type="hidden"[^>]*>', "", text)
            assert "<bdi" in seen, path
            assert "invoice\\u202efdp.exe\\x9b\\u200b" in seen, path
            assert not set("\u202e\x9b\u200b") & set(seen), path
        assert (await stage.post("/schedule/pause", **{"class": "Note", "key": odd, "name": "read"})).status_code == 303
        sent = re.search(r'name="key" value="([^"]*)"', await stage.text(f"/schedule?{where}&name=read"))
        assert sent is not None
        assert html.unescape(sent[1]) == odd


def test_every_value_that_a_form_sends_back_is_exact() -> None:
    for file in (HERE / "templates").glob("*.html"):
        for given in re.findall(r'value="\{\{(.*?)\}\}"', file.read_text(encoding="utf-8")):
            assert given.rstrip().endswith("|exact"), (file.name, given)


async def test_the_last_run_of_a_monthly_schedule_is_shown_when_the_ledger_keeps_a_week() -> None:
    async with staged(is_seeded=False) as stage:
        await stage.world.node.send(ObjectId("Note", "ann"), "write", ("0 9 1 * *",), {})
        await stage.world.advance(days=20)
        page = await stage.text("/schedule?class=Note&key=ann&name=read")
        assert "No verdict" not in page
        assert "on time" in page
