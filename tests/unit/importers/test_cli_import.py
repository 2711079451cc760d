"""`wakeful import`, `wakeful show --chart` and `wakeful chart`: from a file to an object, and to a picture of it."""

import json
from typing import Any

import pytest

from tests.unit import cli_stage
from tests.unit.importers import import_stage as stage

PROGRAM = """
from wakeful import App, DurableObject, Machine

app = App()

@app.object
class Order(Machine):
    chart = {
        "id": "order",
        "initial": "placed",
        "states": {
            "placed": {"after": {"24h": "expired"}, "on": {"PAY": "paid"}},
            "paid": {},
            "expired": {"type": "final"},
        },
    }

@app.object
class Plain(DurableObject):
    async def touch(self):
        await self.storage.put("a", 1)
"""
AFTER = "xstate.after.24h.order.placed"
LATE = 4_000_000_000_000  # in the year 2096: real time is used here
wakeful = pytest.fixture(cli_stage.make_stage)


@pytest.fixture(autouse=True)
def _program(wakeful: cli_stage.Stage) -> None:
    (wakeful.path / "app.py").write_text(PROGRAM)


def put(wakeful: cli_stage.Stage, data: Any) -> str:
    (wakeful.path / "x.json").write_text(json.dumps(data))
    return "x.json"


def placed(**more: Any) -> dict[str, Any]:
    [(name, event)] = stage.scheduled(AFTER, 0).items()
    return {**stage.PLACED, "_scheduledEvents": {name: {**event, "startedAt": LATE}}, **more}


def test_from_a_file_to_an_object_and_its_picture(wakeful: cli_stage.Stage) -> None:
    file = put(wakeful, placed(mine=1))
    common = ("import", file, "--as", "xstate", "--class", "Order", "--key", "o-1", "--app", "app.py")
    dry = wakeful(*common, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "would import 1 object, and left 1 thing of the file behind" in dry.words
    assert f"taken delay {AFTER} due 2096-10-02T07:06:40.000Z" in dry.words
    assert "left key mine not known to be part of a snapshot" in dry.words
    real = wakeful(*common, "--json")
    assert real.code == 0
    [report] = real.json["objects"]
    assert (report["is_imported"], report["value"], report["left"][0]["name"]) == (True, "placed", "mine")
    again = wakeful(*common)
    assert (again.code, "[import.exists]" in again.err) == (1, True)
    shown = wakeful("show", "Order", "o-1", "--json")
    assert shown.json["machine"]["value"] == "placed"
    assert [timer["timer"] for timer in shown.json["timers"]] == [f"machine:{AFTER}"]
    assert 'value "placed"' in wakeful("show", "Order", "o-1").words
    picture = wakeful("show", "Order", "o-1", "--chart", "--app", "app.py", "--output", "o.svg")
    assert (picture.code, picture.words) == (0, "drawn in o.svg")
    svg = (wakeful.path / "o.svg").read_text()
    assert 'class="wk-state wk-active" data-state="order.placed"' in svg
    assert "2096-10-02 07:06:40" in svg


def test_through_the_process_that_runs_the_store(wakeful: cli_stage.Stage) -> None:
    file = put(wakeful, [placed(key="a"), placed(key="b")])
    with wakeful.running():
        done = wakeful("import", file, "--as", "xstate", "--class", "Order", "--json")
        assert done.code == 0, done.err
        assert [one["key"] for one in done.json["objects"]] == ["a", "b"]
        svg = wakeful("show", "Order", "b", "--chart")
        assert svg.code == 0
        assert svg.out.startswith("<svg ")
        assert 'data-state="order.placed"' in svg.out
    without = wakeful("show", "Order", "b", "--chart")
    assert (without.code, "[owner.none]" in without.err) == (3, True)


def test_if_one_does_not_fit_none_is_imported(wakeful: cli_stage.Stage) -> None:
    file = put(wakeful, [placed(key="a"), placed(key="b", value="nowhere"), placed(key="c")])
    done = wakeful("import", file, "--as", "xstate", "--class", "Order", "--app", "app.py")
    assert done.code == 2
    assert "Order/b" in done.err
    assert "nowhere" in done.err
    assert wakeful("ls", "Order", "--json").json == []


def test_actor_kits_storage_says_class_and_key_itself(wakeful: cli_stage.Stage) -> None:
    stage.actor_kit(wakeful.path / "do.sqlite", stage.PLACED, stage.alarm(AFTER, LATE), is_newer=True)
    done = wakeful("import", "do.sqlite", "--as", "actor-kit", "--app", "app.py", "--json")
    assert done.code == 0, done.err
    [report] = done.json["objects"]
    assert (report["class"], report["key"]) == ("Order", "o-7")
    assert {"what": "delay", "name": AFTER, "note": "due 2096-10-02T07:06:40.000Z"} in report["taken"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--as", "xstate", "--class", "Order"), 2, "give --key [import.key]"),
        (("--as", "xstate", "--key", "k"), 2, "give --class [import.class]"),
        (("--as", "yaml", "--class", "Order", "--key", "k"), 2, "there is no form 'yaml'"),
        (("--as", "xstate", "--class", "Plain", "--key", "k", "--app", "app.py"), 2, "Plain is no Machine"),
        (("--as", "xstate", "--class", "No", "--key", "k", "--app", "app.py"), 2, "No"),
        (("--as", "xstate", "--class", "Order", "--key", "k"), 3, "wakeful.db does not exist"),
        (("--as", "xstate", "--class", "bad name", "--key", "k"), 2, "bad name"),
    ],
)
def test_wrong_wishes_are_one_line(wakeful: cli_stage.Stage, args: tuple[str, ...], code: int, said: str) -> None:
    done = wakeful("import", put(wakeful, placed()), *args)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_two_machines_of_one_key_are_refused(wakeful: cli_stage.Stage) -> None:
    done = wakeful("import", put(wakeful, [placed(), placed()]), "--as", "xstate", "--class", "Order", "--key", "k")
    assert (done.code, "[import.twice]" in done.err) == (2, True)


