"""Real processes: nodes of one cluster on PostgreSQL, and the commands that operate it, from here and from elsewhere."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from tests.yardstick import PATIENCE_S
from wakeful.cli import run

SECRET = "0123456789abcdef0123456789abcdef"
OLD = """
from datetime import timedelta
from wakeful import App, DurableObject, RetryPolicy, fixed

app = App()

@app.object
class Cart(DurableObject):
    async def add(self, n=1):
        count = await self.storage.get("n", 0) + n
        await self.storage.put("n", count)
        return count

    async def fail(self):
        await self.jobs.schedule(self.broken, key="b", retry=RetryPolicy(max_attempts=1, backoff=fixed("1s")))

    async def later(self, n):
        return (await self.jobs.schedule(self.add, n, after="1h")).id

    async def broken(self):
        if not await self.storage.get("healed"):
            await self.storage.put("healed", 1)
            raise ValueError("not yet")

    async def heal(self):
        await self.storage.put("healed", 1)
"""
NEW = (
    OLD
    + """
    async def twice(self, n=1):
        return await self.add(2 * n)

@app.object
class Gift(DurableObject):
    async def wrap(self):
        await self.storage.put("is_wrapped", True)
        return "wrapped"
"""
)
LONG_S = PATIENCE_S


class Answer(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


class Cluster:
    """A folder with programs, one database, and nodes that run them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("WAKEFUL_")}
        self._environment |= {
            "WAKEFUL_STORE": url,
            "WAKEFUL_SECRET": SECRET,
            "XDG_RUNTIME_DIR": str(_short(folder, "r")),
        }
        (folder / "old.py").write_text(OLD)
        (folder / "new.py").write_text(NEW)

    def start(self, program: str = "old.py", *args: str, port: int | None = None, **environment: str) -> int:
        """A node; its port. It is up when this returns."""
        port = port or free_port()
        process = self.begin(port, "run", program, "--listen", f"127.0.0.1:{port}", *args, **environment)
        self._running[port] = process
        self.wait_for(lambda: "ready" in self.log(port) or process.poll() is not None, self.log(port))
        return port

    def stop(self, port: int) -> None:
        process = self._running.pop(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_S) == 0, self.log(port)

    def signal(self, port: int, number: signal.Signals) -> None:
        self._running[port].send_signal(number)

    def kill(self, port: int) -> None:
        process = self._running.pop(port)
        process.kill()
        process.wait()

    def run(self, *args: str, code: int = 0, **environment: str) -> Answer:
        """A command, in this process, since starting Python takes longer than most of them."""
        out, err = io.StringIO(), io.StringIO()
        names = patch.dict(os.environ, self._environment | environment, clear=True)
        with names, redirect_stdout(out), redirect_stderr(err):
            ended = run(args)
        found = Answer(ended, out.getvalue(), err.getvalue())
        assert found.code == code, (args, found)
        return found

    def json(self, *args: str, code: int = 0, **environment: str) -> Any:
        return json.loads(self.run(*args, "--json", code=code, **environment).out)

    def elsewhere(self) -> dict[str, str]:
        """The environment of another machine: no control socket is to be found there."""
        return {"XDG_RUNTIME_DIR": str(_short(self.folder, "e"))}

    def settled(self, nodes: int) -> None:
        """So many nodes share the shards."""

        def is_so() -> bool:
            found = self.json("nodes")
            owning = [len(node["shards"]) for node in found["nodes"] if node["state"] == "up"]
            return len(owning) == nodes and sum(owning) == 256 and max(owning) - min(owning) <= 1

        self.wait_for(is_so, "the nodes do not share")

    def well(self) -> None:
        """Nothing is wrong by and by: a machine that is busy may be late with a lease or a clock for a moment."""
        self.wait_for(lambda: not self.findings(), "something is not well")

    def findings(self) -> list[str]:
        """What is wrong now: of a renewal that was late it is told for an hour, and the machine may have been busy."""
        return [row["text"] for row in self.json("doctor") if row["status"] != "ok" and row["check"] != "renewals"]

    def named(self, port: int) -> str:
        return next(row["node"] for row in self.json("nodes")["nodes"] if row["address"].endswith(f":{port}"))

    def log(self, port: int) -> str:
        path = self.folder / f"{port}.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, what: Callable[[], object], why: str = "") -> None:
        until = time.monotonic() + LONG_S
        while not what():
            assert time.monotonic() < until, why
            time.sleep(0.05)

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def begin(self, port: int, *args: str, **environment: str) -> subprocess.Popen[bytes]:
        """A process that logs under that number."""
        with (self.folder / f"{port}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "wakeful.cli", *args],
                cwd=self.folder,
                env=self._environment | environment,
                stdout=log,
                stderr=log,
            )


