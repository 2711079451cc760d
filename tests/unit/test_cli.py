"""The command line, in this process: what it says, in which form, and how it ends."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest

from wakeful.cli import _COMMANDS, cli, exit_codes, run
from wakeful.cli.app_loader import load
from wakeful.cli.call import argument
from wakeful.cli.output import length, many, relative, size
from wakeful.store import open_url
from wakeful.values.codec import decode_loosely, encode
from wakeful.values.commits import Commit
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Parked, Timer
from wakeful.views.plain import plain

PROGRAM = """
from dataclasses import dataclass, field
from datetime import timedelta
from wakeful import App, DurableObject

app = App()

@dataclass
class Sum:
    total: int = 0
    seen: list[int] = field(default_factory=list)

@app.object
class Counter(DurableObject):
    state: Sum

    async def add(self, n=1):
        self.state.total += n
        self.state.seen.append(n)
        await self.storage.put("last", n)
        await self.storage.set_alarm(timedelta(days=1))
        return self.state.total

    async def whole(self):
        return self.state

    async def fail(self):
        raise ValueError("it is\\nbroken")

    async def alarm(self):
        pass
"""


@dataclass
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Answer]


@pytest.fixture
def wakeful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WAKEFUL_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "app.py").write_text(PROGRAM)

    def command(*args: str) -> Answer:
        path, modules = list(sys.path), set(sys.modules)
        capsys.readouterr()
        try:
            code = run(args)
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if not name.startswith(("wakeful", "rich", "asyncio")):
                    del sys.modules[name]
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return command


def seeded(wakeful: Command) -> None:
    assert wakeful("call", "Counter", "a", "add", "5", "--app", "app.py").json == 5


def park(path: Path, key: str = "a", *, cls: str = "Counter") -> None:
    """Put a parked alarm into the store."""

    async def do() -> None:
        store = open_url(f"sqlite:{path}/wakeful.db")
        await store.open(now=1)
        epochs = await store.claim("test", range(SHARDS), now=1)
        id = ObjectId(cls, key)
        shard = shard_of(id)
        timer = Timer(id, "alarm", 1_000, 1_000, 256 + shard, attempt=6)
        parked = Parked(timer, "run-id", 2_000, 7, "failed", "ValueError: \x1b[31mno", "Traceback …\n  in alarm")
        commit = Commit(id=id, shard=shard, epoch=epochs[shard], now=2_000, parks=[parked], clears=[("alarm", 0)])
        assert await store.commit("test", [commit]) == [None]
        await store.release("test", epochs)
        await store.close()

    asyncio.run(do())


def test_help_lists_every_command(wakeful: Command) -> None:
    answer = wakeful("--help")
    assert answer.code == 0
    assert all(name in answer.out for name in _COMMANDS)


STORELESS = (
    "cron",
    "chart",
    "stubs",
    "move",
    "rebalance",
    "init",
    "completion",
    "keys new",
    "webhooks secret",
)  # which need no store, or two


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_help_and_json(wakeful: Command, name: str) -> None:
    answer = wakeful(name, "--help")
    assert answer.code == 0
    found = cli.get_command(click.Context(cli), name)
    names = [f"{name} {sub}" for sub in found.commands] if isinstance(found, click.Group) else [name]
    for one in names:
        answer = wakeful(*one.split(), "--help")
        assert "--json" in answer.out
        assert "--store" in answer.out or one in STORELESS


def test_help_imports_no_more_than_it_needs() -> None:
    code = (
        "import sys; from wakeful.cli import run; run(['--help']);"
        "print([name for name in ('rich', 'asyncpg', 'sqlite3', 'uvloop', 'wakeful.cli.doctor') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_version(wakeful: Command) -> None:
    assert wakeful("--version").out.startswith("wakeful 0.")


def test_a_call_without_a_process_needs_a_program(wakeful: Command) -> None:
    seeded(wakeful)
    answer = wakeful("call", "Counter", "a", "add")
    assert (answer.code, answer.out) == (3, "")
    assert "--app" in answer.err
    assert answer.err.endswith("[owner.none]\n")
    assert answer.err.count("\n") == 1


def test_an_embedded_call_is_durable(wakeful: Command) -> None:
    seeded(wakeful)
    assert wakeful("call", "Counter", "a", "add", "-3", "--app", "app.py").json == 2
    assert wakeful("call", "Counter", "a", "whole", "--app", "app.py:app", "--json").json == {
        "$type": "Sum",
        "total": 2,
        "seen": [5, -3],
    }


def test_a_request_key_is_remembered_over_processes(wakeful: Command) -> None:
    for _ in range(2):
        assert wakeful("call", "Counter", "k", "add", "--app", "app.py", "--request-key", "x").json == 1


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("Counter", "a", "fail"), 1, "[turn.failed]"),
        (("Counter", "a", "nope"), 2, "[method.unknown]"),
        (("Counter", "a", "_add"), 2, "[method.unknown]"),
        (("Nope", "a", "add"), 2, "[class.unknown]"),
        (("No pe", "a", "add"), 2, "[name.class]"),
        (("Counter", "", "add"), 2, "[name.key]"),
        (("Counter", "a", "add", "1", "--deadline", "soon"), 2, "[time.text]"),
        (("Counter", "a", "add", "1", "--request-key", ""), 2, "[request.key.form]"),
        (("Counter", "a"), 2, "[usage]"),
    ],
)
def test_a_call_that_cannot_be(wakeful: Command, args: tuple[str, ...], code: int, word: str) -> None:
    answer = wakeful("call", *args, "--app", "app.py")
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("error: ")
    assert word in answer.err
    assert answer.err.count("\n") == 1


def test_an_error_in_json_says_type_code_and_traceback(wakeful: Command) -> None:
    answer = wakeful("call", "Counter", "a", "fail", "--app", "app.py", "--json")
    error = answer.json["error"]
    assert (answer.code, error["type"], error["code"], error["remote_type"]) == (
        1,
        "TurnFailed",
        "turn.failed",
        "ValueError",
    )
    assert "in fail" in error["remote_traceback"]


def test_traceback_says_where(wakeful: Command) -> None:
    assert "in fail" not in wakeful("call", "Counter", "a", "fail", "--app", "app.py").err
    assert "in fail" in wakeful("call", "Counter", "a", "fail", "--app", "app.py", "--traceback").err


def test_ls_finds_by_class_and_part_of_the_key(wakeful: Command) -> None:
    seeded(wakeful)
    wakeful("call", "Counter", "bob", "add", "--app", "app.py")
    assert [row["key"] for row in wakeful("ls", "--json").json] == ["a", "bob"]
    assert [row["key"] for row in wakeful("ls", "Counter", "--contains", "o", "--json").json] == ["bob"]
    assert [row["key"] for row in wakeful("ls", "--prefix", "bo", "--json").json] == ["bob"]
    assert wakeful("ls", "--prefix", "ob").out == "no objects match\n"
    assert wakeful("ls", "Nope", "--json").json == []
    answer = wakeful("ls", "-n", "1")
    assert "Counter" in answer.out
    assert "the first 1 of 2 objects" in answer.out
    assert "no objects match" in wakeful("ls", "--contains", "zzz").out


def test_show_has_everything_and_wakes_nothing(wakeful: Command, tmp_path: Path) -> None:
    seeded(wakeful)
    park(tmp_path)
    found = wakeful("show", "Counter", "a", "--json").json
    assert found["state"] == {"total": 5, "seen": [5]}
    assert found["storage"] == {"last": 5}
    assert found["parked"][0]["number"] == 1
    assert found["timers"] == []
    text = wakeful("show", "Counter", "a").out
    assert "total" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_show_of_nothing_says_how_to_look(wakeful: Command) -> None:
    seeded(wakeful)
    answer = wakeful("show", "Counter", "zzz")
    assert answer.code == 1
    assert "wakeful ls Counter" in answer.err


def test_due_is_in_firing_order(wakeful: Command) -> None:
    seeded(wakeful)
    wakeful("call", "Counter", "b", "add", "--app", "app.py")
    assert [row["key"] for row in wakeful("due", "--json").json] == ["a", "b"]
    assert "in 24 h" in wakeful("due", "-n", "1").out


def test_parked_and_redrive_without_a_process(wakeful: Command, tmp_path: Path) -> None:
    seeded(wakeful)
    assert "nothing is parked" in wakeful("parked").out
    park(tmp_path)
    assert [row["number"] for row in wakeful("parked", "--json").json] == [1]
    assert "in alarm" in wakeful("parked", "--full").out
    assert wakeful("redrive").code == 2
    assert wakeful("redrive", "7").code == 1
    assert "is not parked" in wakeful("redrive", str(10**20)).out
    assert "no process runs this store" in wakeful("redrive", "1").out
    assert wakeful("parked", "--json").json == []
    [timer] = wakeful("due", "--json").json
    assert (timer["timer"], timer["attempt"], timer["nominal_at"]) == ("alarm", 0, "1970-01-01T00:00:01.000Z")
    assert wakeful("redrive", "--all", "--json").json == []


def test_what_all_means_is_what_the_list_shows(wakeful: Command, tmp_path: Path) -> None:
    seeded(wakeful)
    park(tmp_path)
    park(tmp_path, "acme", cls="wakeful.Tenant")  # one of Wakeful's own needs a person just as much
    assert [row["class"] for row in wakeful("parked", "--json").json] == ["Counter", "wakeful.Tenant"]
    assert [row["class"] for row in wakeful("parked", "drop", "--all", "--dry-run", "--json").json] == [
        "Counter",
        "wakeful.Tenant",
    ]
    [found] = [one["text"] for one in wakeful("doctor", "--json").json if one["check"] == "parked"]
    assert found.startswith("2 ")


def test_redrive_refuses_when_another_is_pending(wakeful: Command, tmp_path: Path) -> None:
    seeded(wakeful)
    park(tmp_path)
    wakeful("call", "Counter", "a", "add", "--app", "app.py")
    answer = wakeful("redrive", "--all")
    assert answer.code == 1
    assert "another alarm pending" in answer.out
    assert len(wakeful("parked", "--json").json) == 1


def test_doctor_without_a_store_fails_with_a_remedy(wakeful: Command) -> None:
    answer = wakeful("doctor", "--json")
    assert answer.code == 1
    finding, build = answer.json
    assert (build["check"], build["status"]) == ("build", "ok")
    assert finding["status"] == "fail"
    assert finding["remedy"]


def test_doctor_names_unknown_classes_and_what_waits_for_them(wakeful: Command, tmp_path: Path) -> None:
    seeded(wakeful)
    park(tmp_path, "p")
    (tmp_path / "other.py").write_text("from wakeful import App\napp = App()\n")
    findings = {row["check"]: row for row in wakeful("doctor", "--app", "other.py", "--json").json}
    assert findings["classes"]["status"] == "warn"
    assert "Counter" in findings["classes"]["text"]
    assert "1 timer of it" in findings["classes"]["text"]
    assert findings["owner"]["status"] == "warn"
    assert findings["parked"]["status"] == "warn"
    assert {row["check"]: row for row in wakeful("doctor", "--app", "app.py", "--json").json}["classes"][
        "status"
    ] == "ok"


def test_doctor_on_postgres_knows_the_servers_clock(wakeful: Command, postgres_schema_url: str) -> None:
    assert wakeful("migrate", "--store", postgres_schema_url).code == 0
    findings = {row["check"]: row["status"] for row in wakeful("doctor", "--store", postgres_schema_url, "--json").json}
    assert findings["clock"] == "ok"
    assert findings["owner"] == "warn"
    assert wakeful("call", "Counter", "a", "add", "--app", "app.py", "--store", postgres_schema_url).json == 1
    assert [row["key"] for row in wakeful("ls", "--store", postgres_schema_url, "--json").json] == ["a"]


def test_a_password_is_never_shown(wakeful: Command, postgres_schema_url: str) -> None:
    url = f"{postgres_schema_url}&password=hunter2"
    wakeful("migrate", "--store", url)
    said = [wakeful(*args, "--store", url) for args in (("call", "A", "b", "c"), ("schema",), ("doctor",), ("ls",))]
    said.append(wakeful("call", "Counter", "a", "add", "--app", "app.py", f"--store={url}"))
    assert said[0].code == 3
    assert not [answer for answer in said if "hunter2" in answer.out + answer.err]


def test_schema_and_migrate(wakeful: Command, tmp_path: Path) -> None:
    assert "CREATE TABLE" in wakeful("schema", "--sql").out
    assert "CREATE TABLE" in wakeful("schema", "--sql", "--json", "--store", "postgresql://a@b/c").json["sql"]
    assert wakeful("schema").code == 3
    assert wakeful("migrate", "--json").json["applied"][0] == "0001_core"
    assert wakeful("migrate", "--json").json["applied"] == []
    assert wakeful("schema", "--json").json["is_current"] is True


@pytest.mark.parametrize(
    ("url", "code", "word"),
    [
        ("nonsense", 2, "[store.url]"),
        ("memory:", 2, "[store.memory]"),
        ("sqlite:missing.db", 3, "does not exist"),
        ("sqlite:app.py", 3, "[store.file]"),
        ("postgresql://nobody@127.0.0.1:1/none", 3, "[store.down]"),
    ],
)
def test_a_store_that_is_none(wakeful: Command, url: str, code: int, word: str) -> None:
    for command in (("ls",), ("show", "A", "b"), ("due",), ("parked",), ("redrive", "--all"), ("call", "A", "b", "c")):
        answer = wakeful(*command, "--store", url)
        assert (answer.code, answer.out) == (code, "")
        assert word in answer.err
        assert answer.err.count("\n") == 1


def test_the_store_comes_from_the_environment(wakeful: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_STORE", "sqlite:elsewhere.db")
    assert "elsewhere.db" in wakeful("ls").err


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("x = 1", 2, "[app.none]"),
        ("from wakeful import App\na = App()\nb = App()", 2, "[app.several]"),
        ("import nowhere_at_all", 1, "[app.load]"),
        ("def", 1, "[app.load]"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("from wakeful import App\napp = App()\ndef on_start(app): pass", 2, "[app.on_start]"),
    ],
)
def test_a_program_that_cannot_run(wakeful: Command, tmp_path: Path, text: str, code: int, word: str) -> None:
    (tmp_path / "odd.py").write_text(text)
    answer = wakeful("run", "odd.py")
    assert answer.code == code
    assert word in answer.err


@pytest.mark.parametrize("target", ["missing.py", "missing_module:app", "app.py:nope", "app.py:Counter", "a b"])
def test_a_program_that_is_not_there(wakeful: Command, target: str) -> None:
    answer = wakeful("run", target)
    assert answer.code == 2
    assert answer.err.count("\n") == 1


def test_the_same_app_under_two_names_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "twice.py").write_text("from wakeful import App\napp = application = App()\n")
    assert not [
        name for name in load(str(tmp_path / "twice.py")).app.deployment.registry.names() if name[:8] != "wakeful."
    ]


def test_an_unknown_command_is_wrong_usage(wakeful: Command) -> None:
    for args in (("shwo",), ("ls", "--nope"), ("ls", "-n", "0")):
        answer = wakeful(*args)
        assert answer.code == 2
        assert answer.err.startswith("error: ")
        assert "--help" in answer.err


@pytest.mark.parametrize(
    "line",
    [
        "due --bogus --json",
        "jobs --json --bogus",
        "jobs get --json",
        "due --json -n",
        "show --json",
        "shwo --json",
        "tokens nope --json",
        "due -n abc --json",
    ],
)
def test_wrong_usage_is_json_too_wherever_json_is_said(wakeful: Command, line: str) -> None:
    answer = wakeful(*line.split())
    assert answer.code == 2
    assert answer.json["error"]["code"] == "usage"
    assert answer.err == f"error: {answer.json['error']['message']} [usage]\n"


def test_wrong_usage_shows_where_when_a_traceback_is_wished(wakeful: Command) -> None:
    assert wakeful("due", "--bogus", "--traceback").err.startswith("Traceback")


def test_what_only_looks_like_json_is_none(wakeful: Command) -> None:
    for line in ("show -- --json", "pause A b c --until --json"):
        answer = wakeful(*line.split())
        assert answer.code != 0
        assert answer.out == ""


def test_arguments_are_json_or_text() -> None:
    assert [argument(text) for text in ("3", '"3"', "three", "[1]", "null", "2026-01-01", "")] == [
        3,
        "3",
        "three",
        [1],
        None,
        "2026-01-01",
        "",
    ]


@dataclass
class Sample:
    name: str
    tags: list[str] = field(default_factory=list)


def test_values_in_the_terms_of_json() -> None:
    value = {
        "when": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "long": timedelta(seconds=90),
        "money": Decimal("1.10"),
        "id": UUID(int=1),
        "raw": b"\x00\x01",
        "set": {2, 1},
        "tuple": (1, None),
        "inf": float("inf"),
        7: Sample("x", ["y"]),
    }
    assert (
        plain(value)
        == plain(decode_loosely(encode(value)))
        == {
            "when": "2026-01-02T03:00:00+00:00",
            "long": 90.0,
            "money": "1.10",
            "id": "00000000-0000-0000-0000-000000000001",
            "raw": "AAE=",
            "set": [1, 2],
            "tuple": [1, None],
            "inf": "inf",
            "7": {"$type": "Sample", "name": "x", "tags": ["y"]},
        }
    )


def test_words_for_people() -> None:
    assert [length(ms) for ms in (0, 999, 1_500, 61_000, 600_000, 7_200_000, 10**9)] == [
        "0 ms",
        "999 ms",
        "1.5 s",
        "61 s",
        "10 min",
        "2 h",
        "12 days",
    ]
    assert (relative(1_000, 5_000), relative(9_000, 5_000), relative(5_100, 5_000)) == ("4.0 s ago", "in 4.0 s", "now")
    assert (many(1, "class"), many(2, "class"), many(3_000, "timer")) == ("1 class", "2 classes", "3,000 timers")
    assert (size(999), size(1_500), size(2_500_000)) == ("999 B", "1.5 kB", "2.5 MB")
    assert exit_codes.one_line("a\nb\x1b[0m") == "a b\\x1b[0m"
