"""Layer 5. What is in a snapshot that XState's `actor.getPersistedSnapshot()` gave?

XState keeps delayed events apart, in `actor.system.getSnapshot()`: `_scheduledEvents`, each with the instant at which
its delay began. Both together are what has to move; the file may hold them side by side or in one object.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakeful.importers.findings import FoundMachine, bad, event_of, instant, mapping, short

SCHEDULED = "_scheduledEvents"
STATUSES = ("active", "done", "error", "stopped")
_REFERENCE = "xstate$$type"
# Of a snapshot, besides what is taken; XState writes them and does not need them to start again.
_NEEDLESS = ("tags", "_nodes", "machine", "_internalQueue", "matches", "can", "getMeta", "hasTag", "toJSON", "version")
_V4 = ("_event", "configuration", "transitions", "changed")


def read(data: Any, path: str = "snapshot", *, defaults_to_active: bool = False) -> FoundMachine:
    """One machine, from its persisted snapshot or from `{"snapshot": …, "system": …}`."""
    given = mapping(data, path)
    scheduled: Any = given.pop(SCHEDULED, None)
    if "snapshot" in given and "value" not in given:
        extra = [key for key in given if key not in ("snapshot", "system", "key")]
        if extra:
            raise bad(f"{path}.{extra[0]}", "beside 'snapshot' there may be 'system' and 'key'")
        if given.get("system") is not None:
            system = mapping(given["system"], f"{path}.system")
            scheduled = system.get(SCHEDULED, scheduled)
        key = given.get("key")
        given, path = mapping(given["snapshot"], f"{path}.snapshot"), f"{path}.snapshot"
        scheduled = given.pop(SCHEDULED, scheduled)
    else:
        key = given.pop("key", None)
    if key is not None and not isinstance(key, str):
        raise bad(f"{path}.key", f"{short(key)} is no key")
    machine = FoundMachine(snapshot=_snapshot(given, path, defaults_to_active=defaults_to_active), key=key)
    machine.knows_delays = scheduled is not None
    _remark(machine, given)
    kids = _read_children(machine, given.get("children") or {}, f"{path}.children", knows_delays=scheduled is not None)
    for name, one in mapping(scheduled or {}, f"{path}.{SCHEDULED}").items():
        _read_scheduled(machine, kids, one, f"{path}.{SCHEDULED}.{name}")
    for id, kid in kids.items():
        machine.children[id]["machine"] = msgspec.to_builtins(kid)
    return machine


def _snapshot(given: dict[str, Any], path: str, *, defaults_to_active: bool) -> dict[str, Any]:
    old = [key for key in _V4 if key in given]
    if len(old) > 1 or isinstance((given.get("historyValue") or {}).get("current"), str | dict):
        raise bad(
            path, "this is a state of XState 4; start it once with XState 5 and persist it there", code="import.v4"
        )
    for key in ("value", "context") if defaults_to_active else ("value", "context", "status"):
        if key not in given:
            raise bad(f"{path}.{key}", "it is missing; is this a snapshot of actor.getPersistedSnapshot()?")
    status = given.get("status", "active")
    if status not in STATUSES:
        raise bad(f"{path}.status", f"{short(status)} is none of {', '.join(STATUSES)}")
    _check_value(given["value"], f"{path}.value")
    history = mapping(given.get("historyValue") or {}, f"{path}.historyValue")
    return {
        "value": given["value"],
        "context": mapping(given["context"], f"{path}.context"),
        "status": status,
        "output": given.get("output"),
        "error": given.get("error"),
        "historyValue": {id: _read_history(nodes, f"{path}.historyValue.{id}") for id, nodes in history.items()},
    }


def _check_value(value: Any, path: str) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_value(inner, f"{path}.{key}")
    elif not isinstance(value, str) or not value:
        raise bad(path, f"{short(value)} is no state: it is a name, or an object of names")


def _read_history(nodes: Any, path: str) -> list[dict[str, str]]:
    if not isinstance(nodes, list):
        raise bad(path, f"a list of states was expected, not {short(nodes)}")
    states = []
    for place, node in enumerate(nodes):
        id = node.get("id") if isinstance(node, Mapping) else node
        if not isinstance(id, str) or not id:
            raise bad(f"{path}[{place}]", f"{short(node)} names no state")
        states.append({"id": id})
    return states


def _remark(found: FoundMachine, given: dict[str, Any]) -> None:
    snapshot = found.snapshot
    found.note_taken("value", short(snapshot["value"]))
    count = len(snapshot["context"])
    found.note_taken("context", f"{count} key{'' if count == 1 else 's'}")
    found.note_taken(
        "status", snapshot["status"], "" if "status" in given else "the file does not say, so it is active"
    )
    for id in snapshot["historyValue"]:
        found.note_taken("history", id)
    for path in _references(snapshot["context"], "context"):
        found.note_left("reference", path, "a reference to an actor; it stays in the context as plain data")
    for key in given:
        if key not in (*snapshot, "children", SCHEDULED):
            known = "XState makes it anew" if key in _NEEDLESS else "not known to be part of a snapshot"
            found.note_left("key", key, known)


def _references(value: Any, path: str) -> list[str]:
    if isinstance(value, Mapping):
        if _REFERENCE in value:
            return [path]
        return [one for key, inner in value.items() for one in _references(inner, f"{path}.{key}")]
    if isinstance(value, list):
        return [one for place, inner in enumerate(value) for one in _references(inner, f"{path}[{place}]")]
    return []


def _read_children(found: FoundMachine, children: Any, path: str, *, knows_delays: bool) -> dict[str, FoundMachine]:
    """Its actors; those that were machines themselves are answered, to be given their delays."""
    kids = {}
    for id, one in mapping(children, path).items():
        child = mapping(one, f"{path}.{id}")
        snapshot = mapping(child.get("snapshot") or {}, f"{path}.{id}.snapshot")
        found.children[id] = {
            "src": child.get("src") if isinstance(child.get("src"), str) else None,
            "status": snapshot.get("status", "active"),
            "input": snapshot.get("input"),
            "has_input": "input" in snapshot,
            "value": snapshot.get("value"),
            "is_synced": child.get("syncSnapshot") is True,
        }
        if snapshot.get("value") is not None and "context" in snapshot:
            kids[id] = read(snapshot, f"{path}.{id}.snapshot", defaults_to_active=True)
            kids[id].knows_delays = knows_delays
    return kids


def _read_scheduled(found: FoundMachine, kids: Mapping[str, FoundMachine], one: Any, path: str) -> None:
    given = mapping(one, path)
    id = given.get("id")
    if not isinstance(id, str) or not id:
        raise bad(f"{path}.id", f"{short(id)} is no id of a delay")
    event = event_of(given.get("event"), f"{path}.event")
    started_at = instant(given.get("startedAt"), f"{path}.startedAt")
    delay_ms = instant(given.get("delay"), f"{path}.delay")
    source, target = (_actor(given.get(end), f"{path}.{end}") for end in ("source", "target"))
    due = {"id": id, "due_at": started_at + delay_ms, "delay_ms": delay_ms, "event": event}
    due["target"] = None if target == source else target
    if source in kids and due["target"] is None:
        kids[source].pending.append(due)
    elif source in found.children:
        found.note_left("delay", id, f"it belongs to the actor {source!r}, not to this machine")
    elif inner := next((kid for kid in kids.values() if source in kid.children), None):
        inner.note_left("delay", id, f"it belongs to the actor {source!r}, which a child of this machine had")
    else:
        found.pending.append(due)


def _actor(value: Any, path: str) -> str:
    id = value.get("id") if isinstance(value, Mapping) else value
    if not isinstance(id, str) or not id:
        raise bad(path, f"{short(value)} names no actor")
    return id
