"""What a reader who is bound to a tenant hears of the others: nothing, whatever happens to them."""

from typing import Any
from urllib.parse import quote

from tests.http.events_reader import Reader
from tests.http.http_stage import Stage, opened
from wakeful.runtime.events import KEPT, KINDS
from wakeful.values.ids import ObjectId

SECRET = "us-secret"  # in every name and value of the other tenant


async def live(stage: Stage, tenant: str, word: str, token: str) -> None:
    """Everything that there is an event of, for an object of that tenant."""
    key = f"{tenant}/{word}"
    await stage.result(key, "add", token=token)
    await stage.call(key, "fails", [word], token=token)
    await stage.result(key, "alarm_soon", [30], token=token)
    await stage.result(key, "doomed", token=token)
    await stage.result(key, "plan", token=token)
    at = f"/v1/objects/Shop/{tenant}%2F{word}"
    for method, path, body in (
        ("POST", f"{at}/schedules/nightly/pause", None),
        ("POST", f"{at}/schedules/nightly/resume", None),
        ("POST", f"{at}/schedules/nightly/trigger", None),
        ("POST", "/v1/jobs", {"class": "Shop", "key": key, "method": "add", "after": 9, "job_key": word}),
    ):
        answer = await stage.ask(method, path, token=token, **({} if body is None else {"json": body}))
        assert answer.status_code in (200, 201, 202, 204), (path, answer.text)
    await stage.world.node.send(ObjectId("Lamp", key), "send", ("TOGGLE",), {})
    await stage.world.advance(minutes=3)
    answer = await stage.ask("POST", "/v1/parked/redrive", json={"all": True}, token=token)
    assert answer.status_code == 200, answer.text
    body = {"class": "Shop", "key": key, "method": "fails", "retry": {"max_attempts": 1}}
    await stage.ask("POST", "/v1/jobs", json=body, token=token)
    await stage.world.advance(seconds=30)
    answer = await stage.ask("POST", "/v1/parked/drop", json={"all": True, "prefix": key, "error": ": no"}, token=token)
    assert [row["ok"] for row in answer.json()["rows"]] == [True], answer.text
    body = {"class": "Shop", "key": key, "method": "add", "after": 900}
    job = (await stage.ask("POST", "/v1/jobs", json=body, token=token)).json()
    answer = await stage.ask("POST", f"/v1/jobs/{quote(job['id'], safe='')}/cancel", token=token)
    assert answer.status_code in (200, 204), answer.text
    stage.world.node.events.tell("node", None, name=word, verdict="up", shards=1, is_draining=False)
    await stage.world.settle()


async def test_no_kind_of_event_of_another_tenant_reaches_a_reader_who_is_bound_to_one() -> None:
    async with opened() as stage:
        eu = await stage.token("eu", "read", tenant="eu/")
        admin = await stage.token("all", "admin")
        async with (
            Reader(stage, headers={"authorization": f"Bearer {eu}"}) as bound,
            Reader(stage, headers={"authorization": f"Bearer {admin}"}) as free,
        ):
            await live(stage, "us", SECRET, admin)
            seen = await free.events()
            kinds = {data["kind"] for _, _, data in seen if SECRET in str(data)}
            assert kinds >= set(KINDS) - {"lost"}, set(KINDS) - kinds  # so each kind was there to be kept back
            assert await bound.events() == []
            assert SECRET not in bound.text
            await live(stage, "eu", "own", admin)
            heard = [data for _, _, data in await bound.events()]
            assert {data["kind"] for data in heard} == set(KINDS) - {"lost", "node"}
            numbered = ("redriven", "dropped")
            real = [data["number"] for _, _, data in await free.events() if data["kind"] in numbered]
            shown = [data["number"] for data in heard if data["kind"] in numbered]
            assert len(shown) == 2
            assert not {*shown} & {*real}  # by it one sees how often things failed everywhere
            assert SECRET not in bound.text


async def test_a_bound_reader_who_comes_back_or_asks_for_the_past_hears_no_more() -> None:
    async with opened() as stage:
        eu = await stage.token("eu", "read", tenant="eu/")
        admin = await stage.token("all", "admin")
        headers = {"authorization": f"Bearer {eu}"}
        async with Reader(stage, headers=headers):
            await live(stage, "us", SECRET, admin)
        name = stage.world.node.name
        options: list[dict[str, Any]] = [
            {"headers": headers | {"last-event-id": f"{name}-0"}},
            {"headers": headers, "path": "/v1/events?since=2020-01-01T00:00:00Z"},
            {"headers": headers, "path": f"/v1/events?kinds={','.join(KINDS)}&since=2020-01-01T00:00:00Z"},
        ]
        for option in options:
            async with Reader(stage, **option) as again:
                assert again.status == 200
                assert {data["kind"] for _, _, data in await again.events()} <= {"lost"}
                assert SECRET not in again.text


async def test_a_bound_reader_who_lost_some_is_told_how_many_and_of_nobody() -> None:
    async with opened() as stage:
        eu = await stage.token("eu", "read", tenant="eu/")
        events = stage.world.node.events
        async with Reader(stage, headers={"authorization": f"Bearer {eu}"}) as bound:
            for _ in range(KEPT + 10):
                events.tell("write", ObjectId("Shop", f"us/{SECRET}"), keys=1)
            told = await bound.events()
            assert [set(data) for _, _, data in told] == [{"kind", "at", "count"}]
            assert SECRET not in bound.text


async def test_ids_do_not_tell_a_bound_reader_how_much_happens_to_others() -> None:
    async with opened() as stage:
        eu = await stage.token("eu", "read", "call", tenant="eu/")
        headers, path = {"authorization": f"Bearer {eu}"}, "/v1/events?kinds=call"
        async with Reader(stage, path, headers) as bound:
            await stage.result("eu/1", "add", token=eu)
            stage.world.node.events.tell("write", ObjectId("Shop", f"us/{SECRET}"), keys=1)
            await stage.result("eu/1", "add", token=eu)
            first, second = [id for id, _, _ in await bound.events()]
            numbers = [int(id.rpartition("-")[2], 16) for id in (first, second)]
            assert abs(numbers[1] - numbers[0]) > 1_000
        async with Reader(stage, path, headers | {"last-event-id": first}) as again:
            assert [id for id, _, _ in await again.events()] == [second]
        name = stage.world.node.name
        async with Reader(stage, path, headers | {"last-event-id": f"{name}-1"}) as plain:  # of another form
            assert [data["kind"] for _, _, data in await plain.events()] == ["lost"]


async def test_a_bound_reader_who_lost_some_does_not_hear_how_many_there_were() -> None:
    async with opened() as stage:
        eu = await stage.token("eu", "read", tenant="eu/")
        async with Reader(stage, headers={"authorization": f"Bearer {eu}"}) as bound:
            for _ in range(KEPT + 10):
                stage.world.node.events.tell("write", ObjectId("Shop", f"us/{SECRET}"), keys=1)
            [(_, _, data)] = await bound.events()
            assert data["count"] is None
