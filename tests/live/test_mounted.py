"""Mounted in a program of somebody else's, served by somebody else's server: a stop and a reload wait for no watcher."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from tests.http.served_stage import CLOSE, Client, connect
from tests.live.harness import PROGRAMS
from tests.yardstick import PATIENCE_S, Yardstick
from wakeful import App

STOP_S = 8.0  # uvicorn waited a minute for who was watching, hypercorn and gunicorn as long as they were told to
WAITS = "90"  # what those two are told
SERVERS = {
    "uvicorn": ["uvicorn", "mounted:web", "--port", "{port}"],
    "uvicorn on asyncio": ["uvicorn", "mounted:web", "--port", "{port}", "--loop", "asyncio", "--ws", "wsproto"],
    "hypercorn": ["hypercorn", "mounted:web", "--bind", "127.0.0.1:{port}", "--graceful-timeout", WAITS],
    "hypercorn in one process": [
        *("hypercorn", "mounted:web", "--bind", "127.0.0.1:{port}", "--graceful-timeout", WAITS, "--workers", "0"),
    ],
    "gunicorn": [
        *("gunicorn", "mounted:web", "--bind", "127.0.0.1:{port}", "--graceful-timeout", WAITS),
        *("--worker-class", "uvicorn_worker.UvicornWorker", "--no-control-socket"),
    ],
}


class Place(NamedTuple):
    """A server that runs."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def served(command: Sequence[str], folder: Path, *, program: Path = PROGRAMS, **env: str) -> Iterator[Place]:
    """That server with the program, once it listens; gone at the end whatever happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [word.format(port=port, folder=folder) for word in command]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=program,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(program), "PYTHONUNBUFFERED": "1", "WAKEFUL_STORE": "memory:", **env},
        )
    place = Place(process, port, log)
    try:
        _wait_for_port(place)
        yield place
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for_port(place: Place) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert place.process.poll() is None, place.said()
        with suppress(OSError), socket.create_connection(("127.0.0.1", place.port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(place.said())


class Watcher:
    """Somebody who watches over a connection, by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def begin(cls, port: int, request: str, first: bytes | None) -> "Watcher":
        made = cls(*await asyncio.open_connection("127.0.0.1", port))
        body = "[]" if request.startswith("POST") else ""
        head = [f"{request} HTTP/1.1", f"host: 127.0.0.1:{port}", f"content-length: {len(body)}"]
        made.writer.write("\r\n".join([*head, "content-type: application/json", "", body]).encode())
        if first is not None:
            await asyncio.wait_for(made.reader.readuntil(first), PATIENCE_S)
        return made

    async def rest(self) -> bytes:
        """All that is still said, until the server hangs up."""
        with suppress(ConnectionResetError):
            return await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        return b"reset"

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


class Audience(NamedTuple):
    """One of each kind that would stay for hours."""

    events: Watcher
    page: Watcher
    watch: Watcher
    job: Watcher
    room: Client
    lamp: Client

    async def check_told(self) -> None:
        """All of them heard that it is over, and not only that the connection broke."""
        for stream in (self.events, self.page, self.watch):
            said = await stream.rest()
            assert said.endswith(b"0\r\n\r\n"), said  # the end of a body in chunks: nothing is missing
        said = await self.job.rest()
        assert said.startswith(b"HTTP/1.1 503"), said
        assert b"node.stopped" in said, said
        for client in (self.room, self.lamp):
            end = await client.end()
            assert end is not None
            assert end.code == 1012, end
            with suppress(OSError):
                await client.send(end.data, opcode=CLOSE)  # as clients do; hypercorn waits for it


async def audience(port: int, stack: AsyncExitStack) -> Audience:
    async def stream(path: str, first: bytes | None) -> Watcher:
        made = await Watcher.begin(port, f"GET /durable{path}", first)
        stack.push_async_callback(made.close)
        return made

    async def client(path: str) -> Client:
        made = await connect(_At(port), f"/durable/v1/objects/{path}")  # type: ignore[arg-type]
        stack.push_async_callback(made.close)
        return made

    job = await _job(port)
    found = Audience(
        await stream("/v1/events", b"events of"),
        await stream("/live", b"retry: "),
        await stream("/v1/objects/Lamp/a/watch", b"event: snapshot"),
        await stream(f"/v1/jobs/{job}/wait?timeout=5m", None),
        await client("Room/r/socket"),
        await client("Lamp/a/watch"),
    )
    await found.room.send("hi")
    assert await found.room.text() == "hi"
    assert "snapshot" in await found.lamp.text()
    await asyncio.sleep(0.3)  # the wait for the job, which says nothing, has begun too
    return found


