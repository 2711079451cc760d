"""What pages promise of commands and no other test holds: functions that the doctor names, tokens before the first start."""

from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.cli.cluster_access import pass_of

wakeful = pytest.fixture(make_stage)
START = "2026-03-27T12:00:00+00:00"


async def an_hour(world: Any, call: Any) -> None:
    await world.advance(hours=1)


def functions(stage: Stage, *args: str) -> list[str]:
    return [row["text"] for row in stage("doctor", "--json", *args).json if row["check"] == "function"]


def test_doctor_names_a_function_that_the_program_no_longer_has(wakeful: Stage) -> None:
    """docs/schedules.md, names and versions."""
    wakeful.past(an_hour, start=START)
    assert functions(wakeful, "--app", "app.py") == []
    (wakeful.path / "app.py").write_text("from wakeful import App\napp = App()\n")
    [text] = functions(wakeful, "--app", "app.py")
    assert text == "'cleanup' on the app's clock is not known to the program; its timer waits"
    with wakeful.running():
        [text] = functions(wakeful)
        assert text.startswith("'cleanup' on the app's clock is not known to node ")
        [remedy] = [row["remedy"] for row in wakeful("doctor", "--json").json if row["check"] == "function"]
        command = remedy.partition("gone for good: wakeful ")[2].split()
        assert wakeful(*command).code == 0, remedy
    assert functions(wakeful, "--app", "app.py") == []


def test_a_token_can_be_made_before_the_first_start(wakeful: Stage, postgres_schema_url: str) -> None:
    """docs/security.md, tokens."""
    for url in ("sqlite:new.db", postgres_schema_url):
        made = wakeful("tokens", "create", "ops", "--store", url, "--json")
        assert made.code == 0, made.err
        assert [row["name"] for row in wakeful("tokens", "list", "--store", url, "--json").json] == ["ops"]


def test_a_secret_file_that_is_set_to_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/cli.md, running a program: a container's settings often name all variables, and leave some empty."""
    monkeypatch.setenv("WAKEFUL_SECRET_FILE", "")
    monkeypatch.setenv("WAKEFUL_SECRET", "sixteen letters!")
    assert pass_of().secret == "sixteen letters!"


def test_what_only_looks_is_not_among_what_leaves_an_audit_row(wakeful: Stage) -> None:
    look, _, rest = wakeful("--help").out.partition("\nOperate (each leaves an audit row):")
    assert "\n  doctor " in look
    assert "\n  nodes " in look
    assert "\n  drain " in rest
