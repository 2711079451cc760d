"""The store on Azure's dialect, spoken by Azurite: in the long form, where npm is there."""

import asyncio
import base64
import email.utils
import hashlib
import hmac
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.harness import IS_LONG
from wakeful import App, DurableObject

ACCOUNT = "devstoreaccount1"
# Azurite's own, in its documentation: it opens nothing but a test server.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
FOLDER = Path(sys.prefix) / "azurite"

pytestmark = pytest.mark.skipif(
    not IS_LONG or shutil.which("npm") is None, reason="in the long form, where npm is there to install Azurite"
)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A server of its own, with an empty container `town`."""
    program = FOLDER / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        FOLDER.mkdir(exist_ok=True)
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", FOLDER, "azurite"],
            check=True,
            timeout=300,
        )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [program, "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--blobPort", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(url, "town")
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _make_container(url: str, name: str) -> None:
    for _ in range(120):
        now = email.utils.formatdate(usegmt=True)
        text = f"PUT\n{chr(10) * 11}x-ms-date:{now}\nx-ms-version:2021-08-06\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        mark = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
        headers = {
            "x-ms-date": now,
            "x-ms-version": "2021-08-06",
            "Authorization": f"SharedKey {ACCOUNT}:{mark}",
            "Content-Length": "0",
        }
        try:
            urllib.request.urlopen(
                urllib.request.Request(f"{url}/{name}?restype=container", method="PUT", headers=headers)
            )
            return
        except ConnectionError:
            time.sleep(0.5)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
            time.sleep(0.5)
    raise AssertionError("Azurite does not answer")


def _program() -> tuple[App, type]:
    app = App()

    @app.object
    class Counter(DurableObject):
        async def add(self) -> int:
            self.storage.put("n", n := await self.storage.get("n", 0) + 1)
            return n

    return app, Counter


async def test_what_is_acknowledged_is_in_the_container(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    app, counter = _program()

    def url(machine: str) -> str:
        return f"az://town/app?endpoint={endpoint}&account={ACCOUNT}&cache={tmp_path}/{machine}"

    for round in range(3):  # each on a machine that has nothing but the container
        async with app.run(url(f"{round}")):
            for n in range(4):
                added = await asyncio.gather(*(app.get(counter, f"{key}").add() for key in range(32)))
                assert added == [4 * round + n + 1] * 32


async def test_two_machines_write_one_container_and_one_has_what_the_other_leaves(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    programs = [_program() for _ in range(2)]

    def url(machine: int) -> str:
        return f"az://town/pair?endpoint={endpoint}&account={ACCOUNT}&cache={tmp_path}/{machine}"

    (first, cell), (second, same) = programs
    async with second.run(url(2)) as left:
        async with first.run(url(1)) as gone:
            while not 100 < len(left.epochs) < 156:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            for n in range(4):
                both = [(first, cell), (second, same)]
                added = await asyncio.gather(
                    *(app.get(kind, f"{key}").add() for key in range(32) for app, kind in both)
                )
                assert sorted(added) == [2 * n + 1] * 32 + [2 * n + 2] * 32
            assert gone.epochs
        assert [await second.get(same, f"{key}").add() for key in range(32)] == [9] * 32
        assert len(left.epochs) == 256