def _short(folder: Path, name: str) -> Path:
    """A folder whose path leaves room for a socket's name."""
    path = Path("/tmp") / f"wk-{os.getpid()}-{abs(hash(str(folder))) % 10**6}-{name}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path, postgres_schema_url: str) -> Iterator[Cluster]:
    found = Cluster(tmp_path, postgres_schema_url)
    yield found
    found.close()
    for name in ("r", "e"):
        subprocess.run(["rm", "-rf", str(_short(tmp_path, name))], check=True)


def test_nodes_drain_and_calls_from_here_and_from_elsewhere(cluster: Cluster) -> None:
    first, second = cluster.start(), cluster.start()
    cluster.settled(2)
    cluster.well()
    assert [cluster.json("call", "Cart", f"c{n}", "add", "2") for n in range(4)] == [2] * 4

    there = cluster.elsewhere()
    assert [cluster.json("call", "Cart", f"c{n}", "add", "1", **there) for n in range(4)] == [3] * 4
    said = cluster.run("call", "Cart", "c1", "add", code=3, WAKEFUL_SECRET="", **there).err
    assert "set $WAKEFUL_SECRET" in said
    assert "[owner.unreachable]" in said
    wrong = cluster.run("call", "Cart", "c1", "add", code=3, WAKEFUL_SECRET="f" * 32, **there).err
    assert "can't be reached from here" in wrong
    assert [row["status"]["awake"] >= 0 for row in cluster.json("nodes", **there)["nodes"]] == [True, True]

    node = cluster.named(first)
    drained = cluster.json("drain", node[:6], "--wait", "--timeout", "120s")
    assert drained == {"node": node, "is_draining": True, "shards_left": 0, "others": [cluster.named(second)]}
    states = {row["node"]: (row["state"], len(row["shards"])) for row in cluster.json("nodes")["nodes"]}
    assert states == {node: ("draining", 0), cluster.named(second): ("up", 256)}
    assert cluster.json("call", "Cart", "c1", "add", "0", **there) == 3
    assert "[drain.alone]" in cluster.run("drain", cluster.named(second), "--wait", code=1).err
    cluster.run("drain", node, "--undo")
    cluster.settled(2)
    cluster.stop(first)
    cluster.wait_for(lambda: len(cluster.json("nodes")["nodes"]) == 1, "the node that was stopped is still there")
    assert cluster.json("call", "Cart", "c2", "add", "0") == 3


def test_jobs_and_redrive_through_any_node_or_from_elsewhere(cluster: Cluster) -> None:
    cluster.start()
    cluster.start()
    cluster.settled(2)
    there = cluster.elsewhere()
    ids = [cluster.json("call", "Cart", f"c{n}", "later", "1") for n in range(3)]
    listed = cluster.json("jobs", "--state", "scheduled")
    assert {row["id"] for row in listed["jobs"]} == set(ids)
    assert cluster.json("jobs", "cancel", *ids[:2], **there) == [{"id": id, "cancelled": True} for id in ids[:2]]
    assert cluster.json("jobs", "cancel", ids[0], code=1) == [{"id": ids[0], "cancelled": False}]
    assert cluster.json("jobs", "get", ids[2])["state"] == "scheduled"

    for n in range(3):
        cluster.run("call", "Cart", f"c{n}", "fail")
    cluster.wait_for(lambda: len(cluster.json("parked")) == 3, "nothing is parked")
    findings = {row["check"]: row for row in cluster.json("doctor")}
    assert findings["parked"]["status"] == "warn"
    for n in range(3):
        cluster.run("call", "Cart", f"c{n}", "heal")
    numbers = [str(row["number"]) for row in cluster.json("parked")]
    assert [row["ok"] for row in cluster.json("redrive", numbers[0])] == [True]
    assert [row["ok"] for row in cluster.json("redrive", "--all", **there)] == [True, True]
    cluster.wait_for(lambda: not cluster.json("parked"), "they are parked still")
    cluster.wait_for(lambda: len(cluster.json("jobs", "--state", "done")["jobs"]) >= 3, "they did not run")