def test_a_chart_without_an_object(wakeful: cli_stage.Stage) -> None:
    done = wakeful("chart", "app.py:Order", "-o", "c.svg", "--json")
    assert (done.code, done.json["output"]) == (0, "c.svg")
    (wakeful.path / "c.json").write_text(json.dumps({"id": "c", "initial": "a", "states": {"a": {}}}))
    assert 'data-state="c.a"' in wakeful("chart", "c.json").out
    for target, said in (
        ("app.py:Plain", "app.py has no Machine 'Plain'"),
        ("app.py:None", "app.py has no Machine 'None'"),
        ("c.txt", "which chart?"),
        ("none.json", "can't be read"),
    ):
        failed = wakeful("chart", target)
        assert (failed.code, failed.out) == (2, ""), target
        assert said in failed.err
    other = wakeful("chart", "c.json", "-o", "c.gif")
    assert (other.code, "picture.ending" in other.err) == (2, True)
    assert not (wakeful.path / "c.gif").exists()
    unwritable = wakeful("chart", "c.json", "-o", "no/such/folder.svg")
    assert (unwritable.code, "[picture.file]" in unwritable.err) == (1, True)


def test_show_chart_of_what_is_no_machine_or_not_there(wakeful: cli_stage.Stage) -> None:
    assert wakeful("call", "--app", "app.py", "Plain", "p", "touch").code == 0
    no_machine = wakeful("show", "Plain", "p", "--chart", "--app", "app.py")
    assert (no_machine.code, "[machine.class]" in no_machine.err) == (2, True)
    not_there = wakeful("show", "Order", "none", "--chart", "--app", "app.py")
    assert (not_there.code, "[object.unknown]" in not_there.err) == (1, True)
    alone = wakeful("show", "Plain", "p", "--output", "x.svg")
    assert (alone.code, "--output and --app go with --chart" in alone.err) == (2, True)
    assert wakeful("show", "Plain", "p", "--json").json["machine"] is None
