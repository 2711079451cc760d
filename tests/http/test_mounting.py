"""In somebody else's application: under a prefix, with its life, behind a proxy that strips or keeps the path."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from tests.http.http_stage import BASE, make_app, opened, problem
from wakeful.http.problems import Problem
from wakeful.http.table import LENGTH, length_ms, raw_of, segments_of
from wakeful.values.errors import NotRunning


async def test_one_line_makes_it_part_of_a_starlette_application(tmp_path: Path) -> None:
    app = make_app()
    outer = Starlette(
        routes=[Route("/", lambda request: PlainTextResponse("mine")), Mount("/wake", app.asgi())],
        lifespan=app.lifespan(f"sqlite:{tmp_path}/app.db"),
    )
    client = httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=BASE)
    async with outer.router.lifespan_context(outer), client:
        assert (await client.get("/")).text == "mine"
        answer = await client.post("/wake/v1/objects/Shop/a%2Fb/add", json=[3])
        assert answer.json() == {"result": 3}
        page = await client.get("/wake/v1/objects?class=Shop&limit=1")
        assert page.json()["rows"][0]["key"] == "a/b"
        assert (await client.get("/v1/objects")).status_code == 404
        assert (await client.get("/wake/healthz")).json() == {"status": "up"}
        assert (await client.get("/wake/openapi.json")).status_code == 200
        dashboard = await client.get("/wake/")
        assert dashboard.status_code == 200
        assert "text/html" in dashboard.headers["content-type"]
    assert app.deployment.node is None


async def test_the_next_page_is_under_the_prefix_too() -> None:
    app = make_app()
    outer = Starlette(routes=[Mount("/wake", app.asgi(dashboard=False))])
    async with opened(app) as stage:
        for key in "ab":
            await stage.result(key, "add")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=BASE) as client:
            answer = await client.get("/wake/v1/objects?class=Shop&limit=1")
            link = answer.headers["link"]
            assert link.startswith("</wake/v1/objects?")
            assert (await client.get(link[1 : link.index(">")])).json()["rows"][0]["key"] == "b"


async def test_without_a_store_the_lifespan_takes_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_STORE", f"sqlite:{tmp_path}/env.db")
    app = make_app()
    outer = Starlette(lifespan=app.lifespan)
    async with outer.router.lifespan_context(outer):
        assert app.deployment.node is not None
        assert app.deployment.node.store.url == f"sqlite:{tmp_path}/env.db"
    assert app.deployment.node is None


async def test_served_by_itself_it_runs_the_program(tmp_path: Path) -> None:
    app = make_app()
    site = app.asgi(f"sqlite:{tmp_path}/own.db", dashboard=False)
    incoming = [{"type": "lifespan.startup"}]
    said: list[str] = []

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        assert app.deployment.node is not None
        assert said == ["lifespan.startup.complete"]
        return {"type": "lifespan.shutdown"}

    async def send(message: Any) -> None:
        said.append(message["type"])

    await site({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert app.deployment.node is None


async def test_a_store_that_can_t_be_opened_is_said_at_startup() -> None:
    app = make_app()
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        said.append(message)

    with pytest.raises(Exception, match="store"):
        await app.asgi("nonsense:x", dashboard=False)({"type": "lifespan"}, receive, send)
    assert said[0]["type"] == "lifespan.startup.failed"


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({"path": "/v1/a b", "raw_path": b"/v1/a%20b"}, ["v1", "a b"]),
        ({"path": "/v1/a/b", "raw_path": b"/v1/a%2Fb"}, ["v1", "a/b"]),
        ({"path": "/x/v1/a/b", "raw_path": b"/x/v1/a%2Fb", "root_path": "/x"}, ["v1", "a/b"]),
        ({"path": "/x/v1", "raw_path": b"/x/v1", "root_path": "/x/"}, ["v1"]),
        ({"path": "/ü/v1", "raw_path": b"/%C3%BC/v1", "root_path": "/ü"}, ["v1"]),
        ({"path": "/v1/a", "raw_path": b"/v1/a", "root_path": "/x"}, ["v1", "a"]),  # a proxy has stripped it
        ({"path": "/xy/v1", "raw_path": b"/xy/v1", "root_path": "/x"}, ["xy", "v1"]),
        ({"path": "/v1/a b"}, ["v1", "a b"]),
        ({"path": "/x", "raw_path": b"/x", "root_path": "/x"}, [""]),
        ({"path": "/v1//b", "raw_path": b"/v1//b"}, ["v1", "", "b"]),
        ({"path": "/v1/%2F", "raw_path": b"/v1/%252F"}, ["v1", "%2F"]),
    ],
)
def test_paths_are_cut_before_they_are_decoded(scope: dict[str, Any], found: list[str]) -> None:
    assert segments_of(raw_of(scope)) == found


def test_a_path_that_is_no_text() -> None:
    with pytest.raises(Problem, match="UTF-8"):
        segments_of(b"/v1/%ff")


def test_lengths_in_urls() -> None:
    assert [length_ms(text) for text in ("30", "30s", "250ms", "5m")] == [30_000, 30_000, 250, 300_000]
    assert [length_ms(text) for text in ("", "0", "05", "-1", "1h", "1.5", "1m30s", "9999999")] == [None] * 8
    assert LENGTH.startswith("(")


async def test_pages_of_named_origins_may_use_it_and_no_others() -> None:
    async with opened(site={"cors": ["https://ops.example"]}) as stage:
        asked = {"origin": "https://ops.example", "access-control-request-method": "POST"}
        answer = await stage.ask("OPTIONS", "/v1/jobs", headers=asked)
        assert answer.headers["access-control-allow-origin"] == "https://ops.example"
        assert (
            "idempotency-key"
            in (
                await stage.ask(
                    "OPTIONS", "/v1/jobs", headers=asked | {"access-control-request-headers": "idempotency-key"}
                )
            )
            .headers["access-control-allow-headers"]
            .lower()
        )
        answer = await stage.call("a", "add", headers={"origin": "https://ops.example"})
        assert answer.headers["access-control-allow-origin"] == "https://ops.example"
        other = await stage.ask("OPTIONS", "/v1/jobs", headers=asked | {"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
    async with opened() as stage:
        problem(await stage.call("a", "add", headers={"origin": "https://ops.example"}), 403, "denied.site")


def test_an_app_that_does_not_run_says_so() -> None:
    app = make_app()
    assert app.asgi(dashboard=False)
    with pytest.raises(NotRunning):
        app.deployment.send(None, "x", (), {}, deadline_ms=None, request_key=None)  # type: ignore[arg-type]
