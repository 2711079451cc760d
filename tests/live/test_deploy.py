"""The commands of deploy/, run here: three nodes as the compose file starts them, one of them drained as Kubernetes does.

There is no container on this machine. Each node has its own name of the machine instead, and addresses, folders and the
database are those of the test; everything else is word for word what the files say.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from tests.yardstick import PATIENCE_S
from wakeful.values.ids import SHARDS

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy/docker/compose.yaml").read_text())
MANIFEST = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/wakeful.yaml").read_text()))
MANIFEST += list(yaml.safe_load_all((ROOT / "deploy/kubernetes/token.yaml").read_text()))
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text()


class Site:
    """Where the containers would be."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        program = re.findall(r"^ARG PROGRAM=(\S+)", DOCKERFILE, re.M)[0]
        shutil.copy(ROOT / program, folder / "app.py")
        secret = folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        secret.chmod(0o600)
        bare = {name: text for name, text in os.environ.items() if not name.startswith("WAKEFUL_")}
        self.env = {**bare, "WAKEFUL_STORE": url, "WAKEFUL_SECRET_FILE": str(secret), "PYTHONUNBUFFERED": "1"}

    def start(self, host: str, args: list[str], **env: str) -> "subprocess.Popen[str]":
        """`wakeful` with these words on a machine of that name."""
        words = [sys.executable, "-m", "wakeful.cli", *args]
        runtime = self.folder / host
        runtime.mkdir(mode=0o700, exist_ok=True)
        return subprocess.Popen(
            ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *words],
            cwd=self.folder,
            env={**self.env, "XDG_RUNTIME_DIR": str(runtime), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, host: str, args: list[str], **env: str) -> str:
        """What it says, once it has succeeded."""
        process = self.start(host, args, **env)
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
        return said

    @contextmanager
    def node(self, name: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
        """One of the compose file, at ports of this machine."""
        service = COMPOSE["services"][name]
        listen, http = free_port(), free_port()
        ports = {"0.0.0.0:7400": f"127.0.0.1:{listen}", "0.0.0.0:7420": f"127.0.0.1:{http}"}
        args = [ports.get(word, word) for word in service["command"]]
        assert set(ports.values()) <= set(args)
        process = self.start(service["hostname"], args, WAKEFUL_LOG="json", WAKEFUL_ADVERTISE=f"127.0.0.1:{listen}")
        try:
            yield process, http
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def readyz(port: int) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


def until(is_so: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def args_of(kind: str, name: str) -> list[str]:
    part = next(one for one in MANIFEST if (one["kind"], one["metadata"]["name"]) == (kind, name))
    found: list[str] = part["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def pre_stop() -> list[str]:
    part = next(one for one in MANIFEST if one["kind"] == "StatefulSet")
    program, *args = part["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "wakeful"
    return list(args)


def health_check(port: int) -> None:
    """That of the image, which is quiet when all is well."""
    program, *args = json.loads(re.findall(r"^ +CMD (\[.*\])$", DOCKERFILE, re.M)[0])
    assert program == "python"
    subprocess.run([sys.executable, *(arg.replace("7420", str(port)) for arg in args)], check=True, timeout=PATIENCE_S)


def can_name_machines() -> bool:
    command = ["unshare", "--uts", "sh", "-c", "hostname x"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_name_machines(), reason="only root may give a process another name of the machine")
def test_the_files_start_a_cluster_and_stop_a_node_of_it_unnoticed(tmp_path: Path, postgres_schema_url: str) -> None:
    site = Site(tmp_path, postgres_schema_url)
    site.run("setup", COMPOSE["services"]["migrate"]["command"])
    site.run("setup", args_of("Job", "wakeful-migrate-1"))  # once more harms nothing
    assert re.search(r"^wk_\w+", site.run("setup", args_of("Job", "wakeful-token")), re.M)
    with ExitStack() as stack:
        nodes = {name: stack.enter_context(site.node(name)) for name in ("node1", "node2", "node3")}

        def shards() -> dict[str, int]:
            rows = json.loads(site.run("look", ["nodes", "--json"]))["nodes"]
            return {row["about"].split()[0]: len(row["shards"]) for row in rows if row["state"] in ("up", "draining")}

        for name, (process, http) in nodes.items():
            until(lambda http=http: readyz(http)[0] == 200, f"{name}: {process.poll()}")
            health_check(http)
        until(lambda: len(found := shards()) == 3 and sum(found.values()) == SHARDS and all(found.values()), "shares")
        site.run("node1", pre_stop())
        process, http = nodes["node1"]
        assert readyz(http) == (503, {"status": "not ready", "reason": "the node is draining"})
        assert shards()["node1"] == 0
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        assert process.returncode == 0
        until(lambda: sum(shards().values()) == SHARDS, "the others have all")
        for _, http in list(nodes.values())[1:]:
            assert readyz(http)[0] == 200
