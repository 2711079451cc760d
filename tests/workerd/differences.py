"""Where Wakeful answers otherwise than workerd, on purpose; docs/cloudflare.md gives the reasons."""

from typing import Any, NamedTuple


class Difference(NamedTuple):
    """Where the page tells of it, and what we answer instead."""

    told_as: str
    ours: dict[str, Any]


def _ours(told_as: str, answers: list[Any], events: list[list[Any]]) -> Difference:
    return Difference(told_as, {"answers": answers, "events": events})


_RUNG = ["alarm", 0, False, "a"]
_SET: dict[str, Any] = {"answers": [None]}

DIFFERENCES = {
    "set between retries": _ours(
        "set-between-retries",
        [_SET, {"answers": [None, "b"]}, {"answers": [None]}],
        [_RUNG, ["alarm", 0, False, "b"]],
    ),
    "a handler that aborts for good does not come again": _ours(
        "abort-for-good",
        [_SET, {"answers": [None, {"map": []}]}],
        [_RUNG],
    ),
    "two that wait between reading and writing": _ours(
        "one-event-at-a-time",
        [[{"answers": [None]}, {"answers": [None]}], {"answers": [2]}],
        [],
    ),
    "a call during the handler": _ours(
        "one-event-at-a-time",
        [_SET, {"answers": [None, None]}],
        [_RUNG, ["say", "begin"], ["say", "end"], ["answers", None, None, None], ["say", "call"]],
    ),
    "retries after a restart": _ours(
        "retries-after-a-restart",
        [_SET, {"answers": [None]}],
        [_RUNG, ["alarm", 1, True, "a"], ["alarm", 2, True, "a"]],
    ),
}
