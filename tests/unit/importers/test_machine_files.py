"""Reading what XState and actor-kit wrote: everything is either understood, or named as not taken, or refused."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importers import import_stage as stage
from wakeful.importers import actorkit
from wakeful.importers.findings import FoundMachine
from wakeful.importers.machine_import import read
from wakeful.values.errors import BadInput, BadOption

AFTER = "xstate.after.60000.order.paid"


def written(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def left(found: FoundMachine) -> dict[str, str]:
    return {one.name: one.note for one in found.remarks if not one.is_taken}


@pytest.mark.parametrize(
    "form",
    [
        lambda snapshot, system: {**snapshot, **system},
        lambda snapshot, system: {"snapshot": snapshot, "system": system},
        lambda snapshot, system: {"snapshot": {**snapshot, **system}},
        lambda snapshot, system: [{"snapshot": snapshot, "system": system}],
    ],
)
def test_a_snapshot_and_its_delays_in_each_form(tmp_path: Path, form: Any) -> None:
    system = {"_scheduledEvents": stage.scheduled(AFTER, 60_000, ago=20_000)}
    [found] = read(written(tmp_path / "x.json", form(stage.PAID, system)), "xstate")
    assert found.snapshot["value"] == {"paid": "y"}
    assert found.pending == [
        {"id": AFTER, "due_at": stage.NOW + 40_000, "delay_ms": 60_000, "event": {"type": AFTER}, "target": None}
    ]
    assert found.children["shipping"]["input"] == {"q": 1}
    assert set(found.children) == {"shipping", "kid1"}


def test_delays_of_children_and_of_nobody_are_named(tmp_path: Path) -> None:
    events = {
        **stage.scheduled("xstate.after.5000.kid.a", 5_000, actor="kid1"),
        **stage.scheduled("ping", 1_000, event="PING", to="shipping"),
        **stage.scheduled("pong", 1_000, event="PONG", actor="shipping"),
    }
    [found] = read(written(tmp_path / "x.json", {**stage.PAID, "_scheduledEvents": events}), "xstate")
    [delay] = found.children["kid1"]["machine"]["pending"]
    assert (delay["id"], delay["due_at"]) == ("xstate.after.5000.kid.a", stage.NOW + 5_000)
    assert left(found)["pong"] == "it belongs to the actor 'shipping', not to this machine"
    assert [(one["id"], one["target"]) for one in found.pending] == [("ping", "shipping")]


def test_what_is_not_part_of_a_snapshot_is_named(tmp_path: Path) -> None:
    context = {"ref": {"xstate$$type": 1, "id": "kid1"}, "list": [{"xstate$$type": 1, "id": "k"}]}
    data = {**stage.PLACED, "context": context, "tags": [], "mine": 1}
    [found] = read(written(tmp_path / "x.json", data), "xstate")
    assert left(found) == {
        "context.ref": "a reference to an actor; it stays in the context as plain data",
        "context.list[0]": "a reference to an actor; it stays in the context as plain data",
        "tags": "XState makes it anew",
        "mine": "not known to be part of a snapshot",
    }
    assert found.snapshot["context"] == context


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "this is no JSON"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "there is nothing in it"),
        ("3", "an object was expected, not 3"),
        ({"value": "a", "context": {}}, "status: it is missing"),
        ({"context": {}, "status": "active"}, "value: it is missing"),
        ({**stage.PLACED, "status": "asleep"}, 'status: "asleep" is none of active, done, error, stopped'),
        ({**stage.PLACED, "value": {"a": 3}}, "value.a: 3 is no state"),
        ({**stage.PLACED, "context": []}, "context: an object was expected"),
        ({**stage.PLACED, "historyValue": {"h": "x"}}, "historyValue.h: a list of states was expected"),
        ({**stage.PLACED, "historyValue": {"h": [{}]}}, r"historyValue.h[0]: {} names no state"),
        ({**stage.PLACED, "historyValue": {"current": "a", "states": {}}}, "this is a state of XState 4"),
        ({**stage.PLACED, "_event": {}, "configuration": []}, "this is a state of XState 4"),
        ({**stage.PLACED, "children": {"k": 3}}, "children.k: an object was expected"),
        ({"snapshot": stage.PLACED, "sytem": {}}, "sytem: beside 'snapshot' there may be 'system' and 'key'"),
        ({**stage.PLACED, "key": 3}, "key: 3 is no key"),
    ],
)
def test_bad_snapshots_are_refused_with_their_place(tmp_path: Path, data: Any, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(written(tmp_path / "x.json", data), "xstate")
    assert said in caught.value.message
    assert "x.json" in caught.value.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": None}, ".id: null is no id of a delay"),
        ({"event": {}}, ".event.type: an event needs a type as text"),
        ({"startedAt": "now"}, '.startedAt: "now" is no time in milliseconds'),
        ({"startedAt": None}, ".startedAt: null is no time in milliseconds"),
        ({"delay": -1}, ".delay: -1 is no time in milliseconds"),
        ({"delay": 1e300}, ".delay: 1e+300 is no time in milliseconds"),
        ({"source": {}}, ".source: {} names no actor"),
    ],
)
def test_bad_delays_are_refused_with_their_place(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    [(name, event)] = stage.scheduled(AFTER, 60_000).items()
    data = {**stage.PAID, "_scheduledEvents": {name: {**event, **change}}}
    with pytest.raises(BadInput) as caught:
        read(written(tmp_path / "x.json", data), "xstate")
    assert f"_scheduledEvents.{name}{said}" in caught.value.message


@pytest.mark.parametrize("is_newer", [False, True])
def test_actor_kits_tables_in_both_forms(tmp_path: Path, is_newer: bool) -> None:
    alarms = [
        stage.alarm(AFTER, stage.NOW + 40_000),
        stage.alarm("remind", stage.NOW + 10_000, event="REMIND"),
        stage.alarm("other", stage.NOW, event="X", to="x:2"),
        stage.alarm("clean", stage.NOW, type="cache-cleanup"),
        stage.alarm("mail", stage.NOW, type="custom"),
    ]
    path = stage.actor_kit(tmp_path / "do.sqlite", stage.PAID, *alarms, is_newer=is_newer)
    before = path.read_bytes()
    [found] = read(path, "actor-kit")
    assert (found.cls, found.key, found.snapshot["value"]) == ("Order", "o-7", {"paid": "y"})
    assert [(one["id"], one["due_at"], one["event"]["type"]) for one in found.pending] == [
        (AFTER, stage.NOW + 40_000, AFTER),
        ("remind", stage.NOW + 10_000, "REMIND"),
    ]
    notes = left(found)
    assert notes["xstate-x:0.other"] == "it goes to another actor, of which only the session is known"
    assert notes["xstate-x:0.clean"] == "actor-kit's own upkeep, every 300000 ms"
    assert notes["xstate-x:0.mail"] == "schedule it anew: jobs or schedules"
    assert notes.get("events") == ("1 rows; the ledger begins anew" if is_newer else None)
    assert path.read_bytes() == before


def test_actor_kits_older_keys(tmp_path: Path) -> None:
    bare = {"value": "placed", "context": {"public": {}, "private": {}}}
    keys = {
        "actorType": "Order",
        "actorId": "o-7",
        "initialCaller": '{"id": "c", "type": "client"}',
        "input": "{}",
        "persistedSnapshot": json.dumps(bare),
        "strange": 1,
    }
    [found] = read(written(tmp_path / "kv.json", keys), "actor-kit")
    assert (found.cls, found.key, found.snapshot["status"]) == ("Order", "o-7", "active")
    assert found.snapshot["context"] == {"public": {}, "private": {}}
    assert left(found)["strange"] == "not known to be actor-kit's"


def test_actor_kits_older_keys_as_the_runtime_keeps_them_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "do.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE _cf_KV (key TEXT PRIMARY KEY, value BLOB)")
        keys = {"actorType": "Order", "actorId": "日本", "persistedSnapshot": json.dumps(stage.PLACED)}
        db.executemany("INSERT INTO _cf_KV VALUES (?, ?)", [(key, stage.v8(text)) for key, text in keys.items()])
    db.close()
    [found] = read(path, "actor-kit")
    assert (found.cls, found.key, found.snapshot["value"]) == ("Order", "日本", "placed")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ff0f2203616263", "abc"),
        ("ff0f220568e96c6c6f", "héllo"),
        ("ff0f6304e5652c67", "日本"),
        ("ff0f006304e5652c67", "日本"),
        ("ff0f63046100e565", "a日"),
        ("ff0f22c801" + "78" * 200, "x" * 200),
    ],
)
def test_texts_of_v8(data: str, text: str) -> None:
    """Bytes that `v8.serialize` of Node gave."""
    assert actorkit.v8_text(bytes.fromhex(data), "here") == text


@pytest.mark.parametrize(
    "data", ["", "ff", "ff0f", "ff0f22", "ff0f2205616263", "ff0f6f22016149027b01", "ff0f22ffffffffffffff"]
)
def test_what_is_no_text_of_v8_is_refused(data: str) -> None:
    with pytest.raises(BadInput, match=r"^here: "):
        actorkit.v8_text(bytes.fromhex(data), "here")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="can't be read: No such file"):
        read(tmp_path / "none.json", "xstate")
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="neither SQLite nor text"):
        read(tmp_path / "b", "xstate")
    with pytest.raises(BadInput, match="is it --as actor-kit"):
        read(stage.actor_kit(tmp_path / "do.sqlite", stage.PLACED), "xstate")
    with pytest.raises(BadOption, match="there is no form 'yaml'"):
        read(tmp_path / "b", "yaml")
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes((tmp_path / "do.sqlite").read_bytes()[:5_000])
    with pytest.raises(BadInput, match="can't be read as SQLite"):
        read(cut, "actor-kit")
    with sqlite3.connect(tmp_path / "t.sqlite") as db:
        db.execute("CREATE TABLE mine (a)")
    db.close()
    with pytest.raises(BadInput, match="there is no table 'snapshots'; there are: mine"):
        read(tmp_path / "t.sqlite", "actor-kit")
    with pytest.raises(BadInput, match="persistedSnapshot: there is no such key; there are: actorId"):
        read(written(tmp_path / "kv.json", {"actorId": "o"}), "actor-kit")


def test_an_alarm_without_a_time_is_refused(tmp_path: Path) -> None:
    row = list(stage.alarm(AFTER, stage.NOW))
    row[2] = "soon"
    path = stage.actor_kit(tmp_path / "do.sqlite", stage.PAID, tuple(row))
    with pytest.raises(BadInput, match=r'alarms xstate-x:0\.xstate.*\.scheduled_at: "soon" is no time'):
        read(path, "actor-kit")
