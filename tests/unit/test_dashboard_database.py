"""The page of an object's database: tables, rows, a query box that only reads, and whose eyes it is for."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.unit.dashboard_stage import Stage
from wakeful import App, DurableObject
from wakeful.dashboard import databases
from wakeful.dashboard.databases import QUERY_CHARS_MAX, ROWS
from wakeful.dashboard.renderer import POLICY
from wakeful.security.gate import Gate
from wakeful.values.commits import PAGES
from wakeful.views import databases as views

ODD = '<b>"t"</b>'


class Shelf(DurableObject):
    async def fill(self, total: int) -> None:
        self.sql("CREATE TABLE books (id INTEGER PRIMARY KEY, name TEXT, cover BLOB)")
        self.sql("""CREATE TABLE "<b>""t""</b>" ("<i>" TEXT)""")
        for number in range(1, total + 1):
            self.sql("INSERT INTO books VALUES (?, ?, x'00ff')", number, f"book {number} <u>")

    async def label(self) -> None:
        await self.storage.put("label", "oak")


@asynccontextmanager
async def library() -> AsyncIterator[Stage]:
    app = App()
    app.object(Shelf)
    gate = Gate(app.deployment)
    site = app.asgi(gate=gate)
    async with app.world() as world:
        await world.get(Shelf, "eu/oak").fill(ROWS + 10)
        await world.get(Shelf, "us/elm").fill(1)
        await world.get(Shelf, "plain").label()
        await world.sleep_all()
        transport = httpx.ASGITransport(app=site, client=("127.0.0.1", 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7420") as client:
            yield Stage(app, world, client, gate)


def path_of(key: str = "eu/oak", **query: object) -> str:
    return f"/database?{urlencode({'class': 'Shelf', 'key': key, **query})}"


async def test_it_lists_tables_and_the_object_leads_to_it() -> None:
    async with library() as stage:
        link = html.escape(path_of())
        assert link in await stage.text("/object?class=Shelf&key=eu%2Foak")
        assert "/database" not in await stage.text("/object?class=Shelf&key=plain")
        text = await stage.text(path_of())
        assert [one for one in ("books", "INTEGER", ">60<", "cover") if one not in text] == []
        answer = await stage.client.get(path_of())
        assert answer.headers["content-security-policy"] == POLICY
        assert "<html" not in await stage.text(path_of(), **{"hx-request": "true"})


async def test_its_pages_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with library() as stage:
        store, asked = stage.world.node.store, list[int]()
        scan = store.scan

        async def counting(id: Any, space: int, range: Any) -> Any:
            asked.append(space)
            return await scan(id, space, range)

        monkeypatch.setattr(store, "scan", counting)
        await stage.text(path_of(table="books"))
        assert asked.count(PAGES) == 1


async def test_a_list_of_tables_that_is_not_whole_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with library() as stage:
        assert "The first" not in await stage.text(path_of())
        monkeypatch.setattr(views, "TABLES_MAX", 1)
        text = await stage.text(path_of())
        assert "The first 1 of 2 tables" in text


async def test_rows_come_in_pages() -> None:
    async with library() as stage:
        first = await stage.text(path_of(table="books"))
        assert "book 1 &lt;u&gt;" in first
        assert f"book {ROWS + 1} " not in first
        assert "X&#39;00ff&#39;" in first
        link = re.search(r'href="([^"]+)" rel="next"', first)
        assert link is not None
        second = await stage.text(html.unescape(link[1]))
        assert f"book {ROWS + 1} " in second
        assert f"book {ROWS + 10} " in second
        assert "first rows" in second
        assert 'rel="next"' not in second


async def test_a_query_reads_and_nothing_wakes() -> None:
    async with library() as stage:
        node = stage.world.node
        before = node.meter.wakes.value
        text = await stage.text(path_of(q="SELECT count(*) AS n FROM books"))
        assert "<code>60</code>" in text
        assert "The first 50 rows" in await stage.text(path_of(q="SELECT id FROM books"))
        assert "No rows." in await stage.text(path_of(q="SELECT 1 WHERE 0"))
        for wrong, words in (
            ("DELETE FROM books", "[sql.read_only]"),
            ("SELEKT", "[sql]"),
            ("SELECT 1; SELECT 2", "one statement at a time"),
            ("ATTACH 'x' AS x", "[sql.refused]"),
            (f"SELECT '{'x' * QUERY_CHARS_MAX}'", "[option.query]"),
        ):
            refused = await stage.text(path_of(q=wrong), 400)
            assert words in refused
            assert html.escape(wrong).replace("&#x27;", "&#39;") in refused  # it can be mended
        assert "no such table" in await stage.text(path_of(table="nowhere"), 400)
        assert "option.offset" in await stage.text(path_of(table="books", offset="-1"), 400)
        assert "<code>60</code>" in await stage.text(path_of(q="SELECT count(*) FROM books"))
        assert node.meter.wakes.value == before
        assert not node.awake


async def test_a_statement_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(step=100)  # each look at the clock is a tenth of a second later
    monkeypatch.setattr(databases, "_now", lambda: next(ticks))
    async with library() as stage:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        assert "[limit.sql_ms]" in await stage.text(path_of(q=endless), 400)


async def test_names_are_never_markup() -> None:
    async with library() as stage:
        for path in (path_of(), path_of(table=ODD), path_of(q='SELECT 1 AS "</textarea><b>"'), path_of(table="\0")):
            answer = await stage.client.get(path)
            assert "<b>" not in answer.text, path
            assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", answer.text), path
        assert ODD in html.unescape(await stage.text(path_of(table=ODD)))


async def test_what_is_not_there_says_so() -> None:
    async with library() as stage:
        assert "no database" in await stage.text(path_of("plain"), 404)
        await stage.text(path_of("nobody"), 404)
        await stage.text("/database", 400)


async def test_it_is_for_whom_storage_is_for() -> None:
    async with library() as stage:
        token = await stage.token("tenant", "read", tenant="eu/")
        assert (await stage.client.get(path_of())).status_code == 303  # to the login
        await stage.login(token)
        assert "books" in await stage.text(path_of())
        await stage.text(path_of("us/elm"), 403)
        await stage.text(path_of("us/elm", q="SELECT * FROM books"), 403)
        assert (await stage.client.post(path_of())).status_code in (404, 405)
