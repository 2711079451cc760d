"""A page is as long as it was asked to be, and looking holds up nobody: neither timers, nor calls, nor others who look."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from tests.http.http_stage import BASE, Stage, make_app, opened, problem
from wakeful import App, DurableObject
from wakeful.http import looks
from wakeful.http.api import Api
from wakeful.jobs import queries
from wakeful.operations.acts import Acts, Which
from wakeful.runtime import redrives
from wakeful.runtime.redrives import each_parked
from wakeful.schedules.schedules import next_times
from wakeful.security.audit import LOG
from wakeful.security.gate import Gate
from wakeful.store.protocol import Query
from wakeful.views import jobs, nodes, objects, pages, schedules
from wakeful.views.view import View


def program() -> App:
    app = make_app()

    @app.object
    class Many(DurableObject):
        async def once(self, count: int) -> None:
            for number in range(count):
                await self.schedules.add(1.0, self.go, name=f"once-{number}")

        async def plan(self, count: int) -> None:
            for number in range(count):
                await self.schedules.add("every day at 09:00", self.go, name=f"daily-{number}")

        async def go(self) -> None: ...

        async def fill(self, count: int, size: int) -> None:
            for number in range(count):
                await self.storage.put(f"k{number}", "x" * size)

    return app


async def all_of(stage: Stage, path: str, *, limit: int) -> list[list[dict[str, Any]]]:
    """The rows, page by page."""
    pages, cursor = [], ""
    while cursor is not None:
        found = await stage.get(f"{path}&limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        pages.append(found["rows"])
        cursor = found["cursor"]
    return pages


async def test_a_page_of_ended_schedules_is_no_longer_than_asked_for_and_all_come_once() -> None:
    async with opened(program()) as stage:
        for key in ("a", "b/1", "b0", "c"):
            await stage.ask("POST", f"/v1/objects/Many/{key.replace('/', '%2F')}/once", json=[3])
        await stage.ask("POST", "/v1/objects/Many/b0/plan", json=[2])
        await stage.world.advance(seconds=5)
        wanted = [(key, f"once-{number}") for key in ("a", "b/1", "b0", "c") for number in range(3)]
        for limit in (1, 2, 5, 12, 100):
            pages = await all_of(stage, "/v1/schedules?state=done", limit=limit)
            assert max(map(len, pages)) <= limit
            assert [(row["key"], row["schedule"]) for page in pages for row in page] == wanted
            both = await all_of(stage, "/v1/schedules?class=Many", limit=limit)
            assert max(map(len, both)) <= limit
            assert len([row for page in both for row in page]) == len(wanted) + 2


async def test_a_page_goes_on_behind_what_is_no_row_of_it_any_more_and_leaves_nothing_out() -> None:
    async with opened(program()) as stage:
        for key in "abc":
            await stage.ask("POST", f"/v1/objects/Many/{key}/once", json=[3])
        await stage.world.advance(seconds=5)
        path = "/v1/schedules?state=done&limit=4"
        first = await stage.get(path)
        daily = {"spec": "every day at 09:00", "handler": "go"}
        await stage.ask(
            "PUT", "/v1/objects/Many/b/schedules/once-0", json=daily
        )  # the very one at which the page ended
        found = await stage.get(f"{path}&cursor={first['cursor']}")
        rest = [("b", "once-1"), ("b", "once-2"), ("c", "once-0"), ("c", "once-1")]
        assert [(row["key"], row["schedule"]) for row in found["rows"]] == rest


@pytest.mark.parametrize("inner", ["", "x", "5", "[]", "[1]", '["x"]', '[null,"A"]', '[null,"A","k",1]', "[" * 2_000])
async def test_a_cursor_that_no_page_gave_is_refused(inner: str) -> None:
    async with opened(program()) as stage:
        cursor = pages.write_cursor(View.of_store(None, 0), "schedules", ["ended", inner])
        answer = await stage.ask("GET", f"/v1/schedules?cursor={cursor}")
        if inner:
            problem(answer, 400, "cursor")
        else:
            assert answer.status_code == 200  # where the ended ones begin


async def test_names_that_leave_everything_out_end_a_page_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOKS_MAX", 5)
    monkeypatch.setattr(schedules, "OBJECTS_MAX", 1)
    async with opened(program()) as stage:
        await stage.ask("POST", "/v1/objects/Many/a/plan", json=[30])
        answers = await all_of(stage, "/v1/schedules?contains=nothing", limit=10)
        assert len(answers) >= 2
        assert not any(answers)
        [found] = [page for page in await all_of(stage, "/v1/schedules?contains=DAILY-29", limit=10) if page]
        assert [row["schedule"] for row in found] == ["daily-29"]


async def test_a_tenant_learns_nothing_of_schedules_of_others_from_a_cursor() -> None:
    async with opened(program()) as stage:
        await stage.ask("POST", "/v1/objects/Many/us%2F1/plan", json=[3])
        token = await stage.token("eu", "admin", tenant="eu/")
        found = await stage.get("/v1/schedules?class=Many&key=us%2F1&limit=1", token=token)
        assert found == {"rows": [], "cursor": None}


async def test_no_list_shows_the_objects_that_keep_secrets() -> None:
    async with opened(program()) as stage:
        token = await stage.token("root", "admin")
        await stage.ask("GET", "/v1/objects")  # refused, which the audit rows keep
        for name in ("wakeful.Tokens", "wakeful.Audit"):
            assert (await stage.get(f"/v1/objects?class={name}", token=token))["rows"] == []


async def test_a_page_of_storage_ends_when_its_values_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAGE_BYTES", 1_000)
    monkeypatch.setattr(objects, "THREAD_BYTES", 600)
    monkeypatch.setattr(objects, "SCAN_MAX", 3)
    async with opened(program()) as stage:
        await stage.ask("POST", "/v1/objects/Many/a/fill", json=[8, 300])
        await stage.ask("POST", "/v1/objects/Many/b/fill", json=[2, 5_000])
        pages = await all_of(stage, "/v1/objects/Many/a/storage?prefix=k", limit=1_000)
        assert [[row["key"] for row in page] for page in pages] == [
            ["k0", "k1", "k2"],
            ["k3", "k4", "k5"],
            ["k6", "k7"],
        ]
        assert [len(page) for page in await all_of(stage, "/v1/objects/Many/b/storage?prefix=k", limit=9)] == [1, 1]
        assert (await stage.get("/v1/objects/Many/a"))["storage_is_cut"]


async def test_the_list_of_nodes_waits_for_them_and_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = asyncio.Event()
    asked = nodes.page

    async def slow(*args: Any, **options: Any) -> Any:
        await answered.wait()  # one that is frozen takes two seconds
        return await asked(*args, **options)

    monkeypatch.setattr(nodes, "page", slow)
    async with opened() as stage:
        waiting = asyncio.ensure_future(stage.get("/v1/nodes"))
        await asyncio.sleep(0)
        assert (await asyncio.wait_for(stage.get("/v1/due"), 10))["cursor"] is None
        answered.set()
        assert len((await waiting)["rows"]) == 1


async def test_those_who_wait_for_jobs_take_no_place_of_those_who_call() -> None:
    app = program()
    async with app.world() as world:
        api = Api(app.deployment, Gate(app.deployment), requests_max=2, streams_max=5)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=BASE) as client:
            body = {"class": "Shop", "key": "a", "method": "add", "after": 60}
            job = (await client.post("/v1/jobs", json=body)).json()["id"]
            path = f"/v1/jobs/{job.replace('/', '%2F').replace('%3A', '%253A')}/wait?timeout=5m"
            waits = [asyncio.ensure_future(client.get(path)) for _ in range(4)]
            await asyncio.wait(waits, timeout=20, return_when=asyncio.FIRST_COMPLETED)  # the one that is too many
            assert api.waits == 3
            assert (await client.post("/v1/objects/Shop/b/add", json=[1])).json() == {"result": 1}
            await world.advance(seconds=70)
            codes = sorted([(await one).status_code for one in waits])
            assert codes == [200, 200, 200, 429]
            assert api.waits == 0


async def test_one_who_looks_for_rows_of_nobody_reads_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as stage:
        row = {"actor": "x", "act": "request", "target": "t", "detail": {}, "outcome": "denied", "count": 1}
        await stage.world.node.send(LOG, "refuse", ([row] * 300,), {})
        store = stage.world.node.store
        scans, scan = [0], store.scan

        async def counted(*args: Any) -> Any:
            scans[0] += 1
            return await scan(*args)

        monkeypatch.setattr(store, "scan", counted)
        assert (await stage.get("/v1/audit?actor=nobody&limit=1")) == {"rows": [], "cursor": None}
        assert scans[0] < 20  # one for every row and kind, else
        assert len((await stage.get("/v1/audit?actor=x&limit=250"))["rows"]) == 250


async def test_a_cursor_is_text_that_a_url_can_carry() -> None:
    async with opened(program()) as stage:
        key = "é" * 256  # the longest there is
        for number in range(2):
            made = await stage.ask("POST", f"/v1/objects/Many/{key[: 255 + number]}/once", json=[2])
            assert made.status_code == 200, made.text
        await stage.world.advance(seconds=5)
        pages = await all_of(stage, "/v1/schedules?state=done", limit=1)
        assert [len(page) for page in pages] == [1, 1, 1, 1]


async def test_the_link_to_the_next_page_is_a_url_where_the_server_gives_the_path_decoded() -> None:
    async with opened(program()) as stage:
        await stage.ask("POST", "/v1/objects/Many/%C3%A9%3E/fill", json=[2, 1])
        app = stage.site

        async def without_raw_path(scope: Any, receive: Any, send: Any) -> None:
            scope.pop("raw_path")  # which ASGI leaves to the server
            await app(scope, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(without_raw_path), base_url=BASE) as client:
            answer = await client.get("/v1/objects/Many/%C3%A9%3E/storage?limit=1")
            assert answer.headers["link"].startswith("</v1/objects/Many/%C3%A9%3E/storage?limit=1&cursor=")
            assert len((await client.get(answer.links["next"]["url"])).json()["rows"]) == 1


async def test_what_may_be_said_twice_may_be_said_twice() -> None:
    async with opened() as stage:
        headers = [("accept", "text/html"), ("accept", "application/json")]
        assert (await stage.client.get("/v1/objects/Shop/a/schedules", headers=headers)).status_code == 200
        answer = await stage.ask("OPTIONS", "/openapi.json")
        assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
        assert (await stage.ask("DELETE", "/openapi.json")).headers["allow"] == "GET, HEAD, OPTIONS"


async def test_a_filter_that_leaves_out_most_jobs_ends_a_page_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "PAGE", 2)
    monkeypatch.setattr(jobs, "LOOKS_MAX", 4)
    async with opened() as stage:
        asked = [
            {"class": "Shop", "key": f"k{n}", "method": "add", "after": 60 + n, "tags": [f"t{n}"]} for n in range(9)
        ]
        assert (await stage.ask("POST", "/v1/jobs/batch", json={"jobs": asked})).status_code == 201
        pages = await all_of(stage, "/v1/jobs?tag=t7", limit=5)
        assert [[row["key"] for row in page] for page in pages] == [[], ["k7"], []]
        assert [len(page) for page in await all_of(stage, "/v1/jobs?class=Shop", limit=4)] == [4, 4, 1]


async def test_a_number_that_is_not_parked_is_looked_for_and_not_everything_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened() as stage:
        for key in "abcde":
            await stage.result(key, "doomed")
        await stage.world.advance(seconds=10)
        numbers = [row["number"] for row in (await stage.get("/v1/parked"))["rows"]]
        store, limits = stage.world.node.store, list[int]()
        find = store.find_parked

        async def counted(query: Any) -> Any:
            limits.append(query.limit)
            return await find(query)

        monkeypatch.setattr(store, "find_parked", counted)
        for wanted in ([numbers[0]], [numbers[4] + 5], [numbers[1], numbers[3]], numbers):
            limits.clear()
            found = [row async for row in each_parked(store.find_parked, Query(), wanted)]
            assert [row.number for row in found] == [number for number in wanted if number in numbers]
            assert sum(limits) <= wanted[-1] - wanted[0] + 1
        assert len([row async for row in each_parked(store.find_parked, Query())]) == 5


async def test_redriving_all_holds_a_page_at_a_time_and_no_timer_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrives, "PARKED_PAGE", 2)
    async with opened() as stage:
        for key in "abcde":
            await stage.result(key, "doomed")
        await stage.world.advance(seconds=10)
        parked = (await stage.get("/v1/parked"))["rows"]
        before = [row["number"] for row in parked]
        order = [row["key"] for row in sorted(parked, key=lambda row: row["number"])]
        node, done = stage.world.node, list[str]()
        find = node.store.find_parked

        async def counted(query: Any) -> Any:
            if query.name is None:  # else the object looks for its own
                done.append("page")
            return await find(query)

        async def send(id: Any, method: str, *rest: Any) -> Any:
            answer = await node.send(id, method, *rest)
            if method == redrives.REDRIVE:
                await stage.world.advance(seconds=10)  # it fails again meanwhile, and is parked under a higher number
                done.append(id.key)
                assert len(done) < 100, "it does not end"
            return answer

        monkeypatch.setattr(node.store, "find_parked", counted)
        rows = await Acts(send, "test", stores=[node.store]).redrive(Which(is_all=True))
        monkeypatch.undo()
        assert [row["number"] for row in rows] == sorted(before)
        assert all(row["ok"] for row in rows)
        keys = [one for one in done if one != "page"]
        assert keys == order
        assert (
            "page" in done[done.index(order[1]) : done.index(order[2])]
        )  # what comes next is read when it is its turn
        assert "page" in done[done.index(order[3]) : done.index(order[4])]
        after = [row["number"] for row in (await stage.get("/v1/parked"))["rows"]]
        assert len(after) == 5
        assert min(after) > max(before)


@pytest.mark.parametrize("number", [0, -5, 2**63, 2**70])
async def test_numbers_that_nothing_can_have_are_not_parked(number: int) -> None:
    async with opened() as stage:
        await stage.result("a", "doomed")
        await stage.world.advance(seconds=10)
        [row] = await Acts.of_node(stage.world.node, "test").redrive(Which([number]))
        assert (row["number"], row["problem"]) == (number, "is not parked")


async def test_times_to_come_are_looked_for_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return next_times(*args)

    monkeypatch.setattr(looks, "next_times", noted)
    async with opened() as stage:
        await stage.result("a", "plan")
        found = await stage.get("/v1/objects/Shop/a/schedules/nightly/next?limit=1000")
        assert len(found["times"]) == 1_000
        assert threads
        assert threading.main_thread() not in threads
