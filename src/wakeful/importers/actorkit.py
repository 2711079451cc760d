"""Layer 5. What is in the storage of an actor-kit server?

In SQLite: `actor_meta`, `alarms` and `snapshots` (its first form has a row for each actor, its second one for each
sequence number, of which the newest counts). Before that, keys: `actorType`, `actorId`, `initialCaller`, `input` and
`persistedSnapshot`, as a JSON object of an export, or in the table in which Cloudflare's runtime keeps keys on a
local disk, its values as V8 writes texts.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from wakeful.importers import xstate
from wakeful.importers.findings import FoundMachine, bad, event_of, instant, mapping, parse_json, short
from wakeful.importers.sqlite import Tables

_DELAY = "xstate-delay"
_AFTER = "xstate.after."


def read_tables(tables: Tables, path: str) -> list[FoundMachine]:
    """The machines of an SQLite file."""
    if "snapshots" not in tables:
        if "_cf_KV" in tables:
            return [read_keys(_keys(tables, path), f"{path}: _cf_KV")]
        raise bad(path, f"there is no table 'snapshots'; there are: {', '.join(tables.names) or 'none'}")
    metas = tables.rows("actor_meta") if "actor_meta" in tables else []
    alarms = [_alarm(row, f"{path}: alarms") for row in tables.rows("alarms")] if "alarms" in tables else []
    snapshots = _snapshots(tables.rows("snapshots"), metas, path)
    if not snapshots:
        raise bad(f"{path}: snapshots", "it is empty: the actor was never persisted")
    if len(snapshots) > 1 and alarms:
        raise bad(f"{path}: alarms", f"there are {len(snapshots)} actors, and nothing says whose alarms these are")
    machines = []
    for id, text in snapshots.items():
        meta = next((row for row in metas if row.get("actor_id") == id), {})
        machine = _machine(parse_json(_text(text, path), f"{path}: snapshots {id}"), f"{path}: snapshots {id}", meta)
        _take_alarms(machine, alarms)
        for table in ("events", "meta"):
            if table in tables and tables.rows(table):
                machine.note_left("table", table, f"{len(tables.rows(table))} rows; the ledger begins anew")
        machines.append(machine)
    return machines


def read_keys(keys: Any, path: str) -> FoundMachine:
    """The machine of an export of its keys."""
    given = mapping(keys, path)
    if "persistedSnapshot" not in given:
        raise bad(f"{path}: persistedSnapshot", f"there is no such key; there are: {', '.join(given) or 'none'}")
    meta = {
        "actor_id": given.get("actorId"),
        "actor_type": given.get("actorType"),
        "initial_caller": given.get("initialCaller"),
        "input": given.get("input"),
    }
    machine = _machine(
        _plain(given["persistedSnapshot"], f"{path}: persistedSnapshot"), f"{path}: persistedSnapshot", meta
    )
    alarms = _plain(given.get("alarms") or [], f"{path}: alarms")
    rows = list(alarms.values()) if isinstance(alarms, Mapping) else alarms
    if not isinstance(rows, list):
        raise bad(f"{path}: alarms", f"a list was expected, not {short(rows)}")
    _take_alarms(machine, [_alarm(mapping(row, f"{path}: alarms"), f"{path}: alarms") for row in rows])
    known = ("persistedSnapshot", "actorId", "actorType", "initialCaller", "input", "alarms")
    for key in given:
        if key not in known:
            machine.note_left("key", key, "not known to be actor-kit's")
    return machine


def _machine(snapshot: Any, path: str, meta: Mapping[str, Any]) -> FoundMachine:
    machine = xstate.read(snapshot, path, defaults_to_active=True)
    for field, name in (("actor_id", "key"), ("actor_type", "cls")):
        value = meta.get(field)
        if value is not None and not isinstance(value, str):
            raise bad(f"{path}: {field}", f"{short(value)} is no text")
        setattr(machine, name, value or getattr(machine, name))
    for field in ("initial_caller", "input"):
        if meta.get(field) is not None:
            why = "its context was made from it already" if field == "input" else "Wakeful keeps no first caller"
            machine.note_left(field, short(meta[field]), why)
    return machine


def _snapshots(rows: list[dict[str, Any]], metas: list[dict[str, Any]], path: str) -> dict[str, Any]:
    """The newest snapshot of each actor."""
    if not rows:
        return {}
    if "data" in rows[0]:
        newest = max(rows, key=lambda row: row["seq"])
        if len(metas) > 1:
            raise bad(f"{path}: actor_meta", f"there are {len(metas)} actors, and snapshots of only one")
        return {str(metas[0]["actor_id"]) if metas else "": newest["data"]}
    if "snapshot" not in rows[0]:
        columns = ", ".join(rows[0])
        raise bad(f"{path}: snapshots", f"neither a column 'snapshot' nor 'data'; there are: {columns}")
    return {str(row.get("actor_id") or ""): row["snapshot"] for row in rows}


def _take_alarms(found: FoundMachine, alarms: Iterable[dict[str, Any]]) -> None:
    known = {one["id"] for one in found.pending}
    for alarm in alarms:
        if alarm["type"] != _DELAY:
            every = f", every {alarm['repeat_ms']} ms" if alarm["repeat_ms"] else ""
            why = (
                "actor-kit's own upkeep" if alarm["type"] == "cache-cleanup" else "schedule it anew: jobs or schedules"
            )
            found.note_left(f"alarm ({alarm['type']})", alarm["id"], f"{why}{every}")
            continue
        payload = mapping(alarm["payload"], f"{alarm['path']}.payload")
        event = event_of(payload.get("event"), f"{alarm['path']}.payload.event")
        if payload.get("sourceSessionId") != payload.get("targetSessionId"):
            found.note_left("delay", alarm["id"], "it goes to another actor, of which only the session is known")
            continue
        found.knows_delays = True
        id = _delay_id(alarm, payload, event)
        if id not in known:
            delay_ms = max(0, alarm["due_at"] - alarm["created_at"])
            due = {"id": id, "due_at": alarm["due_at"], "delay_ms": delay_ms, "event": event, "target": None}
            found.pending.append(due)


def _delay_id(alarm: Mapping[str, Any], payload: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """The id that the chart knows it by: what follows the session."""
    if event["type"].startswith(_AFTER):
        return str(event["type"])
    named = str(payload.get("scheduledEventId") or str(alarm["id"]).removeprefix("xstate-"))
    session = payload.get("sourceSessionId")
    return named.removeprefix(f"{session}.") if session else named.partition(".")[2] or named


def _alarm(row: Mapping[str, Any], path: str) -> dict[str, Any]:
    id = row.get("id")
    if not isinstance(id, str) or not id:
        raise bad(f"{path}.id", f"{short(id)} is no id of an alarm")
    where = f"{path} {id}"
    due_at = row.get("scheduled_at", row.get("scheduledAt"))
    created_at = row.get("created_at", row.get("createdAt", due_at))
    payload = row.get("payload")
    return {
        "id": id,
        "path": where,
        "type": str(row.get("type")),
        "due_at": instant(due_at, f"{where}.scheduled_at"),
        "created_at": instant(created_at, f"{where}.created_at"),
        "repeat_ms": row.get("repeat_interval", row.get("repeatInterval")),
        "payload": _plain(payload, f"{where}.payload") if payload is not None else {},
    }


def _plain(value: Any, path: str) -> Any:
    """What a key holds: JSON as text, or as it is."""
    return parse_json(value, path) if isinstance(value, str) else value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise bad(f"{path}: snapshots", f"{short(value)} is no text")
    return value


def _keys(tables: Tables, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in tables.rows("_cf_KV"):
        key, value = row.get("key"), row.get("value")
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
        found[name] = v8_text(value, f"{path}: _cf_KV {name}") if isinstance(value, bytes) else value
    return found


# Which text did V8 write? Cloudflare's runtime keeps the values of keys in that form; actor-kit's are texts.

_VERSION = 0xFF
_LATIN, _WIDE, _UTF8, _PADDING = 0x22, 0x63, 0x53, 0x00


def v8_text(data: bytes, path: str) -> str:
    """The text in a serialised value; an error when it is something else."""
    at = 0
    if len(data) > 1 and data[0] == _VERSION:
        _, at = _number(data, 1, path)
    while at < len(data) and data[at] == _PADDING:
        at += 1
    if at >= len(data):
        raise bad(path, "the value is empty")
    kind = data[at]
    if kind not in (_LATIN, _WIDE, _UTF8):
        raise bad(path, f"the value is no text but of V8's kind {chr(kind)!r}; export it as JSON", code="import.v8")
    length, at = _number(data, at + 1, path)
    body = data[at : at + length]
    if len(body) != length:
        raise bad(path, f"the value is cut: {len(body)} of {length} bytes", code="import.v8")
    return body.decode({_LATIN: "latin-1", _WIDE: "utf-16-le", _UTF8: "utf-8"}[kind], "replace")


def _number(data: bytes, at: int, path: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise bad(path, "the value is cut", code="import.v8")
