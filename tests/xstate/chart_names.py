"""What the names in the generated charts stand for; run.cjs says the same in JavaScript."""

from typing import Any

from wakeful.chart import Implementations


def _count(context: dict[str, Any], key: str) -> int:
    return int(context.get(key) or 0)


def _pick(context: dict[str, Any], event: dict[str, Any], params: Any, check: Any) -> list[Any]:
    wanted: list[Any] = [{"type": "x", "params": {"n": (params or {}).get("n")}}]
    if check({"type": "even", "params": {"key": "a"}}):
        return [*wanted, {"type": "inc", "params": {"key": "a"}}]
    return [*wanted, {"type": "xstate.raise", "event": {"type": "C"}}]


NAMES = Implementations(
    guards={
        "yes": lambda context, event, params: True,
        "no": lambda context, event, params: False,
        "atLeast": lambda context, event, params: _count(context, params["key"]) >= params["n"],
        "even": lambda context, event, params: _count(context, params["key"]) % 2 == 0,
        "flagged": lambda context, event, params: event.get("flag") is True,
        "mixed": {
            "type": "xstate.and",
            "guards": [
                {"type": "even", "params": {"key": "a"}},
                {"type": "xstate.not", "guard": {"type": "atLeast", "params": {"key": "b", "n": 3}}},
            ],
        },
    },
    assigns={
        "inc": lambda context, event, params: {params["key"]: _count(context, params["key"]) + 1},
        "note": lambda context, event, params: {"last": event["type"]},
        "put": lambda context, event, params: {params["key"]: params["value"]},
    },
    actions={"x", "y", "z"},
    enqueues={"pick": _pick},
    delays={"short": 10, "grown": lambda context, event, params: 5 + 7 * (_count(context, "a") % 10)},
    actors={"svc", "job"},
    values={
        "sum": lambda context, event, params: (_count(context, "a") + _count(context, "b")) % 1000,
        "told": lambda context, event, params: {
            "a": _count(context, "a"),
            "type": event["type"],
            "output": event.get("output"),
        },
        "born": lambda context, event, params: {"a": (event.get("input") or {}).get("a", 0), "b": 1},
        "bar": lambda context, event, params: {"key": "a", "n": 1 + _count(context, "b") % 3},
        "whom": lambda context, event, params: "#_internal",
        "none": lambda context, event, params: None,
        "which": lambda context, event, params: f"d{_count(context, 'a') % 3}",
        "while": lambda context, event, params: 3 + 5 * (_count(context, "b") % 4),
        "ping": lambda context, event, params: {"type": "B", "flag": _count(context, "a") % 2 == 0},
    },
)
