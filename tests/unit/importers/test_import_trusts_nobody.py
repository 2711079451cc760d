"""Import trusts nobody: a file brings what `wakeful export` writes, and by no other way anything of Wakeful's own."""

import asyncio
import base64
import json
from typing import Any

import msgspec
import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.importers import archive
from wakeful.jobs.payload import JobPayload, encode_kept
from wakeful.security.scopes import TOKENS
from wakeful.store import open_url
from wakeful.store.protocol import Query
from wakeful.values.codec import encode
from wakeful.values.errors import BadValue, Conflict
from wakeful.values.ids import ObjectId

wakeful = pytest.fixture(make_stage)
HEAD = {"wakeful": "object", "version": 1, "class": "Report", "key": "k", "created_at": 1, "active_at": 1}
TIMER = {"name": "alarm", "due_at": 1, "nominal_at": 1, "seq": 1}


DEEP = base64.b64encode(b"\x01" + b"\x91" * 100_000 + b"\xc0").decode()


def forged(*lines: dict[str, Any], **head: Any) -> bytes:
    """A file with a right end, as whoever forges one would make it."""
    data = [archive._encode(one) for one in ({**HEAD, **head}, *lines)]
    return b"".join([*data, archive._encode(archive._end(data))])


def text(value: Any) -> str:
    return base64.b64encode(encode(value)).decode()


def job(**fields: Any) -> str:
    kept = JobPayload("tick", None, "t", None, 1, 1, None, 1, **fields)
    return base64.b64encode(encode_kept(kept)).decode()


def test_a_token_can_t_be_planted(wakeful: Stage) -> None:
    """Item 1: an archive of the reserved class of tokens was imported with success."""
    made = wakeful(
        "tokens", "create", "boss", "--scope", "admin", "--store", f"sqlite:{wakeful.path}/evil.db", "--json"
    )
    assert made.code == 0

    async def stolen() -> list[dict[str, Any]]:
        store = open_url(f"sqlite:{wakeful.path}/evil.db")
        await store.open(now=0, readonly=True)
        rows = await store.scan(ObjectId(TOKENS, "all"), 0, archive.Range(""))
        await store.close()
        return [{"row": [0, name, base64.b64encode(data).decode()]} for name, data in rows]

    rows = asyncio.run(stolen())
    assert rows
    (wakeful.path / "evil.jsonl").write_bytes(forged(*rows, **{"class": TOKENS, "key": "all"}))
    wakeful("migrate")
    for dry in (["--dry-run"], []):
        answer = wakeful("import", "evil.jsonl", *dry)
        assert (answer.code, "[import.reserved]" in answer.err) == (2, True), answer.err
        assert TOKENS in answer.err
    assert wakeful("tokens", "list", "--json").json == []


@pytest.mark.parametrize("cls", [TOKENS, "wakeful.Keys", "wakeful.Audit", "wakeful.Function", "wakeful.Whatever"])
def test_every_reserved_class_is_refused_by_its_name(cls: str) -> None:
    with pytest.raises(BadValue, match=cls) as caught:
        archive.read(forged(**{"class": cls}), "f")
    assert caught.value.code == "import.reserved"


