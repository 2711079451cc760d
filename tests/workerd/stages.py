"""Where a scenario is played: on the real runtime, in real time, or on Wakeful, in virtual time."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from tests.compat.test_sockets import Client

HERE = Path(__file__).parent


class Stage(Protocol):
    """One deployment of the twin Workers."""

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]: ...

    async def wait(self, ms: int) -> None: ...

    async def restart(self, after_ms: int) -> None: ...

    async def talk(self, path: str, steps: list[list[Any]]) -> list[Any]:
        """What clients of a socket hear that say this: see `Client` in talk_scenarios.py."""
        ...


async def played(stage: Stage, name: str, steps: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What the object answered, and which events there were, without what differs from run to run."""
    answers: list[Any] = []
    words = json.dumps(steps)

    async def ask(action: str, value: Any) -> Any:
        told = await stage.ask({"object": name, "action": action, "value": value})
        if "message" in told and json.dumps(told["message"])[1:-1] not in words:
            del told["message"]  # the runtime's own words
        return told

    for kind, *given in steps:
        if kind == "wait":
            await stage.wait(given[0])
        elif kind == "restart":
            await stage.restart(given[0] if given else 0)
        elif kind == "talk":
            answers.append(await stage.talk(quote(name, safe=""), given[0]))
        elif kind == "together":
            answers.append(await asyncio.gather(*(ask("run", program) for program in given[0])))
        else:
            told = await ask(kind, given[0])
            if kind != "plan":
                answers.append(told)
    events = (await ask("events", None))["events"]
    return {"answers": answers, "events": events}


class Wakeful:
    """The Python twin in a virtual world."""

    def __init__(self, world: Any, worker: Any, request: Callable[..., Any]) -> None:
        self._world = world
        self._worker = worker
        self._request = request

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        request = self._request("http://localhost/", method="POST", body=json.dumps(asked))
        answer = await self._worker.fetch(request)
        found: dict[str, Any] = await answer.json()
        return found

    async def wait(self, ms: int) -> None:
        await self._world.advance(milliseconds=ms)

    async def talk(self, path: str, steps: list[list[Any]]) -> list[Any]:
        async def connect() -> VirtualClient:
            client = Client(self._worker, "/" + path)
            assert (await client.hear())["type"] == "accept"
            return VirtualClient(client)

        return await converse(steps, connect, self.wait)

    async def restart(self, after_ms: int) -> None:
        await self._world.crash()
        await self._world.restart(after=f"{after_ms}ms" if after_ms else None)


async def converse(
    steps: list[list[Any]], connect: Callable[[], Awaitable[Any]], wait: Callable[[int], Awaitable[None]]
) -> list[Any]:
    """Each step is of one client, by its letter: it connects when it is first heard of."""
    clients: dict[str, Any] = {}
    answers: list[Any] = []
    for who, act, *given in steps:
        if who not in clients:
            clients[who] = await connect()
        client = clients[who]
        if act == "say":
            await client.say(given[0])
        elif act == "hear":
            answers.append(await client.hear())
        elif act == "leave":
            await client.leave(*given)
        elif act == "wait":
            await wait(given[0])
    for client in clients.values():
        await client.end()
    return answers


class RealClient:
    """A client of a server, over the network."""

    def __init__(self, session: Any, socket: Any) -> None:
        self._session = session
        self._socket = socket

    async def say(self, message: Any) -> None:
        await (self._socket.send_bytes(bytes(message)) if isinstance(message, list) else self._socket.send_str(message))

    async def hear(self) -> Any:
        message = await self._socket.receive(20)
        if message.type.name == "BINARY":
            return list(message.data)
        if message.type.name == "ERROR":
            return {"broken": str(message.data)}
        if message.type.name == "TEXT":
            return message.data
        closed = {"closed": message.data, "reason": message.extra or ""}
        await self._socket.close(code=message.data, message=(message.extra or "").encode())  # as browsers answer
        return closed

    async def leave(self, code: int, reason: str = "") -> None:
        await self._socket.close(code=code, message=reason.encode())

    async def end(self) -> None:
        await self._socket.close()
        await self._session.close()


class VirtualClient:
    """A client of a Worker in a virtual world."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def say(self, message: Any) -> None:
        self._client.say(bytes(message) if isinstance(message, list) else message)

    async def hear(self) -> Any:
        heard = await self._client.hear()
        if isinstance(heard, bytes):
            return list(heard)
        if isinstance(heard, str):
            return heard
        self._client.leave(heard["code"], heard.get("reason") or "")  # as the other side of a handshake answers
        return {"closed": heard["code"], "reason": heard.get("reason") or ""}

    async def leave(self, code: int, reason: str = "") -> None:
        self._client.leave(code, reason)

    async def end(self) -> None:
        self._client.leave(1000, "")


class Workerd:
    """A Worker on the real runtime: the JavaScript twin, or what else is in `source`."""

    def __init__(self, binary: Path, folder: Path, source: Path = HERE) -> None:
        self._binary = binary
        self._folder = folder
        self._source = source
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "storage").mkdir(exist_ok=True)
        for script in self._source.glob("*.js"):
            shutil.copy(script, self._folder)
        text = (self._source / "workerd.capnp").read_text().replace("STORAGE", str(self._folder / "storage"))
        (self._folder / "workerd.capnp").write_text(text)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [str(self._binary), "serve", "workerd.capnp", f"--socket-addr=http=127.0.0.1:{self.port}"]
        with (self._folder / "workerd.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        give_up_at = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > give_up_at or self._process.poll() is not None:
                    sys.exit(f"error: workerd did not start; see {self._folder}/workerd.log")
                time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self._post, json.dumps(asked).encode())

    async def wait(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def restart(self, after_ms: int) -> None:
        self.stop()
        await asyncio.sleep(after_ms / 1000)
        self.start()

    async def talk(self, path: str, steps: list[list[Any]]) -> list[Any]:
        import aiohttp

        async def connect() -> RealClient:
            session = aiohttp.ClientSession()
            return RealClient(
                session, await session.ws_connect(f"http://127.0.0.1:{self.port}/{path}", autoclose=False)
            )

        return await converse(steps, connect, self.wait)

    def _post(self, body: bytes) -> dict[str, Any]:
        with urlopen(HttpRequest(f"http://127.0.0.1:{self.port}/", data=body), timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


def installed(folder: Path) -> Path:
    """The runtime of package.json, installed from npm if it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    if not (folder / "node_modules").exists() or (folder / "package.json").read_text() != wanted:
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("error: this compares with the real workerd and needs Node with npm; apt install nodejs npm")
        shutil.copy(HERE / "package.json", folder)
        subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=300)
    found = next(folder.glob("node_modules/@cloudflare/workerd-*/bin/workerd*"), None)
    if found is None:
        sys.exit(f"error: npm has no workerd for this machine ({os.uname().sysname} {os.uname().machine})")
    return found
