"""Webhooks at the edges: over HTTP, with the client, on the dashboard, on the command line."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import make_app, opened, problem
from tests.unit.cli_stage import Stage, make_stage
from tests.unit.dashboard_stage import staged
from wakeful import App, errors
from wakeful.notices.sender import HttpSender, check_url
from wakeful.security import audit
from wakeful.webhooks import new_secret, verify

SECRET = new_secret()
HOOK = "https://hooks.example.com/T0/secret-path"

wakeful = pytest.fixture(make_stage)


def told_app() -> App:
    app = make_app()
    app.webhook(HOOK, secret=SECRET, name="chat")
    app.on("failed", print, name="mail")
    return app


async def test_they_are_listed_and_tested_over_http() -> None:
    async with opened(told_app()) as stage:
        body = {"class": "Shop", "key": "a", "method": "fails", "retry": {"max_attempts": 1}}
        await stage.ask("POST", "/v1/jobs", json=body)
        await stage.world.advance(seconds=1)
        rows = (await stage.get("/v1/webhooks"))["rows"]
        assert [(row["name"], row["kind"], row["url"]) for row in rows] == [
            ("chat", "webhook", "https://hooks.example.com/…"),
            ("mail", "handler", None),
        ]
        assert [one["verdict"] for row in rows for one in row["deliveries"]] == ["run", "run"]
        answer = (await stage.ask("POST", "/v1/webhooks/chat/test")).json()
        assert (answer["ok"], answer["status"], answer["error"]) == (True, 204, None)
        stage.world.webhooks.status = None
        answer = (await stage.ask("POST", "/v1/webhooks/chat/test")).json()
        assert (answer["ok"], answer["error"]) == (False, "ConnectionRefusedError: nobody listens there")
        problem(await stage.ask("POST", "/v1/webhooks/nobody/test"), 404, "object.unknown")
        problem(await stage.ask("POST", "/v1/webhooks/mail/test"), 409, "webhook.none")
        found = (await audit.page(stage.world.node.store, limit=10)).rows
        assert [(row["act"], row["target"], row["outcome"]) for row in reversed(found)] == [
            ("webhook.test", "chat", "done"),
            ("webhook.test", "chat", "failed"),
            ("webhook.test", "nobody", "failed"),
            ("webhook.test", "mail", "failed"),
        ]


async def test_who_may_not_neither_sees_nor_tests() -> None:
    async with opened(told_app()) as stage:
        reads, eu = await stage.token("r", "read"), await stage.token("eu", "admin", tenant="eu/")
        assert len((await stage.get("/v1/webhooks", token=reads))["rows"]) == 2
        problem(await stage.ask("POST", "/v1/webhooks/chat/test", token=reads), 403, "denied.scope")
        for method, path in (("GET", "/v1/webhooks"), ("POST", "/v1/webhooks/chat/test")):
            problem(await stage.ask(method, path, token=eu), 403, "denied.tenant")
        assert stage.world.webhooks.sent == []


async def test_the_page_sends_a_test() -> None:
    async with staged(is_seeded=False) as stage:
        stage.app.webhook(HOOK, secret=SECRET, name="chat")
        text = await stage.text("/webhooks")
        assert "Send a test" in text
        assert "secret-path" not in text
        answer = await stage.post("/webhooks/test", name="chat")
        assert answer.status_code == 200
        assert "chat took the test: it answered 204" in answer.text
        stage.world.webhooks.status = 500
        assert "answered 500" in (await stage.post("/webhooks/test", name="chat")).text
        assert (await stage.post("/webhooks/test", name="nobody")).status_code == 404


# on the command line, to a receiver that is there


class Receiver(BaseHTTPRequestHandler):
    came: list[tuple[dict[str, str], bytes]] = []
    status = 204

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.came.append((dict(self.headers), body))
        self.send_response(self.status)
        self.send_header("location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.came, Receiver.status = [], 204
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_client_has_them(receiver: str) -> None:
    app = make_app()
    app.webhook(receiver, secret=SECRET, name="chat")
    async with served(app) as shop, client_of(shop) as client:
        assert [row["name"] for row in await client.webhooks()] == ["chat"]
        assert (await client.test_webhook("chat"))["status"] == 204
        with pytest.raises(errors.UnknownObject):
            await client.test_webhook("nobody")
    assert len(Receiver.came) == 1


def test_the_command_lists_tests_and_makes_secrets(wakeful: Stage, receiver: str) -> None:
    made = wakeful("webhooks", "secret").out.strip()
    with (wakeful.path / "app.py").open("a") as file:
        file.write(f"\napp.webhook({receiver!r}, secret={made!r}, name='chat')\n")
    wakeful.monkeypatch.undo()
    wakeful.monkeypatch.chdir(wakeful.path)
    app = ("--app", "app.py", "--store", f"sqlite:{wakeful.path}/wakeful.db")
    [row] = wakeful("webhooks", *app, "--json").json
    assert (row["name"], row["on"]) == ("chat", ["missed", "outage", "parked"])
    assert "chat" in wakeful("webhooks", "list", *app).words
    found = wakeful("webhooks", "test", "chat", *app)
    assert (found.code, found.out.strip()) == (0, "taken: it answered 204")
    [(headers, body)] = Receiver.came
    assert verify(made, headers, body)
    Receiver.status = 302  # which is not followed
    found = wakeful("webhooks", "test", "chat", *app)
    assert (found.code, "answered 302" in found.out, len(Receiver.came)) == (1, True, 2)
    assert wakeful("webhooks", "test", "nobody", *app).code != 0


async def test_a_receiver_that_can_t_be_reached_is_an_error_without_its_address() -> None:
    with pytest.raises(OSError, match="can't be reached") as caught:
        await HttpSender().post("http://127.0.0.1:1/secret-path", {}, b"{}")
    assert "secret-path" not in str(caught.value)


def test_without_aiohttp_the_program_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    app = told_app()
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)

    async def run() -> None:
        async with app.run("memory:"):
            raise AssertionError("it started")

    with pytest.raises(errors.MissingExtra, match=r"wakeful\[client\]"):
        asyncio.run(run())


# signatures and addresses


def test_what_is_not_signed_so_is_refused() -> None:
    from wakeful.notices.signatures import read_secrets, sign

    headers = sign(read_secrets(SECRET), "n1", 1_000, b"{}")
    assert verify(SECRET, headers, "{}", now=1_010) == "n1"
    assert verify([new_secret(), SECRET], headers, b"{}", now=1_010) == "n1"
    for other, code in (
        ({"body": b"[]"}, "webhook.signature"),
        ({"secret": new_secret()}, "webhook.signature"),
        ({"now": 2_000}, "webhook.time"),
        ({"headers": {}}, "webhook.unsigned"),
        ({"headers": headers | {"webhook-timestamp": "x"}}, "webhook.time"),
        ({"headers": headers | {"webhook-timestamp": "9" * 5_000}}, "webhook.time"),
        ({"headers": headers | {"webhook-id": "n2"}}, "webhook.signature"),
        ({"headers": headers | {"webhook-signature": "v1a,é v1,ü"}}, "webhook.signature"),
    ):
        given: dict[str, Any] = {"secret": SECRET, "headers": headers, "body": b"{}", "now": 1_010} | other
        with pytest.raises(errors.BadToken) as caught:
            verify(**given)
        assert caught.value.code == code, other


def test_a_signature_is_that_of_the_standard() -> None:
    """The vector of the reference implementations."""
    from wakeful.notices.signatures import read_secrets, sign

    secrets = read_secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sign(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "abc", "whsec_", "whsec_%%", "whsec_YQ==", [], [3]])
def test_a_secret_that_is_none_is_refused_without_being_said(secret: Any) -> None:
    with pytest.raises(errors.BadOption) as caught:
        App().webhook(HOOK, secret=secret)
    assert caught.value.code == "webhook.secret"


def test_secrets_come_from_a_file_or_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(errors.BadOption, match="wakeful webhooks secret"):
        App().webhook(HOOK)
    monkeypatch.setenv("WAKEFUL_WEBHOOK_SECRET", SECRET)
    App().webhook(HOOK)
    file = tmp_path / "secret"
    file.write_text(f"{new_secret()}\n{SECRET}\n")
    App().webhook(HOOK, secret=file)
    monkeypatch.setenv("WAKEFUL_WEBHOOK_SECRET_FILE", str(tmp_path / "none"))
    with pytest.raises(errors.BadOption, match="can't be read"):
        App().webhook(HOOK)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://example.com/", "webhook.http"),
        ("ftp://example.com/", "webhook.url"),
        ("https://", "webhook.url"),
        ("https://u:p@example.com/", "webhook.url"),
        ("https://example.com:x/", "webhook.url"),
        (None, "webhook.url"),
    ],
)
def test_an_address_that_is_none_or_could_be_read_is_refused(url: Any, code: str) -> None:
    with pytest.raises(errors.BadOption) as caught:
        check_url(url, allow_http=False)
    assert caught.value.code == code


def test_plain_http_is_for_this_machine_or_for_who_says_so() -> None:
    for url in ("http://localhost:8000/", "http://127.0.0.1/x", "http://[::1]:80/"):
        assert check_url(url, allow_http=False) == url
    assert check_url("http://example.com/", allow_http=True)