def test_a_killed_node_is_seen_and_its_shards_are_taken(cluster: Cluster) -> None:
    first, second = cluster.start(), cluster.start()
    cluster.settled(2)
    cluster.kill(first)
    cluster.settled(1)
    assert cluster.json("call", "Cart", "a", "add") == 1
    cluster.kill(second)
    cluster.wait_for(lambda: not any(row["state"] == "up" for row in cluster.json("nodes")["nodes"]), "seen as up")
    findings = {row["check"]: row for row in cluster.json("doctor")}
    assert findings["owner"]["status"] == "warn"
    assert "no process runs this store" in findings["owner"]["text"]
    assert "[owner.none]" in cluster.run("call", "Cart", "a", "add", code=3).err


def test_a_frozen_node_is_silent_and_told_apart_from_a_dead_one(cluster: Cluster) -> None:
    first, second = cluster.start(), cluster.start()
    cluster.settled(2)
    frozen = cluster.named(first)
    cluster.signal(first, signal.SIGSTOP)
    cluster.wait_for(
        lambda: {row["node"]: row["state"] for row in cluster.json("nodes")["nodes"]}.get(frozen) == "silent",
        "it is not seen as silent",
    )
    findings = {row["check"]: row for row in cluster.json("doctor")}
    assert findings["lease"]["status"] == "warn"
    assert frozen in findings["lease"]["text"]
    assert findings["lease"]["evidence"] == "its session with the database still lives"
    assert [cluster.json("call", "Cart", f"c{n}", "add") for n in range(4)] == [1] * 4
    cluster.signal(first, signal.SIGCONT)
    cluster.settled(2)
    assert [cluster.json("call", "Cart", f"c{n}", "add") for n in range(4)] == [2] * 4
    assert "link." not in str(cluster.json("audit"))  # commands that gave up waiting for it are no strangers
    cluster.stop(first)
    cluster.stop(second)


def test_a_rolling_deploy_loses_no_call(cluster: Cluster) -> None:
    """The new program on one node, the old on another; then the old one is drained and stopped."""
    old = cluster.start("old.py")
    new = cluster.start("new.py")
    cluster.settled(2)
    keys = [f"c{n}" for n in range(6)]
    assert [cluster.json("call", "Cart", key, "add") for key in keys] == [1] * 6
    known = {row["node"]: row["status"]["classes"] for row in cluster.json("nodes")["nodes"]}
    assert known == {cluster.named(old): ["Cart"], cluster.named(new): ["Cart", "Gift"]}
    cluster.json("drain", cluster.named(old), "--wait", "--timeout", "120s")
    assert [cluster.json("call", "Cart", key, "twice") for key in keys] == [3] * 6
    assert [cluster.json("call", "Gift", key, "wrap") for key in keys] == ["wrapped"] * 6
    cluster.well()  # who drains need not know it
    cluster.run("drain", cluster.named(old), "--undo")
    cluster.settled(2)

    cluster.wait_for(
        lambda: len(cluster.findings()) == 1, "something is not well, beside a class that one node does not know"
    )
    assert cluster.findings()[0].startswith("Gift is known to 1 of 2 nodes")
    cluster.stop(old)
    assert [cluster.json("call", "Cart", key, "add") for key in keys] == [4] * 6
    cluster.well()


def test_a_node_that_can_not_join_says_why_and_what_to_do(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.start("old.py", "--cluster", "shop")
    cases: list[tuple[list[str], dict[str, str], int, str]] = [
        (["--listen", f"127.0.0.1:{port}", "--cluster", "shop"], {}, 3, "[address.in_use]"),
        (["--listen", "127.0.0.1:0", "--cluster", "other"], {}, 3, "[cluster.name]"),
        (["--listen", "0.0.0.0:0", "--cluster", "shop"], {"WAKEFUL_SECRET": ""}, 2, "[cluster.no_secret]"),
        (["--listen", "nonsense"], {}, 2, "[address]"),
        (["--listen", "127.0.0.1:0", "--store", f"sqlite:{tmp_path}/x.db"], {}, 2, "[address.store]"),
    ]
    refused = [
        cluster.begin(n, "run", "old.py", *args, **environment) for n, (args, environment, _, _) in enumerate(cases)
    ]
    for n, (args, _, code, word) in enumerate(cases):
        assert refused[n].wait(LONG_S) == code, (args, cluster.log(n))
        assert word in cluster.log(n), args
        assert cluster.log(n).count("\n") == 1, cluster.log(n)
    assert len(cluster.json("nodes")["nodes"]) == 1  # nobody is half joined
    (tmp_path / "secret").write_text(SECRET + "\n")
    cluster.start("old.py", "--cluster", "shop", "--secret-file", "secret", WAKEFUL_SECRET="")
    cluster.settled(2)
    assert cluster.json("call", "Cart", "a", "add") == 1
