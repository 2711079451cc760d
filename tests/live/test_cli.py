"""Real processes: `wakeful dev` and `wakeful run` on SQLite, with the other commands from outside."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.yardstick import PATIENCE_S
from wakeful.store import open_url
from wakeful.values.commits import Commit
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Parked, Timer

PROGRAM = """
import asyncio
from datetime import timedelta
from pathlib import Path
from wakeful import AlarmInfo, App, DurableObject
from words import GREETING

app = App()

@app.object
class Greeter(DurableObject):
    async def greet(self):
        count = await self.storage.get("count", 0) + 1
        await self.storage.put("count", count)
        return f"{GREETING} {count}"

    async def ask(self, seconds: float):
        return await app.get(Greeter, "other").wait(str(seconds))

    async def wait(self, seconds: float):
        return seconds

    async def later(self, after_ms, ok=True):
        await self.storage.put("ok", ok)
        await self.storage.set_alarm(timedelta(milliseconds=after_ms))

    async def slow(self, seconds):
        await self.storage.put("slow", "begun")
        Path("begun").touch()
        await asyncio.sleep(seconds)
        await self.storage.put("slow", "done")

    async def alarm(self, info: AlarmInfo):
        if not await self.storage.get("ok"):
            raise RuntimeError("not yet")
        await self.storage.put("fired", await self.storage.get("fired", 0) + 1)

async def on_start(app):
    await app.get(Greeter, "seed", request_key="seed").greet()
