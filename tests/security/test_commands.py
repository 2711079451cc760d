"""`wakeful tokens`, `audit` and `keys`: beside a running program and without one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli import run

PROGRAM = """
from wakeful import App, DurableObject

app = App()

@app.object
class Box(DurableObject):
    async def put(self, text: str) -> str:
        await self.storage.put("text", text)
        return text

    async def get(self) -> str:
        return await self.storage.get("text")
"""
SECRET = "the-secret-text"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "app.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    found = f"sqlite:{tmp_path}/box.db"
    monkeypatch.setenv("WAKEFUL_STORE", found)
    return found


def command(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    """What it says to programs."""
    assert run([*args, "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out.splitlines()[-1]) if out else err


def said(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> tuple[str, str]:
    """What it says to people."""
    assert run(args) == code
    out, err = capsys.readouterr()
    return out, err


@contextmanager
def running() -> Iterator[None]:
    """The program in a process of its own, until the block ends."""
    lines = [sys.executable, "-m", "wakeful.cli", "run", "app.py:app", "--json"]
    process = subprocess.Popen(lines, stdout=subprocess.PIPE, text=True, env=os.environ | {"WAKEFUL_HTTP": "off"})
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "ready":
                break
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)


def token_life(capsys: pytest.CaptureFixture[str]) -> None:
    made = command(
        capsys, "tokens", "create", "deploy", "--scope", "operate,call", "--tenant", "eu", "--expires", "90d"
    )
    assert made["token"].startswith(f"wk_{made['id']}_")
    assert (made["scopes"], made["tenant"], made["state"]) == (["call", "operate"], "eu/", "active")
    out, err = said(capsys, "tokens", "create", "second", "--scope", "admin", "--rate", "5")
    assert out.strip().startswith("wk_")
    assert "shown this once" in err
    assert out.strip() not in err
    taken = command(capsys, "tokens", "create", "deploy", code=1)
    assert taken["error"]["code"] == "token.taken"
    listed = command(capsys, "tokens", "list")
    assert [one["name"] for one in listed] == ["deploy", "second"]
    assert "hash" not in str(listed)
    assert made["token"] not in str(listed)
    assert command(capsys, "tokens", "revoke", "deploy", "nobody", code=1)[1]["revoked"] == []
    assert [one["name"] for one in command(capsys, "tokens", "list")] == ["second"]
    assert [one["state"] for one in command(capsys, "tokens", "list", "--all")] == ["revoked", "active"]
    assert command(capsys, "tokens", "create", "deploy")["id"] != made["id"]  # the name is free again
    shown = command(capsys, "audit")
    acts = [(row["act"], row["target"], row["outcome"]) for row in reversed(shown["rows"])]
    assert acts[:5] == [
        ("token.create", "deploy", "done"),
        ("token.create", "second", "done"),
        ("token.create", "deploy", "failed"),
        ("token.revoke", "deploy", "done"),
        ("token.revoke", "nobody", "failed"),
    ]
    assert {row["actor"].partition(":")[0] for row in shown["rows"]} == {"cli"}
    assert made["token"] not in str(shown)
    first = command(capsys, "audit", "-n", "2")
    rest = command(capsys, "audit", "-n", "100", "--after", first["cursor"])
    assert [row["number"] for row in first["rows"] + rest["rows"]] == [row["number"] for row in shown["rows"]]


def test_tokens_before_any_program_ran(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    token_life(capsys)
    data = b"".join(file.read_bytes() for file in tmp_path.glob("box.db*"))
    assert b"wk_" not in data
    refused = said(capsys, "tokens", "clear", code=2)
    assert "--yes" in refused[1]
    assert command(capsys, "tokens", "clear", "--yes") == {"cleared": 3}
    assert "open to this machine alone" in said(capsys, "tokens", "list")[0]


def test_tokens_beside_a_running_program(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with running():
        token_life(capsys)
        assert "deploy" in said(capsys, "audit")[0]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("create", "a b"), "token.name"),
        (("create", "a", "--scope", "root"), "token.scope"),
        (("create", "a", "--scope", ","), "token.scope"),
        (("create", "a", "--expires", "soon"), "time.text"),
        (("create", "a", "--tenant", "/eu"), "token.tenant"),
        (("create", "a", "--expires", "0s"), "token.expires"),
    ],
)
def test_what_makes_no_sense_makes_no_token(
    url: str, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: str
) -> None:
    found = command(capsys, "tokens", *args, code=2)
    assert found["error"]["code"] == code
    assert run(["tokens", "list"]) in (0, 3)


def test_keys_are_made_used_changed_and_checked(
    url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(capsys, "call", "Box", "a", "put", f'"{SECRET}"', "--app", "app.py")
    old, new = (said(capsys, "keys", "new")[0].strip() for _ in range(2))
    assert old != new
    assert old.startswith("wkk_")
    assert command(capsys, "keys", "check", code=2)["error"]["code"] == "keys.none"
    monkeypatch.setenv("WAKEFUL_KEYS", old)
    assert command(capsys, "keys", "check", code=1)["left"] == 1
    found = command(capsys, "keys", "rotate")
    assert (found["sealed"], found["left"], found["shut"]) == (1, 0, 0)
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("box.db*"))
    with running():  # with the old key: what it seals is not under the one that is the newest here
        monkeypatch.setenv("WAKEFUL_KEYS", f"{new} {old}")
        for act in ("check", "rotate"):
            assert command(capsys, "keys", act, code=1)["error"]["code"] == "keys.newest"
    with running():
        assert command(capsys, "call", "Box", "a", "get") == SECRET
        assert command(capsys, "keys", "check", code=1)["left"] > 0
        assert command(capsys, "keys", "rotate")["left"] == 0
        assert command(capsys, "keys", "check")["left"] == 0
        assert SECRET in said(capsys, "show", "Box", "a")[0]
    monkeypatch.setenv("WAKEFUL_KEYS", new)
    assert SECRET in said(capsys, "show", "Box", "a")[0]
    assert command(capsys, "move", url, f"sqlite:{tmp_path}/moved.db")
    monkeypatch.setenv("WAKEFUL_STORE", f"sqlite:{tmp_path}/moved.db")
    assert SECRET in said(capsys, "show", "Box", "a")[0]
    monkeypatch.setenv("WAKEFUL_KEYS", old)
    assert "store.key" in said(capsys, "ls", code=3)[1]
    monkeypatch.delenv("WAKEFUL_KEYS")
    assert "store.key" in said(capsys, "ls", code=3)[1]
    assert [row["act"] for row in _audit(capsys, monkeypatch, new)][:2] == ["keys.rotate", "keys.rotate"]


def _audit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, key: str) -> list[dict[str, Any]]:
    monkeypatch.setenv("WAKEFUL_KEYS", key)
    rows: list[dict[str, Any]] = command(capsys, "audit")["rows"]
    return rows


def test_a_token_for_one_object_is_made_and_all_of_them_end_with_their_key(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    made = command(capsys, "tokens", "object", "Door", "front", "--event", "OPEN", "--ttl", "5m", "--name", "ann")
    assert (made["class"], made["methods"], made["events"]) == ("Door", ["snapshot", "send"], ["OPEN"])
    out, err = said(capsys, "tokens", "object", "Box", "b", "--method", "get")
    assert out.startswith(made["token"][:12])  # signed under the same key
    assert "for get of Box/b, until" in err
    assert "--yes" in said(capsys, "tokens", "rotate", code=2)[1]
    rotated = command(capsys, "tokens", "rotate", "--yes")
    after = command(capsys, "tokens", "object", "Door", "front")
    assert after["token"].startswith(f"wo_{rotated['signed_by']}.")
    assert not made["token"].startswith(f"wo_{rotated['signed_by']}.")
    assert "7 days" in said(capsys, "tokens", "object", "Door", "front", "--ttl", "8d", code=2)[1]
    rows = command(capsys, "audit")
    acts = [row["act"] for row in (rows["rows"] if isinstance(rows, dict) else rows)]
    assert acts.count("token.object") == 3
    with running():
        command(capsys, "tokens", "object", "Box", "b", "--method", "get")
        assert (
            "no process that runs the store has a class 'Bax', did you mean 'Box'?"
            in (said(capsys, "tokens", "object", "Bax", "b", "--method", "get", code=2)[1])
        )
    assert acts.count("token.rotate") == 1
    assert made["token"].split(".")[1] not in json.dumps(rows)
