"""The examples written for Cloudflare run as they are."""

from pathlib import Path

from tests.compat.workers_stage import played
from wakeful.compat.workers import Request

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_counter_counts_by_name_and_keeps_its_value() -> None:
    async with played(EXAMPLES / "cloudflare_counter") as (worker, world):

        async def get(path: str) -> str:
            return await (await worker.fetch(Request(f"http://localhost{path}"))).text()

        assert await get("/") == "choose a counter with ?name=, for example ?name=a"
        assert await get("/increment?name=a") == "a: 1"
        assert await get("/increment?name=a") == "a: 2"
        assert await get("/decrement?name=b") == "b: -1"
        await world.advance("1h")
        await world.crash()
        await world.restart()
        assert await get("/?name=a") == "a: 2"
        assert (await worker.fetch(Request("http://localhost/nowhere?name=a"))).status == 404


async def test_the_alarm_handles_together_what_came_within_ten_seconds() -> None:
    async with played(EXAMPLES / "cloudflare_alarms") as (worker, world):

        async def post(text: str) -> object:
            return await (await worker.fetch(Request("http://localhost/", method="POST", body=text))).json()

        async def batches() -> object:
            return await (await worker.fetch(Request("http://localhost/"))).json()

        assert await post("a") == {"waiting": 1}
        await world.advance("9s")
        assert await post("b") == {"waiting": 2}
        assert await batches() == []
        await world.advance("2s")
        assert await batches() == [["a", "b"]]
        assert await post("poison") == {"waiting": 1}
        await world.advance("12s")
        assert await batches() == [["a", "b"]]
        await world.advance("10s")  # the second retry comes after 2 + 4 s and up to a quarter more
        assert await batches() == [["a", "b"], ["poison"]]
        verdicts = [run.verdict for run in await world.ledger(worker.classes["Batch"], "all")]
        assert verdicts == ["run", "failed", "failed", "run"]


async def test_many_events_share_one_alarm() -> None:
    async with played(EXAMPLES / "cloudflare_events") as (worker, world):
        agent = worker.env.AGENTS.getByName("bob")
        now = round(world.now().timestamp() * 1000)
        await agent.plan("once", now + 30_000)
        await agent.plan("often", now + 10_000, 10_000)
        await agent.plan("never", now + 15_000)
        await agent.drop("never")
        await world.advance("35s")
        assert await agent.done() == ["often", "often", "often", "once"]
        await world.crash()
        await world.restart(after="1m")
        await world.advance("15s")
        assert await agent.done() == ["often", "often", "often", "once", "often", "often"]


async def test_links_live_for_a_day_and_their_visits_are_counted() -> None:
    async with played(EXAMPLES / "cloudflare_links") as (worker, world):

        async def ask(path: str, **options: object) -> tuple[int, str]:
            answer = await worker.fetch(Request(f"http://localhost{path}", **options))
            return answer.status, answer.headers.get("location") or (await answer.text()).strip()

        assert (await ask("/"))[1].startswith("<!doctype html>")
        assert await ask("/docs") == (404, "no such link")
        assert await ask("/docs", method="POST", body="https://example.com/") == (201, "/docs")
        for _ in range(3):
            assert await ask("/docs") == (302, "https://example.com/")
        assert await ask("/docs/visits") == (200, '{"visits": 0}')
        await world.crash()
        await world.restart()
        await world.advance("2s")
        assert await ask("/docs/visits") == (200, '{"visits": 3}')
        await world.advance("1d")
        assert (await ask("/docs"))[0] == 404


async def test_words_come_one_by_one_and_are_kept_before_they_are_heard() -> None:
    async with played(EXAMPLES / "cloudflare_stream") as (worker, world):
        answer = await worker.fetch(Request("http://localhost/bob"))
        assert answer.headers.get("content-type") == "text/event-stream"
        reader = answer.body.getReader()  # type: ignore[union-attr]
        began = world.now()
        first = [(await reader.read()).value for _ in range(3)]
        assert first[:2] == [b'data: {"word": "streams"}\n\n', b'data: {"word": "leave"}\n\n']
        assert round((world.now() - began).total_seconds(), 1) == 1.5
        await reader.cancel("the client hung up")
        await world.crash()
        await world.restart()
        began = world.now()
        rest = await (await worker.fetch(Request("http://localhost/bob"))).text()
        assert rest.count("data:") == 14
        assert round((world.now() - began).total_seconds(), 1) == 5.0, "the first three were kept"


async def test_flask_keeps_its_guestbooks_in_objects() -> None:
    async with played(EXAMPLES / "cloudflare_flask") as (worker, world):
        for line in ("hello", "good bye"):
            answer = await worker.fetch(Request("http://localhost/inn", method="POST", body=line))
            assert answer.status == 201
        await world.advance("1h")
        assert await (await worker.fetch(Request("http://localhost/inn"))).json() == {"lines": ["hello", "good bye"]}
        assert await (await worker.fetch(Request("http://localhost/pub"))).json() == {"lines": []}