def test_a_reserved_class_is_not_exported_either(wakeful: Stage) -> None:
    wakeful("migrate")
    wakeful("tokens", "create", "boss", "--scope", "admin")
    answer = wakeful("export", TOKENS, "all", "-o", "t.jsonl")
    assert (answer.code, "[export.reserved]" in answer.err) == (2, True), answer.err
    assert not (wakeful.path / "t.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "code", "named"),
    [
        ({"row": [0, "deep", DEEP]}, "import.value", "nested too deeply"),
        ({"row": [0, "x", text(1)], "timer": TIMER}, "import.file", "2 things in one line"),
        ({"row": [1, "sockets", text(1)]}, "import.row", "sockets"),
        ({"row": [1, "socket#1", text(1)]}, "import.row", "socket#1"),
        ({"row": [1, "jobs.waits", text(1)]}, "import.jobs", "other jobs wait"),
        ({"row": [1, "check", text(1)]}, "import.row", "check"),
        ({"row": [2, "x", text(1)]}, "import.row", "no page of a database"),
        ({"row": [4, "x", text(1)]}, "import.row", "space 4"),
        ({"row": [3, "x", text(1)]}, "import.row", "no undo image"),
        ({"row": [-1, "x", text(1)]}, "import.row", "space -1"),
        ({"row": [1, "machine", text({"snapshot": {}, "actors": {"a": 1}})]}, "import.actors", "others belong to"),
        (
            {"row": [1, "machine", text({"snapshot": {}, "parent": ["X", "y", "a", 1, True]})]},
            "import.actors",
            "others",
        ),
        ({"row": [1, "machine", "AAAA"]}, "import.row", "machine"),
        ({"timer": {**TIMER, "name": "send:other"}}, "import.timer", "send:other"),
        ({"timer": {**TIMER, "name": "wakeful.upkeep"}}, "import.timer", "wakeful.upkeep"),
        ({"timer": {**TIMER, "started": 7}}, "import.field", "started"),
        ({"timer": {**TIMER, "id": ["wakeful.Tokens", "all"]}}, "import.field", "id"),
        ({"timer": {**TIMER, "name": "job:x", "payload": job(waits=("Other/1/job:y",))}}, "import.jobs", "waits for"),
        ({"timer": {**TIMER, "name": "job:x", "payload": job(batch=("Other/1/job:y", 3))}}, "import.jobs", "batch"),
        ({"ledger": {"id": ["wakeful.Audit", "all"]}}, "import.field", "id"),
        ({"answer": {"key": "k", "tenant": "x"}}, "import.field", "tenant"),
        ({"parked": {"timer": {**TIMER, "started": 1}}}, "import.field", "started"),
        ({"parked": {"timer": {**TIMER, "name": "errand:x"}}}, "import.timer", "errand:x"),
    ],
)
def test_what_export_does_not_write_is_refused_by_name(line: dict[str, Any], code: str, named: str) -> None:
    with pytest.raises(BadValue, match="line 2") as caught:
        archive.read(forged(line), "f")
    assert caught.value.code == code
    assert named in caught.value.message