async def _said(place: Place, words: str, count: int = 1) -> None:
    end = time.monotonic() + PATIENCE_S
    while place.said().count(words) < count:
        assert time.monotonic() < end, place.said()
        await asyncio.sleep(0.02)


class _At(NamedTuple):
    port: int


async def _job(port: int) -> str:
    """One that is due in an hour."""
    asked = {"class": "Room", "key": "r", "method": "hello", "args": ["x"], "after": "1h"}
    return str((await _post(port, "/v1/jobs", asked))["id"]).replace("/", "%2F")


async def _post(port: int, path: str, value: Any) -> dict[str, Any]:
    body = json.dumps(value)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /durable{path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    assert b" 20" in answer.partition(b"\r\n")[0], answer
    found: dict[str, Any] = json.loads(answer[answer.index(b'{"') : answer.rindex(b"}") + 1])
    return found


# What an object says, as people read it: when, how grave, of which object.
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S* INFO +wakeful\.object: hello you  .*object=Room/r", re.M)


@pytest.mark.parametrize("server", SERVERS)
async def test_a_stop_waits_for_nobody_who_watches(server: str, tmp_path: Path) -> None:
    with Yardstick() as machine, served(SERVERS[server], tmp_path) as place:
        async with AsyncExitStack() as stack:
            watching = await audience(place.port, stack)
            await _post(place.port, "/v1/objects/Room/r/hello", ["you"])
            asked_at = time.monotonic()
            place.process.send_signal(signal.SIGTERM)
            await watching.check_told()
            await asyncio.to_thread(place.process.wait, PATIENCE_S)
            took_s = time.monotonic() - asked_at
        said = place.said()
        assert took_s < machine.allows(STOP_S), f"took {took_s:.1f} s; {machine}\n{said}"
        for words, is_said in (("lifespan over", True), ("closed 1012", True), ("Traceback", False), ("never", False)):
            assert (words in said) is is_said, said
        assert len(LINE.findall(said)) == 1, said
    print(f"{server}: {took_s:.2f} s")


async def test_a_reload_waits_for_nobody_who_watches(tmp_path: Path) -> None:
    (tmp_path / "mounted.py").write_text((PROGRAMS / "mounted.py").read_text())
    command = [*SERVERS["uvicorn"], "--reload", "--reload-dir", str(tmp_path)]
    with Yardstick() as machine, served(command, tmp_path, program=tmp_path) as place:
        async with AsyncExitStack() as stack:
            watching = await audience(place.port, stack)
            asked_at = time.monotonic()
            with (tmp_path / "mounted.py").open("a") as program:
                program.write("\n# changed\n")
            await watching.check_told()
            await _said(place, "Finished server process")
            took_s = time.monotonic() - asked_at
            await _said(place, "Application startup complete", 2)  # which takes as long as its imports do
            again = await audience(place.port, stack)  # the next life has watchers of its own
        assert took_s < machine.allows(STOP_S), f"took {took_s:.1f} s; {machine}"
        assert again.room is not watching.room
        place.process.send_signal(signal.SIGTERM)
        place.process.wait(PATIENCE_S)
    print(f"reload: {took_s:.2f} s")


async def test_a_server_in_a_thread_which_has_no_signals_stops_as_soon(tmp_path: Path) -> None:
    app = App()
    config = uvicorn.Config(app.asgi("memory:"), port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:  # noqa: ASYNC110  (another thread's)
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        watcher = await Watcher.begin(port, "GET /v1/events", b"events of")
        with Yardstick() as machine:
            asked_at = time.monotonic()
            server.should_exit = True
            assert (await watcher.rest()).endswith(b"event: gone\ndata: {}\n\n\r\n0\r\n\r\n")
            await asyncio.to_thread(thread.join, PATIENCE_S)
            took_s = time.monotonic() - asked_at
        assert took_s < machine.allows(STOP_S), f"took {took_s:.1f} s; {machine}"
        assert "shutdown" not in vars(server), "the server is left as it was"
        await watcher.close()
    finally:
        server.force_exit = True
        thread.join(PATIENCE_S)
