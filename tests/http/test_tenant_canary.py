"""Nothing of another tenant is in any answer: neither in rows, nor in counts, cursors, links, hits or problems."""

import base64
import json
import re
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.http.http_stage import Stage, opened
from wakeful.http.rows import ROWS

CANARY = "canary"
SECRET = f"us/{CANARY}"


async def furnish(stage: Stage, key: str, word: str) -> str:
    """An object with something of everything, each called by the word; the id of a job."""
    path = f"/v1/objects/Shop/{quote(key, safe='')}"
    for name, when in (("daily", {"spec": "every day at 09:00"}), ("once", {"after": 1})):
        made = when | {"handler": "add", "tags": [word], "metadata": {"is": word}}
        answer = await stage.ask("PUT", f"{path}/schedules/{word}-{name}", json=made)
        assert answer.status_code == 200, answer.text
    doomed = {"after": 1, "handler": "fails", "args": [word], "retry": {"max_attempts": 1}}
    assert (await stage.ask("PUT", f"{path}/schedules/{word}-doomed", json=doomed)).status_code == 200
    job = {"class": "Shop", "key": key, "method": "add", "job_key": f"{word}-job", "tags": [word], "after": 3600}
    answer = await stage.ask("POST", "/v1/jobs", json=job)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def decoded(text: str) -> str:
    """With what is behind base64, twice."""
    for _ in range(3):
        for part in set(re.findall(r"[A-Za-z0-9_-]{12,}", text)):
            try:
                text += base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
            except ValueError:
                continue
    return text


async def test_a_token_of_a_tenant_never_meets_the_canary_of_another() -> None:
    async with opened() as stage:
        await furnish(stage, "eu/1", "own")
        job = await furnish(stage, SECRET, CANARY)
        await furnish(stage, "us/1", CANARY)
        await stage.world.advance(seconds=30)
        token = await stage.token("eu", "admin", tenant="eu/")
        answers: list[tuple[str, httpx.Response]] = []

        async def ask(method: str, path: str, body: Any = None) -> None:
            given = {} if body is None else {"json": body}
            answers.append((f"{method} {path}", await stage.ask(method, path, token=token, **given)))

        filters = ["", "class=Shop", "class=Shop&key=us%2F1", "prefix=us%2F", "prefix=e", "contains=s", "state=done"]
        filters += ["state=failed", "timer=alarm", "tag=own", "q=us", "q=%231", "q=Shop%2Fus%2F1", "q=-", "q=2"]
        for path, query, limit in product(
            [route.path for route in ROWS if route.method == "GET" and "{" not in route.path and not route.is_stream],
            filters,
            ("", "limit=1"),
        ):
            await ask("GET", f"{path}?{'&'.join(part for part in (query, limit) if part)}")
        for number in range(1, 6):
            await ask("GET", f"/v1/parked/{number}")
        await ask("POST", "/v1/parked/redrive", {"all": True, "class": "Shop"})
        await ask("POST", "/v1/parked/redrive", {"numbers": [1, 2, 3, 4]})
        for route in ROWS:
            if "{class}/{key}" in route.path:
                path = route.path.replace("{class}", "Shop").replace("{key}", "us%2F1")
                await ask(route.method, re.sub(r"\{.*?\}", "nightly", path))
        hidden = re.compile(CANARY)
        good = [(asked, answer) for asked, answer in answers if answer.status_code == 200]
        assert len(good) > 60
        for asked, answer in answers:
            said = decoded(answer.text + json.dumps(dict(answer.headers)))
            assert not hidden.search(said), f"{asked}: {answer.text[:500]}"
        assert any("own-daily" in answer.text for _, answer in good)
        other = await stage.ask("GET", f"/v1/jobs/{quote(job, safe='')}", token=token)
        assert other.status_code == 403
        assert len((await stage.get("/v1/parked", token=await stage.token("root", "read")))["rows"]) >= 2


async def test_what_a_tenant_may_not_know_is_not_even_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as stage:
        await furnish(stage, SECRET, CANARY)
        token = await stage.token("eu", "read", tenant="eu/")
        root = await stage.token("root", "read")
        counted: list[str] = []
        store = stage.world.node.store
        count = store.count

        async def noted(what: Any, *, cls: str | None = None) -> int:
            counted.append(what)
            return await count(what, cls=cls)

        monkeypatch.setattr(store, "count", noted)
        rows = (await stage.get("/v1/classes", token=token))["rows"]
        assert {(row["objects"], row["timers"], row["parked"]) for row in rows} == {(None, None, None)}
        assert not counted
        assert {row["class"]: row["objects"] for row in (await stage.get("/v1/classes", token=root))["rows"]}[
            "Shop"
        ] == 1
