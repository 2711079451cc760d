"""Charts as people write them, one for each thing that a picture has to show."""

from typing import Any

NOW = 1_774_700_000_000  # 2026-03-28T12:13:20Z

ORDER: dict[str, Any] = {
    "id": "order",
    "initial": "placed",
    "states": {
        "placed": {
            "on": {
                "PAY": {"target": "paid", "guard": "enough"},
                "CANCEL": "cancelled",
                "NOTE": {"actions": "keepNote"},
                "SPAM": {},
            },
            "after": {"24h": "expired"},
        },
        "paid": {
            "entry": "thank",
            "invoke": {
                "src": "ship",
                "onDone": "shipped",
                "onError": {"target": "paid", "actions": "again", "reenter": True},
            },
            "on": {"REFUND": {"target": "placed", "actions": ["refund", "notify"]}},
        },
        "shipped": {"type": "final"},
        "expired": {"type": "final"},
        "cancelled": {"type": "final"},
    },
}

NESTED: dict[str, Any] = {
    "id": "checkout",
    "initial": "cart",
    "on": {"RESET": ".cart"},
    "states": {
        "cart": {"on": {"CHECKOUT": "address"}},
        "address": {
            "initial": "empty",
            "states": {
                "empty": {"on": {"TYPE": "typing"}},
                "typing": {"on": {"VALIDATE": [{"target": "valid", "guard": "isComplete"}, {"target": "empty"}]}},
                "valid": {"type": "final"},
            },
            "onDone": "payment",
            "on": {"BACK": "cart"},
        },
        "payment": {
            "initial": "choosing",
            "states": {
                "choosing": {"on": {"CARD": "card", "INVOICE": "invoice"}},
                "card": {
                    "initial": "form",
                    "states": {
                        "form": {"on": {"SUBMIT": "checking"}},
                        "checking": {"invoke": {"src": "charge", "onDone": "#done"}, "after": {"30000": "form"}},
                    },
                },
                "invoice": {"on": {"CONFIRM": "#done"}},
            },
            "on": {"BACK": "address"},
        },
        "done": {"id": "done", "type": "final"},
    },
}

PLAYER: dict[str, Any] = {
    "id": "player",
    "initial": "off",
    "states": {
        "off": {"on": {"POWER": "on"}},
        "on": {
            "type": "parallel",
            "on": {"POWER": "off"},
            "states": {
                "video": {
                    "initial": "stopped",
                    "states": {
                        "stopped": {"on": {"PLAY": "playing"}},
                        "playing": {"on": {"STOP": "stopped", "PAUSE": "paused"}},
                        "paused": {"on": {"PLAY": "playing"}, "after": {"300000": "stopped"}},
                    },
                },
                "volume": {
                    "initial": "normal",
                    "states": {"normal": {"on": {"MUTE": "muted"}}, "muted": {"on": {"UNMUTE": "normal"}}},
                },
                "captions": {
                    "initial": "hidden",
                    "states": {"hidden": {"on": {"SHOW": "shown"}}, "shown": {"on": {"HIDE": "hidden"}}},
                },
            },
        },
    },
}

WASH: dict[str, Any] = {
    "id": "wash",
    "initial": "running",
    "states": {
        "running": {
            "initial": "fill",
            "states": {
                "fill": {"after": {"5m": "spin"}},
                "spin": {"after": {"10m": "drain"}},
                "drain": {"type": "final"},
                "where": {"type": "history", "history": "deep", "target": "spin"},
            },
            "on": {"POWER_CUT": "dark"},
            "onDone": "clean",
        },
        "dark": {"on": {"POWER_BACK": "running.where", "OPEN": "open"}},
        "open": {"on": {"CLOSE": "running"}},
        "clean": {"type": "final"},
    },
}

LONG: dict[str, Any] = {
    "id": "claims",
    "initial": "waitingForDocumentsFromTheCustomer",
    "states": {
        "waitingForDocumentsFromTheCustomer": {
            "tags": ["waiting", "outside"],
            "entry": ["sendReminderLetter", {"type": "xstate.raise", "event": {"type": "REMIND"}, "delay": 86400000}],
            "on": {
                "DOCUMENT_RECEIVED_FROM_CUSTOMER_PORTAL": {
                    "target": "reviewOfTheDocuments",
                    "guard": {
                        "type": "xstate.and",
                        "guards": ["hasAllRequiredDocuments", {"type": "xstate.not", "guards": ["isBlockedByFraud"]}],
                    },
                    "actions": [
                        "storeDocument",
                        {"type": "audit", "params": {"level": "high", "reason": "the portal"}},
                    ],
                }
            },
            "after": {"2592000000": "closedBecauseNobodyAnsweredUs"},
        },
        "reviewOfTheDocuments": {"on": {"ASK_AGAIN": "waitingForDocumentsFromTheCustomer"}},
        "closedBecauseNobodyAnsweredUs": {"type": "final"},
    },
}

_TICKET = {
    "new": ["triage"],
    "triage": ["assigned", "duplicate", "wontFix"],
    "assigned": ["investigating", "triage"],
    "investigating": ["waitingCustomer", "waitingVendor", "reproduced", "unreproduced"],
    "waitingCustomer": ["investigating", "closed"],
    "waitingVendor": ["investigating"],
    "reproduced": ["fixing"],
    "unreproduced": ["closed", "investigating"],
    "fixing": ["review"],
    "review": ["testing", "fixing"],
    "testing": ["staging", "fixing"],
    "staging": ["approved", "fixing"],
    "approved": ["releasing"],
    "releasing": ["released"],
    "released": ["monitoring"],
    "monitoring": ["regressed", "closed"],
    "regressed": ["reopened"],
    "reopened": ["assigned"],
    "duplicate": ["closed"],
    "wontFix": ["closed"],
    "closed": [],
}
TICKET: dict[str, Any] = {
    "id": "ticket",
    "initial": "new",
    "states": {
        name: {"on": {f"TO_{target.upper()}": target for target in targets}} for name, targets in _TICKET.items()
    },
}

ALL = {"order": ORDER, "nested": NESTED, "player": PLAYER, "wash": WASH, "long": LONG, "ticket": TICKET}


def snapshot(value: Any, *pending: tuple[str, int]) -> dict[str, Any]:
    """An active machine with delays that are due so many milliseconds from NOW."""
    due = [
        {"id": id, "due_at": NOW + ms, "delay_ms": 1, "event": {"type": id.partition(":")[0]}, "target": None}
        for id, ms in pending
    ]
    return {"value": value, "context": {}, "status": "active", "pending": due}