"""
LONG_S = PATIENCE_S


class Shell:
    """A folder with a program in it, and commands run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "log"
        self._running: list[subprocess.Popen[bytes]] = []
        self._environment = {key: value for key, value in os.environ.items() if key != "WAKEFUL_STORE"}
        (folder / "app.py").write_text(PROGRAM)
        (folder / "words.py").write_text('GREETING = "hello"\n')

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        """A command that stays; what it prints goes to the log."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command(args), cwd=self.folder, env=self._environment, stdout=log, stderr=log
            )
        self._running.append(process)
        return process

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        found = subprocess.run(
            self._command(args),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert found.returncode == code, (args, found.stdout, found.stderr)
        return found

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args, "--json").stdout)

    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, what: Callable[[], object], why: str = "") -> None:
        until = time.monotonic() + LONG_S
        while not what():
            assert time.monotonic() < until, f"{why}\n{self.log()}"
            time.sleep(0.05)

    def wait_for_log(self, word: str, times: int = 1) -> None:
        self.wait_for(lambda: self.log().count(word) >= times, f"{word!r} is not in the log {times} times")

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _command(self, args: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "wakeful.cli", *args]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    found = Shell(tmp_path)
    yield found
    found.close()


def test_calls_and_looks_from_another_process(shell: Shell) -> None:
    process = shell.start("run", "app:app")
    shell.wait_for_log("ready")
    assert shell.json("call", "Greeter", "bob", "greet") == "hello 1"
    assert shell.json("call", "Greeter", "bob", "greet", "--request-key", "k") == "hello 2"
    assert shell.json("call", "Greeter", "bob", "greet", "--request-key", "k") == "hello 2"
    assert [row["key"] for row in shell.json("ls", "Greeter")] == ["bob", "seed"]
    assert shell.json("show", "Greeter", "bob")["storage"] == {"count": 2}
    shell.run("call", "Greeter", "bob", "later", "50")
    shell.wait_for(lambda: shell.json("show", "Greeter", "bob")["storage"].get("fired") == 1)
    assert shell.json("show", "Greeter", "bob")["ledger"][0]["verdict"] == "run"
    shell.run("call", "Greeter", "bob", "later", "3600000")
    assert [row["key"] for row in shell.json("due")] == ["bob"]
    assert {row["status"] for row in shell.json("doctor")} == {"ok"}
    assert (
        "did not finish within its deadline"
        in shell.run("call", "Greeter", "bob", "slow", "10", "--deadline", "100ms", code=1).stderr
    )
    assert "slow" not in shell.json("show", "Greeter", "bob")["storage"]
    assert "owned by process" in shell.run("run", "app:app", code=3).stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 0
    assert "stopped" in shell.log()
    assert "[owner.none]" in shell.run("call", "Greeter", "bob", "greet", code=3).stderr
    assert shell.json("call", "Greeter", "bob", "greet", "--app", "app.py") == "hello 3"


def test_a_stop_lets_the_running_turn_finish_and_a_second_one_does_not(shell: Shell) -> None:
    for signals, ends, slow in ((1, 0, "done"), (2, 128 + signal.SIGINT, None)):
        process = shell.start("run", "app.py:app", "--store", f"sqlite:{signals}.db")
        shell.wait_for_log("ready", times=signals)
        caller = shell.start("call", "Greeter", "a", "slow", "1.5", "--store", f"sqlite:{signals}.db")
        shell.wait_for((shell.folder / "begun").exists, "the turn does not begin")
        (shell.folder / "begun").unlink()
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert process.wait(LONG_S) == ends, shell.log()
        assert (caller.wait(LONG_S) == 0) is (slow == "done"), shell.log()
        if slow:
            assert shell.json("show", "Greeter", "a", "--store", f"sqlite:{signals}.db")["storage"]["slow"] == slow
        else:
            shell.run("show", "Greeter", "a", "--store", f"sqlite:{signals}.db", code=1)


def test_kill_9_and_restart_keeps_everything(shell: Shell) -> None:
    process = shell.start("run", "app:app")
    shell.wait_for_log("ready")
    assert shell.json("call", "Greeter", "bob", "greet") == "hello 1"
    shell.run("call", "Greeter", "bob", "later", "1500")
    process.kill()
    process.wait()
    findings = {row["check"]: row for row in shell.json("doctor")}
    assert findings["owner"]["status"] == "warn"  # a stale address in the store is not a running process
    assert shell.json("show", "Greeter", "bob")["storage"]["count"] == 1
    shell.run("call", "Greeter", "bob", "greet", code=3)
    shell.start("run", "app:app")
    shell.wait_for_log("ready", times=2)
    assert shell.json("call", "Greeter", "bob", "greet") == "hello 2"
    shell.wait_for(lambda: shell.json("show", "Greeter", "bob")["storage"].get("fired"))
    assert shell.json("show", "Greeter", "bob")["storage"]["fired"] == 1


def test_dev_reloads_on_change_and_keeps_the_data(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:  # not one that programs of other tests take meanwhile
        address = f"127.0.0.1:{other.getsockname()[1]}"
    process = shell.start("dev", "app.py", "--http", address)
    shell.wait_for_log("Try in another terminal")
    assert shell.json("call", "Greeter", "bob", "greet") == "hello 1"
    (shell.folder / "words.py").write_text('GREETING = "good morning"\n')
    shell.wait_for_log("ready", times=2)
    assert shell.json("call", "Greeter", "bob", "greet") == "good morning 2"
    (shell.folder / "words.py").write_text("GREETING =\n")
    shell.wait_for_log("save a fix")
    assert "[owner.none]" in shell.run("call", "Greeter", "bob", "greet", code=3).stderr
    (shell.folder / "words.py").write_text('GREETING = "good evening"\n')
    shell.wait_for_log("ready", times=3)
    assert shell.json("call", "Greeter", "bob", "greet") == "good evening 3"
    assert re.findall(r"dashboard at http://(127\.0\.0\.1:\d+)", shell.log()) == [address] * 3
    with urllib.request.urlopen(f"http://{address}/readyz", timeout=LONG_S) as answer:
        assert answer.status == 200
    assert shell.json("show", "Greeter", "seed")["storage"] == {"count": 1}  # on_start ran thrice, its seed once
    wrong = shell.run("call", "Greeter", "bob", "ask", "1.5", code=1)
    assert "Greeter.wait: argument 'seconds': expected float, got str '1.5'" in wrong.stderr
    shell.run("call", "Greeter", "bob", "later", "20")
    shell.wait_for_log("ran       Greeter/bob alarm")
    shell.run("call", "Greeter", "bob", "later", "20", "false")
    shell.wait_for_log("failed    Greeter/bob alarm (attempt 1, again in 2.")
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == 0


def test_dev_goes_down_with_its_supervisor_and_comes_back_after_a_kill(shell: Shell) -> None:
    process = shell.start("dev", "app.py")
    shell.wait_for_log("ready")
    time.sleep(3.2)  # a program that dies at once would not be started again by itself
    os.kill(_pid(shell), signal.SIGKILL)
    shell.wait_for_log("killed by SIGKILL")
    shell.wait_for_log("ready", times=2)
    assert shell.json("call", "Greeter", "bob", "greet") == "hello 1"
    child = _pid(shell)
    process.kill()
    process.wait()
    shell.wait_for(lambda: not _is_alive(child), "the child outlived its supervisor")
    assert shell.json("call", "Greeter", "bob", "greet", "--app", "app.py") == "hello 2"


def test_dev_says_what_is_wrong_and_ends(shell: Shell) -> None:
    (shell.folder / "empty.py").write_text("x = 1\n")
    assert "[app.none]" in shell.run("dev", "empty.py", code=2).stderr
    assert "[app.file]" in shell.run("dev", "missing.py", code=2).stderr
    assert "[store.url]" in shell.run("dev", "app.py", "--store", "nonsense", code=2).stderr


def test_a_parked_timer_is_redriven_by_the_running_process(shell: Shell) -> None:
    asyncio.run(_park(f"sqlite:{shell.folder}/wakeful.db"))
    process = shell.start("run", "app:app")
    shell.wait_for_log("ready")
    [row] = shell.json("parked")
    assert (row["class"], row["key"], row["error"]) == ("Greeter", "parked", "RuntimeError: not yet")
    shell.run("call", "Greeter", "parked", "later", "100000", "true")
    assert "another alarm pending" in shell.run("redrive", str(row["number"]), code=1).stdout
    shell.run("call", "Greeter", "parked", "later", "0", "true")
    shell.wait_for(lambda: not shell.json("due"))
    assert [found["ok"] for found in shell.json("redrive", "--all")] == [True]
    shell.wait_for(lambda: shell.json("show", "Greeter", "parked")["storage"]["fired"] == 2)
    assert shell.json("parked") == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 0


def test_the_example_runs_and_shows_what_it_promises(shell: Shell) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "reminders.py"
    lines = example.read_text().count("\n")
    assert 30 <= lines <= 80
    process = shell.start("dev", str(example), "--paranoid", "--json")
    shell.wait_for(lambda: {"ready", "ran", "failed"} <= set(_events(shell)), "the example is dull")
    assert shell.json("call", "Reminder", "tea", "delivered")
    shell.wait_for(lambda: ("ran", "Errand/flaky") in _happenings(shell), "flaky does not recover")
    assert len(shell.json("call", "Errand", "broken", "repair")) > 5
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 0


def _pid(shell: Shell) -> int:
    findings = {row["check"]: row["text"] for row in shell.json("doctor")}
    return int(findings["owner"].partition("pid ")[2].split()[0])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _happenings(shell: Shell) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in shell.log().splitlines() if line.endswith("}")]
    return [(row["event"], row.get("object") or "") for row in rows]


def _events(shell: Shell) -> list[str]:
    return [event for event, _ in _happenings(shell)]


async def _park(url: str) -> None:
    """A timer that failed for good, without waiting two minutes for it."""
    store = open_url(url)
    await store.open(now=1)
    epochs = await store.claim("test", range(SHARDS), now=1)
    id = ObjectId("Greeter", "parked")
    shard = shard_of(id)
    parked = Parked(
        Timer(id, "alarm", 1_000, 1_000, 256 + shard), "run", 2_000, 7, "failed", "RuntimeError: not yet", ""
    )
    await store.commit("test", [Commit(id=id, shard=shard, epoch=epochs[shard], now=2_000, parks=[parked])])
    await store.release("test", epochs)
    await store.close()
