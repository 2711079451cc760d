"""`Idempotency-Key`: what is sent again is done once, and where that can't be the key is refused."""

import pytest

from tests.http.http_stage import Stage, opened, problem

KEY = {"Idempotency-Key": "order-17"}
JOB = {"class": "Shop", "key": "a", "method": "add", "args": [1]}
NIGHTLY = "/v1/objects/Shop/a/schedules/nightly"


async def scheduled(stage: Stage, body: dict[str, object], key: str | None = "order-17") -> dict[str, object]:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await stage.ask("POST", "/v1/jobs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    found: dict[str, object] = answer.json()
    return found


async def test_a_job_that_is_sent_twice_under_one_key_is_one_job() -> None:
    async with opened() as stage:
        first = await scheduled(stage, JOB)
        again = await scheduled(stage, JOB)
        assert first["id"] == again["id"]
        await stage.world.advance(seconds=5)
        assert (await scheduled(stage, JOB))["state"] == "done"
        assert await stage.result("a", "total") == 1


async def test_another_body_under_the_key_of_a_job_is_refused() -> None:
    async with opened() as stage:
        await scheduled(stage, JOB)
        answer = await stage.ask("POST", "/v1/jobs", json=JOB | {"args": [2]}, headers=KEY)
        problem(answer, 409, "job.key")


async def test_the_key_of_a_request_is_no_job_key_of_the_same_text_nor_of_another_object() -> None:
    async with opened() as stage:
        ids = {(await scheduled(stage, JOB))["id"]}
        ids.add((await scheduled(stage, JOB | {"args": [2], "job_key": "order-17"}, None))["id"])
        ids.add((await scheduled(stage, JOB | {"key": "b"}))["id"])
        ids.add((await scheduled(stage, JOB, "x" * 255))["id"])
        assert len(ids) == 4
        own = await scheduled(stage, JOB | {"job_key": "mine"})
        assert own["job_key"] == "mine"


async def test_replace_takes_no_key_of_a_request() -> None:
    async with opened() as stage:
        answer = await stage.ask("POST", "/v1/jobs", json=JOB | {"job_key": "k", "replace": True}, headers=KEY)
        problem(answer, 400, "request.key.unsupported")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/jobs/batch"),
        ("POST", f"{NIGHTLY}/trigger"),
        ("POST", f"{NIGHTLY}/pause"),
        ("PUT", NIGHTLY),
        ("DELETE", NIGHTLY),
        ("POST", "/v1/jobs/Shop%2Fa%2Fadd%253A1/cancel"),
        ("POST", "/v1/parked/redrive"),
        ("POST", "/v1/nodes/x/drain"),
    ],
)
async def test_a_write_that_would_be_done_twice_refuses_the_key(method: str, path: str) -> None:
    async with opened() as stage:
        problem(await stage.ask(method, path, headers=KEY), 400, "request.key.unsupported")


async def test_reading_does_not_mind_a_key() -> None:
    async with opened() as stage:
        await stage.get("/v1/jobs", headers=KEY)
