"""Where `wakeful dev` and `run` serve, and what when they can't."""

import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject
from wakeful.cli.exit_codes import USAGE, CommandError, exit_code_of
from wakeful.cli.terminal_log import Say
from wakeful.cli.web import ADDRESS, Http, web, wish_of
from wakeful.server.embedded_server import bind
from wakeful.values.errors import AddressInUse, BadAddress, Denied, MissingExtra


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAKEFUL_HTTP", "WAKEFUL_HTTP_CERT", "WAKEFUL_HTTP_KEY"):
        monkeypatch.delenv(name, raising=False)


def the_app() -> App:
    app = App()

    @app.object
    class Counter(DurableObject):
        async def add(self, n: int) -> int:
            total: int = await self.storage.get("n", 0) + n
            await self.storage.put("n", total)
            return total

    return app


def test_a_certificate_for_nothing_that_is_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAKEFUL_HTTP", "WAKEFUL_HTTP_CERT", "WAKEFUL_HTTP_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CommandError, match="add --http HOST:PORT") as raised:
        wish_of(None, cert="c.pem", key="k.pem")
    assert (raised.value.code, raised.value.exit_code) == ("http.tls", USAGE)
    assert wish_of("off", cert="c.pem", key="k.pem") is None
    assert wish_of("h:1", cert="c.pem", key="k.pem") == Http("h:1", certificate="c.pem", key="k.pem")
    monkeypatch.setenv("WAKEFUL_HTTP_CERT", "c.pem")  # of a machine on which other programs serve
    monkeypatch.setenv("WAKEFUL_HTTP_KEY", "k.pem")
    assert wish_of(None) is None


def test_what_is_wished_comes_from_the_option_then_the_environment_then_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert wish_of(None) is None
    assert wish_of(None, default=ADDRESS) == Http(ADDRESS, is_asked=False)
    assert wish_of("h:1", default=ADDRESS) == Http("h:1")
    assert wish_of("off", default=ADDRESS) is None
    monkeypatch.setenv("WAKEFUL_HTTP", "e:2")
    assert wish_of(None, default=ADDRESS) == Http("e:2")
    assert wish_of("h:1") == Http("h:1")
    monkeypatch.setenv("WAKEFUL_HTTP", "off")
    assert wish_of(None, default=ADDRESS) is None
    assert wish_of("h:1") == Http("h:1")
    assert wish_of("h:1", cert="c", key="k") == Http("h:1", certificate="c", key="k")
    for given in ({"cert": "c"}, {"key": "k"}):
        with pytest.raises(CommandError, match="is missing") as raised:
            wish_of("h:1", **given)
        assert exit_code_of(raised.value) == 2


async def served(http: Http | None, say: Say) -> tuple[str | None, Any]:
    """The URL, and what a call by HTTP answers there."""
    app = the_app()
    async with app.run("memory:") as node, web(app, node, http, say) as url:
        if url is None:
            return None, None

        def call() -> Any:
            request = urllib.request.Request(
                f"{url}/v1/objects/Counter/a/add", b"[3]", {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)

        return url, await asyncio.to_thread(call)


async def test_a_program_answers_where_it_says() -> None:
    url, answer = await served(Http("127.0.0.1:0"), Say(as_json=False))
    assert url is not None
    assert url.startswith("http://127.0.0.1:")
    assert answer == {"result": 3}
    assert await served(None, Say(as_json=False)) == (None, None)


async def test_a_port_that_is_taken_is_said_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(AddressInUse):
            await served(Http(address), Say(as_json=False))
        url, answer = await served(Http(address, is_asked=False), Say(as_json=False))
    assert answer == {"result": 3}
    said = capsys.readouterr().out
    assert f"{address} is taken, so the dashboard is at {url}" in said


async def test_beyond_this_machine_only_with_a_token_and_only_at_an_address() -> None:
    with pytest.raises(Denied, match="wakeful tokens create") as raised:
        await served(Http("0.0.0.0:0"), Say(as_json=False))
    assert exit_code_of(raised.value) == 2
    with pytest.raises(BadAddress) as bad:
        await served(Http("nonsense"), Say(as_json=False))
    assert exit_code_of(bad.value) == 2


async def test_files_for_https_that_can_t_be_used(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("no")
    for file in (tmp_path / "x.pem", tmp_path / "missing.pem"):
        with pytest.raises(CommandError, match="can't be used for HTTPS") as raised:
            await served(Http("127.0.0.1:0", certificate=str(file), key=str(file)), Say(as_json=False))
        assert (raised.value.code, raised.value.exit_code) == ("http.tls", 2)


async def test_without_the_extra_dev_goes_on_and_run_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("wakeful.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert await served(Http(ADDRESS, is_asked=False), Say(as_json=False)) == (None, None)
    assert "no dashboard, uvicorn is not installed: pip install 'wakeful[server]' adds it" in capsys.readouterr().out
    with pytest.raises(MissingExtra, match=r"pip install 'wakeful\[server\]'") as raised:
        await served(Http(ADDRESS), Say(as_json=False))
    assert exit_code_of(raised.value) == 2


def test_two_programs_that_start_at_one_moment_get_a_port_each() -> None:
    """Both could be bound to the first one, if neither listened yet; later one of them would fail."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    with bind("127.0.0.1", port, tries=50) as first, bind("127.0.0.1", port, tries=50) as second:
        assert first.getsockname() != second.getsockname()


def test_a_port_that_is_taken_is_said_before_the_node_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each try of its supervisor would take shards from the others, and give them back."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text("from wakeful import App\n\napp = App()\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        command = [sys.executable, "-m", "wakeful.cli", "run", "shop.py", "--http", taken, "--store", "sqlite:shop.db"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "address.http_in_use" in ended.stderr) == (3, True), ended.stderr
    assert not (tmp_path / "shop.db").exists()
