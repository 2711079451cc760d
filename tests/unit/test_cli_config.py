"""wakeful.toml, the environment and the command line: which one counts, what is refused, and who is told."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli import run, settings_file
from wakeful.cli.settings_file import CONFIG

Rows = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, in which nothing is said by the environment either."""
    for name in [name for name in os.environ if name.startswith("WAKEFUL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(capsys: pytest.CaptureFixture[str]) -> Callable[..., Rows]:
    def ask(*args: str) -> Rows:
        code = run(["config", "--json", *args])
        found = json.loads(capsys.readouterr().out)
        assert code == (2 if found["problems"] else 0)
        return {row["option"]: row for row in found["options"]}

    return ask


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the command says that did not do it, on exit code 2."""

    def ask(*args: str) -> str:
        assert run(list(args) or ["config"]) == 2
        return capsys.readouterr().err

    return ask


def write(text: str, name: str = "wakeful.toml", mode: int = 0o600) -> Path:
    path = Path(name)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_command_line_goes_before_the_environment_that_before_the_file_and_that_before_the_default(
    config: Callable[..., Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config()["http"] == {"option": "http", "value": None, "source": "default", "where": ""}
    write('store = "sqlite:a.db"\n\nhttp = "127.0.0.1:1"\nlog = "json"\nparanoid = true\n')
    assert config()["http"] == {"option": "http", "value": "127.0.0.1:1", "source": "file", "where": "wakeful.toml:3"}
    assert config()["paranoid"] == {"option": "paranoid", "value": True, "source": "file", "where": "wakeful.toml:5"}
    monkeypatch.setenv("WAKEFUL_HTTP", "127.0.0.1:2")
    found = config("--log", "text")
    assert [found[name]["source"] for name in ("http", "log", "store", "telemetry")] == [
        "environment",
        "command line",
        "file",
        "default",
    ]
    assert [found[name]["value"] for name in ("http", "log", "store", "telemetry")] == [
        "127.0.0.1:2",
        "text",
        "sqlite:a.db",
        "off",
    ]
    monkeypatch.setenv("WAKEFUL_HTTP", "")  # says nothing
    assert config()["http"]["source"] == "file"
    assert config("--http", "127.0.0.1:3")["http"]["where"] == "--http"


def test_commands_run_with_it_and_leave_the_environment_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    write('store = "sqlite:elsewhere.db"\n')
    assert run(["doctor", "--json"]) != 0
    assert "elsewhere.db" in capsys.readouterr().out
    assert "WAKEFUL_STORE" not in os.environ
    assert run(["schema", "--sql", "--store", "postgresql://x@y/z"]) == 0
    assert "BIGINT" in capsys.readouterr().out.upper()


def test_the_project_s_file_does_as_well_and_two_are_one_too_many(
    config: Callable[..., Rows], refused: Callable[..., str]
) -> None:
    write('[project]\nname = "x"\n[tool.other]\nstore = "no"\n', "pyproject.toml")
    assert config()["store"]["source"] == "default"
    write(
        '[tool.other]\nhttp = "no"\n\n[tool.wakeful]\nhttp = "127.0.0.1:1"\n[tool.last]\nstore = "x"', "pyproject.toml"
    )
    assert config()["http"]["where"] == "pyproject.toml:5"
    write("")
    assert "[config.two]" in refused()


def test_another_file_by_the_environment(
    config: Callable[..., Rows], refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIG, "other.toml")
    assert "other.toml can't be read: No such file" in refused()
    write('cluster = "blue"\n', "other.toml")
    write("rubbish")  # and is not read
    assert config()["cluster"]["where"] == "other.toml:1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '\nhtpp = "x"',
            r"wakeful\.toml:2: there is no option 'htpp', did you mean 'http'\?.*advertise.*\[config\.key\]",
        ),
        ('zzz = "x"', r"wakeful\.toml:1: there is no option 'zzz'.* there are advertise.*\[config\.key\]"),
        (
            "[http]\nport = 1",
            r"wakeful\.toml:1: http must be a text in quotes .*HOST:PORT.*not \{'port': 1\} \[config\.type\]",
        ),
        ("http = 7420", r"wakeful\.toml:1: http must be a text .* not 7420 \[config\.type\]"),
        ('log = "xml"', r'wakeful\.toml:1: log must be "text" or "json", not \'xml\' \[config\.type\]'),
        ('paranoid = "yes"', r"wakeful\.toml:1: paranoid must be true or false, not 'yes' \[config\.type\]"),
        ("secret = 12345678", r"secret must be a text in quotes, not a int \[config\.type\]"),
        (
            "http = ",
            r"wakeful\.toml is no TOML: Invalid value \(at line 1, column 8|\(at end of document\).*\[config\.toml\]",
        ),
        ("a=" + "[" * 5_000, r"\[config\.toml\]"),
        ('secret = "s"\nsecret-file = "f"', r"wakeful\.toml:1: secret and secret-file say the same.*\[config\.both\]"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_what_is_allowed(
    text: str, words: str, refused: Callable[..., str]
) -> None:
    write(text)
    said = refused()
    assert re.search(words, said), said
    assert "12345678" not in said
    assert "Traceback" not in said


def test_a_file_that_is_no_text_or_too_large_is_refused(refused: Callable[..., str]) -> None:
    Path("wakeful.toml").write_bytes(b"\xff\xfe")
    assert "it is not UTF-8 [config.file]" in refused()
    write("#" * (settings_file.BYTES_MAX + 1))
    assert "[config.file]" in refused()


def test_who_asks_for_help_gets_it_where_the_file_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    write("wrong")
    for args in (["--help"], ["run", "--help"], ["--version"], ["init", "new"]):
        assert run(args) == 0, args
    assert "config.toml" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        'secret = "sixteen characters"',
        'keys = "k"',
        'store = "postgresql://a:hidden@h/d"',
        'store="postgresql://h/d?password=hidden"',
    ],
)
def test_a_secret_that_every_user_can_read_is_refused_and_one_that_they_can_t_is_not_shown(
    text: str, config: Callable[..., Rows], refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(text, mode=0o644)
    said = refused("ls")
    assert "chmod 600 wakeful.toml" in said
    assert "[config.secret]" in said
    for mode in (0o600, 0o640):
        path.chmod(mode)
        key = text.partition("=")[0].strip()
        assert config()[key]["source"] == "file"
        run(["config"])
        said += capsys.readouterr().out
    assert not re.search('hidden|sixteen|"k"', said)
    assert "…" in said


def test_of_a_secret_and_its_file_that_of_the_environment_counts(
    config: Callable[..., Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    write('secret-file = "f"\nkeys-file = "g"\n')
    monkeypatch.setenv("WAKEFUL_SECRET", "of the environment")
    found = config()
    assert [found[name]["source"] for name in ("secret", "secret-file", "keys-file")] == [
        "environment",
        "default",
        "file",
    ]


def test_no_secret_is_taken_from_the_command_line(refused: Callable[..., str]) -> None:
    for name in ("--secret", "--keys"):
        assert "hush" not in refused("config", name, "hush")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://app:geheim@db/app", "postgresql://app:…@db/app"),
        ("postgresql://app:ge/heim@db/app", "postgresql://app:…@db/app"),
        ("postgresql://app:ge@heim@db/app", "postgresql://app:…@db/app"),
        ("postgresql://app@db/app?password=geheim&schema=x", "postgresql://app@db/app?password=…&schema=x"),
        ("postgresql://app@db/app?sslpassword=geheim", "postgresql://app@db/app?sslpassword=…"),
        ("host=db password=geheim user=x", "host=db password=… user=x"),
        ("sqlite:app.db", "sqlite:app.db"),
    ],
)
def test_no_password_is_shown_however_it_is_written(
    url: str, shown: str, folder: Path, config: Callable[..., Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_STORE", url)
    assert config()["store"]["value"] == shown


def test_a_store_of_another_type_is_not_quoted(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "wakeful.toml").write_text('store = ["postgresql://a:geheim@h/x"]\n')
    (folder / "wakeful.toml").chmod(0o600)
    said = refused("config")
    assert "geheim" not in said
    assert "not a list" in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--http nonsense", ["--http is nonsense: it is no address; write HOST:PORT"]),
        ("--http x --lease 99s", ["--http is x: ", "--lease is 99s: it must be from 2s to 60s"]),
        ("--store mysql://me:geheim@h/d", ["--store is mysql://me:…@h/d: "]),
        ("--tls-ca /nope", ["--tls-ca is /nope: there is no such file"]),
        ("--lease 9s", ["nobody waits for a lease of it"]),
        ("--listen 127.0.0.1:1", ["no other nodes to listen for"]),
        ("--advertise h:1", ["--advertise says what others dial"]),
        ("--store postgresql://h/d --listen 0.0.0.0:1", ["there is no cluster secret; set WAKEFUL_SECRET"]),
        ("--store postgresql://h/d --tls-ca here", ["--tls-cert and --tls-key is missing"]),
        ("--store postgresql://h/d --secret-file here", ["a cluster secret of 5 characters can be guessed"]),
        ("--http-cert here", ["--http-key is missing"]),
        ("--http 0.0.0.0:0", ["no token was made yet, so the server only listens on this machine, not on 0.0.0.0"]),
        ("--http [::]:0 --store memory:", ["no token was made yet"]),
        ("--http 127.0.0.1:1 --http-cert here --http-key here", ["here and here can't be used for HTTPS"]),
        (
            "--store postgresql://h/d --secret-file good --listen 0.0.0.0:1 --advertise 0.0.0.0:1",
            ["others can't dial tcp:0.0.0.0:1"],
        ),
        ("--lease 1s --advertise h:1", ["--lease is 1s: ", "--advertise says what others dial"]),
        ("--http-cert here --http-key here --lease 9s", ["for a lease of it", "nothing is served without --http"]),
    ],
)
def test_options_that_no_program_would_start_with_are_named(
    args: str, words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "here").write_text("short")
    (folder / "good").write_text("x" * 32)
    assert run(["config", *args.split()]) == 2
    said = capsys.readouterr().out
    assert all(word in said for word in words), said
    assert run(["config", "--json", *args.split()]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True)), problems
    assert run(["run", "app.py", *args.split()]) == 2  # and none does
    assert "geheim" not in said + "".join(capsys.readouterr())


def test_with_a_token_a_program_may_be_served_beyond_this_machine(
    config: Callable[..., Rows], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tokens", "create", "ops", "--scope", "admin"]) == 0
    capsys.readouterr()
    assert config("--http", "0.0.0.0:0")["http"]["source"] == "command line"


def test_of_a_store_that_can_not_be_read_nothing_is_said(config: Callable[..., Rows]) -> None:
    config("--http", "0.0.0.0:0", "--store", "postgresql://127.0.0.1:1/x")
