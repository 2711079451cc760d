"""When it goes wrong: the store is away, or a page has a fault. Who sees what of it, and that it goes on."""

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from tests.unit.dashboard_stage import Stage, csrf_of, staged
from wakeful.dashboard.live import stream
from wakeful.dashboard.visits import Desk, Visit, error_words
from wakeful.security.scopes import LOCAL, Caller
from wakeful.values.errors import NotRunning, StoreDown

AWAY = "The store can&#39;t be reached now"
WHERE = "the test says so"  # of the error; of PostgreSQL it would be the user, the host and the database


async def away(stage: Stage) -> None:
    stage.world.faults.is_down = True
    await stage.world.advance(seconds=2)  # who may come in is known for a second


async def back(stage: Stage) -> None:
    stage.world.faults.is_down = False
    await stage.world.advance(minutes=1)


async def test_the_pages_before_the_login_say_that_the_store_is_away_and_not_where_it_is() -> None:
    async with staged() as stage:
        token = await stage.token("boss", "admin")
        await stage.login(token)
        form = csrf_of(await stage.text("/"))
        await away(stage)
        shown = await stage.text("/login?next=/jobs", status=503)
        assert 'name="next" value="/jobs"' in shown  # and the form is there for a second try
        entered = await stage.post("/login", token=token)
        left = await stage.post("/logout", csrf=form)
        texts = {
            "/login": shown,
            "/": await stage.text("/", status=503),
            "/nope": await stage.text("/nope", status=404),
        }
        texts |= {"enter": entered.text, "leave": left.text}
        assert (entered.status_code, left.status_code) == (503, 503)
        assert [path for path, text in texts.items() if (AWAY in text) != (path != "/nope")] == []
        assert [path for path, text in texts.items() if WHERE in text] == []
        await back(stage)
        assert "Token" in await stage.text("/login")
        assert (await stage.post("/login", token=token)).status_code == 303


def test_where_the_store_is_is_for_those_who_see_all_of_it() -> None:
    error = StoreDown("postgresql://alice@db.inside:5432/post is not open")
    assert "db.inside" in error_words(error, LOCAL)
    for caller in (None, Caller("eu", frozenset({"read"}), "eu/")):
        assert error_words(error, caller) == "The store can't be reached now; try again in a moment. [store.down]"
    assert "starting" in error_words(NotRunning("it is starting"), None)


async def test_a_fault_of_ours_is_a_page_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged() as stage:

        async def fails(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("secret <b>inside</b>")

        monkeypatch.setattr("wakeful.views.jobs.page", fails)
        monkeypatch.setattr(stage.gate, "is_open", fails)
        for path in ("/jobs", "/login"):
            caplog.clear()
            answer = await stage.client.get(path)
            assert (answer.status_code, "[http.bug]" in answer.text) == (500, True)
            assert answer.headers["content-security-policy"]
            assert not any(word in answer.text for word in ("secret", "ZeroDivision", "Traceback"))
            (line,) = [record for record in caplog.records if getattr(record, "code", "") == "http.bug"]
            assert path in line.getMessage()
            assert line.exc_info is not None
        monkeypatch.undo()
        assert "big" in await stage.text("/jobs")


async def test_whoever_hangs_up_in_the_middle_of_a_form_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged() as stage:

        async def gone(*_: Any, **__: Any) -> Any:
            raise ClientDisconnect

        monkeypatch.setattr("wakeful.dashboard.login.read_form", gone)
        assert (await stage.post("/login", token="x")).status_code == 400
        assert not [record for record in caplog.records if getattr(record, "code", "") == "http.bug"]


async def test_a_page_that_is_open_outlives_an_outage_of_the_store() -> None:
    async with staged() as stage:
        scope = {"type": "http", "method": "GET", "path": "/live", "headers": [(b"host", b"127.0.0.1")]}
        scope |= {"client": ("127.0.0.1", 1)}
        visit = Visit(Desk(stage.app.deployment, stage.gate), Request(scope), LOCAL, stage.world.node, {})
        said: list[str] = []

        async def listen() -> None:
            async for chunk in stream(visit):
                said.append(chunk.decode().strip())

        listening = asyncio.ensure_future(listen())
        await stage.world.advance(seconds=1)
        await away(stage)
        await stage.world.advance(seconds=60)
        assert not listening.done()
        said.clear()
        await stage.world.advance(seconds=10)
        assert set(said) == {": still here"}
        stage.world.faults.is_down = False
        await stage.world.advance(seconds=20)
        assert 'event: fresh\ndata: {"count": 0}' in said  # so that the page fetches what it missed
        await stage.token("boss", "admin")  # from now on everybody needs one
        await stage.world.advance(seconds=40)
        assert said[-1].startswith("event: gone")
        await listening