@pytest.mark.parametrize(
    "lines",
    [
        [{"row": [0, "a", text(1)]}, {"row": [0, "a", text(2)]}],
        [{"timer": TIMER}, {"timer": TIMER}],
        [{"answer": {"key": "k", "fingerprint": "", "answer": "", "expires_at": 1}}] * 2,
    ],
)
def test_nothing_is_there_twice(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(BadValue) as caught:
        archive.read(forged(*lines), "f")
    assert caught.value.code == "import.twice"


@pytest.mark.parametrize(
    "line",
    [
        {"timer": {**TIMER, "seq": 1 << 70}},
        {"timer": {**TIMER, "due_at": -(1 << 64)}},
        {"timer": {**TIMER, "name": "alarm:\0"}},
        {"timer": {**TIMER, "name": "alarm:\ud800"}},
        {"row": [0, "x" * 100_000, text(1)]},
        {"row": [0, 7, text(1)]},
        {"row": [1e400, "x", text(1)]},
        {"timer": []},
        {"parked": {"timer": 3}},
        {"row": None},
    ],
)
def test_what_no_store_can_hold_is_a_bad_file(line: dict[str, Any]) -> None:
    data = [json.dumps(one).encode() + b"\n" for one in (HEAD, line)]
    with pytest.raises(BadValue, match="it says what can't be") as caught:
        archive.read(b"".join([*data, archive._encode(archive._end(data))]), "f")
    assert caught.value.code == "import.file"
    assert len(caught.value.message) < 1_000


def test_a_head_with_more_is_refused() -> None:
    with pytest.raises(BadValue, match="trust") as caught:
        archive.read(forged(trust=True), "f")
    assert caught.value.code == "import.field"


def test_there_is_no_option_to_trust(wakeful: Stage) -> None:
    (wakeful.path / "f.jsonl").write_bytes(forged())
    answer = wakeful("import", "f.jsonl", "--trust")
    assert (answer.code, "--trust" in answer.err) == (2, True)


@pytest.mark.parametrize("depth", [900, 20_000, 200_000])
def test_a_deeply_nested_archive_is_a_bad_one_and_no_bug(wakeful: Stage, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for name, line in {
        "line": b'{"row":' + nested + b"}\n",
        "version": b'{"wakeful":"object","version":' + nested + b"}\n",
    }.items():
        lines = [archive._encode(HEAD), line] if name == "line" else [line, b"{}\n"]
        (wakeful.path / "deep.jsonl").write_bytes(b"".join([*lines, archive._encode(archive._end(lines))]))
        answer = wakeful("import", "deep.jsonl", "--dry-run")
        assert (answer.code, "[import.file]" in answer.err) == (2, True), answer.err[:500]
        assert "bug" not in answer.err


@pytest.mark.parametrize(("form", "depth"), [("xstate", 900), ("xstate", 50_000), ("actor-kit", 900)])
def test_a_deeply_nested_snapshot_is_a_bad_one_and_no_bug(wakeful: Stage, form: str, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    found = f'{{"status":"active","value":"a","context":{nested},"children":{{}},"historyValue":{{}}}}'
    (wakeful.path / "deep.json").write_text(found)
    answer = wakeful("import", "deep.json", "--as", form, "--class", "Report", "--key", "k", "--app", "app.py")
    assert answer.code in (1, 2), answer.err[:500]
    assert "bug" not in answer.err
    assert "Recursion" not in answer.err


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
def test_a_deeply_nested_beat_file_is_a_bad_one_and_no_bug(wakeful: Stage, depth: int) -> None:
    (wakeful.path / "beat.py").write_text(f"beat_schedule = {'[' * depth}{']' * depth}")
    answer = wakeful("import", "beat.py", "--as", "celery", "--class", "Report", "--key", "k", "--app", "app.py")
    assert (answer.code, "[import.file]" in answer.err) == (2, True), answer.err[:500]


def test_schedules_of_others_can_t_be_given_to_wakeful_s_own_objects(wakeful: Stage) -> None:
    (wakeful.path / "beat.py").write_text(
        'beat_schedule = {"evil": {"task": "tasks.create", "schedule": 1.0, "kwargs": {"name": "x"}}}'
    )
    answer = wakeful("import", "beat.py", "--as", "celery", "--class", TOKENS, "--key", "all", "--app", "app.py")
    assert (answer.code, "[import.reserved]" in answer.err) == (2, True), answer.err


def test_a_machine_s_file_can_t_name_a_reserved_class(wakeful: Stage) -> None:
    snapshot = {"status": "active", "value": "a", "context": {}, "children": {}, "historyValue": {}}
    (wakeful.path / "m.json").write_text(json.dumps(snapshot))
    answer = wakeful("import", "m.json", "--as", "xstate", "--class", TOKENS, "--key", "all", "--app", "app.py")
    assert (answer.code, "[import.reserved]" in answer.err) == (2, True), answer.err


def test_the_operations_refuse_it_too_whoever_asks(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        for method, args in (("schedules.settle", ([],)), ("machine.import", ({"snapshot": {}},))):
            with pytest.raises(BadValue) as caught:
                await world.node.send(
                    ObjectId("wakeful.Function", "x"), method, args, {"methods": {}} if method[0] == "s" else {}
                )
            assert caught.value.code == "import.reserved"

    wakeful.past(live, start="2026-03-27T12:00:00+00:00")


def test_a_parked_errand_does_not_travel(wakeful: Stage) -> None:
    """Export and import have one rule: what is about another object stays, also when it is parked."""
    from wakeful.importers.archive import bar_of_timer
    from wakeful.values.timers import Timer

    timer = msgspec.convert({**TIMER, "id": ("Report", "k"), "name": "letter:x"}, Timer)
    bar = bar_of_timer(timer)
    assert bar is not None
    assert bar.code == "timer"
    with pytest.raises(Conflict, match="another object"):
        archive._check(bar)


def test_what_export_writes_is_still_taken(wakeful: Stage) -> None:
    lines = [
        {"row": [0, "a", text(1)]},
        {"row": [1, "state", text({})]},
        {"timer": TIMER},
        {"timer": {**TIMER, "name": "job:x", "seq": 2, "payload": job()}},
    ]
    (wakeful.path / "f.jsonl").write_bytes(forged(*lines))
    wakeful("migrate")
    answer = wakeful("import", "f.jsonl")
    assert answer.code == 0, answer.err

    async def found() -> int:
        store = open_url(f"sqlite:{wakeful.path}/wakeful.db")
        await store.open(now=0, readonly=True)
        timers = await store.find_timers(Query(limit=10))
        await store.close()
        return len(timers)

    assert asyncio.run(found()) == 2
