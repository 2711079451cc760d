"""Files as XState and actor-kit write them, and a program that takes them in."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from wakeful import App, DurableObject, Machine

START = "2026-11-15T11:00:00+00:00"
NOW = 1_794_740_400_000  # START
DAY = 86_400_000

# What xstate 5.33.3 gave for `actor.getPersistedSnapshot()` and `actor.system.getSnapshot()`, times moved to START.
PLACED: dict[str, Any] = {
    "status": "active",
    "value": "placed",
    "historyValue": {},
    "context": {"n": 1},
    "children": {},
}
PAID: dict[str, Any] = {
    "status": "active",
    "value": {"paid": "y"},
    "historyValue": {},
    "context": {"n": 1},
    "children": {
        "shipping": {"snapshot": {"status": "active", "input": {"q": 1}}, "src": "ship", "syncSnapshot": False},
        "kid1": {
            "snapshot": {"status": "active", "value": "a", "historyValue": {}, "context": {}, "children": {}},
            "src": "Kid",
            "syncSnapshot": False,
        },
    },
}
OUT: dict[str, Any] = {
    "status": "active",
    "value": "out",
    "historyValue": {"order.paid.h": [{"id": "order.paid.y"}]},
    "context": {"n": 1},
    "children": {},
}


def scheduled(
    id: str, delay: int, *, ago: int = 0, actor: str = "o-1", event: str = "", to: str = ""
) -> dict[str, Any]:
    """One of XState's `_scheduledEvents`, begun so long before START."""
    return {
        f"x:0.{id}": {
            "source": {"xstate$$type": 1, "id": actor},
            "target": {"xstate$$type": 1, "id": to or actor},
            "event": {"type": event or id},
            "delay": delay,
            "id": id,
            "startedAt": NOW - ago,
        }
    }


def alarm(id: str, due_at: int, *, type: str = "xstate-delay", event: str = "", to: str = "x:0") -> tuple[Any, ...]:
    """A row of actor-kit's `alarms`."""
    payload = {
        "type": type,
        "sourceSessionId": "x:0",
        "targetSessionId": to,
        "event": {"type": event or id},
        "scheduledEventId": f"x:0.{id}",
        "alarmId": f"xstate-x:0.{id}",
    }
    repeat = 300_000 if type == "cache-cleanup" else None
    return (f"xstate-x:0.{id}", type, due_at, repeat, json.dumps(payload), NOW - 5_000)


def actor_kit(path: Path, snapshot: dict[str, Any], *alarms: tuple[Any, ...], is_newer: bool = False) -> Path:
    """An SQLite file as actor-kit's storage lays it out, in its first or its second form."""
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE alarms (id TEXT PRIMARY KEY, type TEXT NOT NULL, scheduled_at INTEGER NOT NULL,"
            " repeat_interval INTEGER, payload TEXT, created_at INTEGER NOT NULL)"
        )
        db.execute(
            "CREATE TABLE actor_meta (actor_id TEXT PRIMARY KEY, actor_type TEXT NOT NULL, initial_caller TEXT NOT NULL,"
            " input TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)"
        )
        db.execute(
            "INSERT INTO actor_meta VALUES (?, ?, ?, ?, ?, ?)",
            ("o-7", "Order", '{"id": "c", "type": "client"}', '{"n": 1}', NOW, NOW),
        )
        db.executemany("INSERT INTO alarms VALUES (?, ?, ?, ?, ?, ?)", alarms)
        if is_newer:
            db.execute(
                "CREATE TABLE snapshots (id INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL,"
                " timestamp INTEGER NOT NULL, checksum TEXT NOT NULL, data TEXT NOT NULL)"
            )
            db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, type TEXT NOT NULL)")
            db.execute("INSERT INTO events VALUES (1, 'PAY')")
            old = json.dumps({**snapshot, "value": "placed2"})
            for seq, data in ((3, old), (9, json.dumps(snapshot)), (5, old)):
                db.execute("INSERT INTO snapshots (seq, timestamp, checksum, data) VALUES (?, 1, 'c', ?)", (seq, data))
        else:
            db.execute(
                "CREATE TABLE snapshots (actor_id TEXT PRIMARY KEY, snapshot TEXT NOT NULL, checksum TEXT,"
                " updated_at INTEGER NOT NULL)"
            )
            db.execute("INSERT INTO snapshots VALUES ('o-7', ?, NULL, 1)", (json.dumps(snapshot),))
    db.close()
    return path


def v8(text: str) -> bytes:
    """A short text as V8 serialises it."""
    is_latin = all(ord(sign) < 256 for sign in text)
    body = text.encode("latin-1" if is_latin else "utf-16-le")
    length, sizes = len(body), b""
    while True:
        sizes += bytes([length & 0x7F | (0x80 if length > 0x7F else 0)])
        length >>= 7
        if not length:
            break
    return b"\xff\x0f" + (b'"' if is_latin else b"c") + sizes + body


def make_app() -> App:
    """The program that the machines move to."""
    app = App()

    @app.object
    class Kid(Machine):
        chart = {
            "id": "kid",
            "initial": "a",
            "context": {"size": 0},
            "states": {
                "a": {"after": {"5000": "b"}, "on": {"GROW": "b"}},
                "b": {"on": {"TELL": {"actions": {"type": "sendParent", "event": {"type": "OUT"}}}}},
            },
        }

    @app.object
    class Order(Machine):
        chart = {
            "id": "order",
            "initial": "placed",
            "context": {"n": 0},
            "states": {
                "placed": {"after": {"24h": "expired", "soon": "placed2"}, "on": {"PAY": "paid"}},
                "placed2": {},
                "paid": {
                    "initial": "x",
                    "states": {"x": {"on": {"Y": "y"}}, "y": {}, "h": {"type": "history"}},
                    "invoke": [
                        {
                            "src": "ship",
                            "id": "shipping",
                            "onDone": {"actions": {"type": "assign", "assignment": {"$call": "shipped"}}},
                        },
                        {"src": "Kid", "id": "kid1"},
                    ],
                    "on": {
                        "OUT": "out",
                        "REMIND": "expired",
                        "MORE": {"actions": [{"type": "xstate.spawnChild", "src": "Kid", "id": "kid2"}]},
                    },
                    "after": {"60000": "expired"},
                },
                "out": {"on": {"BACK": "paid.h"}},
                "expired": {"type": "final"},
            },
        }
        soon = "1h"

        async def ship(self, context: Any, event: Any, input: Any) -> Any:
            return input

        def shipped(self, context: Any, event: Any) -> dict[str, Any]:
            return {"shipped": event["output"]}

    @app.object
    class Plain(DurableObject):
        pass

    return app
