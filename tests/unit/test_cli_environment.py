"""A variable of the environment with a bad value: the error names it, the value and what to write, and no secret."""

import json
import os
import re
from pathlib import Path

import pytest

from wakeful.cli import run, settings_file

BAD = {
    "WAKEFUL_STORE": ("nonsense:x", r"sqlite:PATH"),
    "WAKEFUL_HTTP": ("nohost", r"write HOST:PORT"),
    "WAKEFUL_HTTP_CERT": ("/nope", r"no such file"),
    "WAKEFUL_HTTP_KEY": ("/nope", r"no such file"),
    "WAKEFUL_LISTEN": ("nohost", r"HOST:PORT"),
    "WAKEFUL_ADVERTISE": ("h:99999", r"HOST:PORT"),
    "WAKEFUL_PROCESSES": ("many", r"a number from 1 to 64, or auto"),
    "WAKEFUL_LEASE": ("1s", r"from 2s to 60s"),
    "WAKEFUL_SECRET_FILE": ("/nope", r"no such file"),
    "WAKEFUL_TLS_CERT": ("/nope", r"no such file"),
    "WAKEFUL_TLS_KEY": ("/nope", r"no such file"),
    "WAKEFUL_TLS_CA": ("/nope", r"no such file"),
    "WAKEFUL_KEYS": ("geheim", r"wakeful keys new"),
    "WAKEFUL_KEYS_FILE": ("/nope", r"no such file"),
    "WAKEFUL_LOG": ("xml", r'"text" or "json"'),
    "WAKEFUL_TELEMETRY": ("yes", r'"off" or "otlp"'),
    "WAKEFUL_PARANOID": ("perhaps", r"true or false"),
    "WAKEFUL_WORKERS_HTTP": ("8787", r"write HOST:PORT"),
}
ANY = {
    "WAKEFUL_CLUSTER",
    "WAKEFUL_SECRET",
    "WAKEFUL_WEBHOOK_SECRET",
    "WAKEFUL_WEBHOOK_SECRET_FILE",
}  # a name is any text; a secret is judged where it is used


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("WAKEFUL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("from wakeful import App\napp = App()\n")
    return tmp_path


def test_every_variable_is_looked_at() -> None:
    assert BAD.keys() | ANY == {one.env for one in settings_file.settings().values()}


@pytest.mark.parametrize("name", BAD)
def test_a_program_that_is_told_nonsense_says_by_which_variable(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value, remedy = BAD[name]
    monkeypatch.setenv(name, value)
    assert run(["dev" if name == "WAKEFUL_WORKERS_HTTP" else "run", "app.py"]) == 2
    said = capsys.readouterr().err
    is_ring = name in ("WAKEFUL_KEYS", "WAKEFUL_KEYS_FILE")  # no option of a command, so judged where they are used
    assert said.startswith(f"error: ${name}: " if is_ring else f"error: ${name} is {value!r}: "), said
    assert re.search("wakeful keys new" if is_ring else remedy, said), said
    assert re.search(r" \[(config\.value|keys\.\w+)\]$", said.strip()), said
    assert "geheim" not in said


@pytest.mark.parametrize("name", BAD)
def test_config_shows_it_and_what_to_write_instead(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value, remedy = BAD[name]
    monkeypatch.setenv(name, value)
    assert run(["config"]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert f"${name} is {'…' if name == 'WAKEFUL_KEYS' else value}: " in said
    assert re.search(remedy, said), said
    assert "geheim" not in said


def test_defaults_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--json"]) == 0
    found = {row["option"]: row for row in json.loads(capsys.readouterr().out)["options"]}
    assert {row["source"] for row in found.values()} == {"default"}
    shown = {key: row["value"] for key, row in found.items() if row["value"] is not None}
    assert shown == {
        "lease": "5s",
        "log": "text",
        "paranoid": False,
        "processes": "1",
        "store": "sqlite:wakeful.db",
        "telemetry": "off",
        "workers-http": "127.0.0.1:8787",
    }


def test_of_a_bad_value_in_the_file_the_line_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "wakeful.toml").write_text('log = "text"\nlease = "1s"\n')
    assert run(["run", "app.py"]) == 2
    assert capsys.readouterr().err.startswith("error: wakeful.toml:2 is '1s': it must be from 2s to 60s")


@pytest.mark.parametrize("way", ["--log json", "--log=json", "environment", "file"])
def test_who_reads_a_log_of_json_reads_json_before_it_begins_too(
    way: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "environment":
        monkeypatch.setenv("WAKEFUL_LOG", "json")
    if way == "file":
        (folder / "wakeful.toml").write_text('log = "json"\n')
    given = way.split() if way.startswith("--") else []
    monkeypatch.setenv("WAKEFUL_LEASE", "1s")
    for args, code in ((["run", "app.py", *given], "config.value"), (["run", *given], "usage")):
        assert run(args) == 2
        line = json.loads(capsys.readouterr().err)
        assert (line["level"], line["code"], line["logger"]) == ("error", code, "wakeful.cli")
        assert line["at"].endswith("+00:00") or line["at"].endswith("Z")
    assert run(["ls", "--nonsense"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_what_the_command_line_says_instead_is_not_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_LEASE", "junk")
    assert run(["config", "--lease", "9s", "--store", "postgresql://h/d"]) == 0
    assert "9s" in capsys.readouterr().out


def test_no_password_is_shown_of_a_store_that_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_STORE", "mysql://me:geheim@h/d")
    for command in ("config", "ls", "run"):
        assert run([command, *["app.py"] * (command == "run")]) == 2
        assert "geheim" not in "".join(capsys.readouterr())


def test_a_variable_that_is_none_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_LOGG", "json")
    assert run(["config"]) == 0  # it changes nothing
    assert "$WAKEFUL_LOGG is no variable of Wakeful's, so nothing comes of it, did you mean 'WAKEFUL_LOG'?" in (
        " ".join(capsys.readouterr().out.split())
    )
    assert run(["config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown"] == ["WAKEFUL_LOGG"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WAKEFUL_WEBHOOK_SECRET", "geheim", "whsec_ and base64 behind it"),
        ("WAKEFUL_WEBHOOK_SECRET", "whsec_AAAA", "has 3 bytes"),
        ("WAKEFUL_WEBHOOK_SECRET_FILE", "/nope", "can't be read"),
    ],
)
def test_a_secret_of_webhooks_is_judged_where_a_program_signs_with_it(
    name: str, value: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    Path("hooks.py").write_text('from wakeful import App\n\napp = App()\napp.webhook("https://example.com/x")\n')
    assert run(["run", "hooks.py"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: ${name} is {'…' if name == 'WAKEFUL_WEBHOOK_SECRET' else repr(value)}: "), said
    assert words in said
    assert said.strip().endswith("[config.value]")
    assert run(["config"]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert f"${name} is " in shown
    assert "geheim" not in said + shown
    Path("wakeful.toml").write_text('webhook-secret = "geheim"\n')
    Path("wakeful.toml").chmod(0o600)
    monkeypatch.delenv(name)
    assert run(["run", "hooks.py"]) == 2
    assert "wakeful.toml:1 is …: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('app.webhook("http://example.com/x", secret="whsec_AAAA")', "at program.py:4: BadOption"),
        ("1 / 0", "at program.py:4: ZeroDivisionError"),
    ],
)
def test_a_program_that_can_not_be_loaded_is_told_its_own_line(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("program.py").write_text(f"from wakeful import App\n\napp = App()\n{line}\n")
    assert run(["run", "program.py"]) == 1
    assert words in capsys.readouterr().err
