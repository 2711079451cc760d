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
_ERROR, _TYPE_ERROR = {"error": "Error"}, {"error": "TypeError"}

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
    "retries after a restart": _ours(
        "retries-after-a-restart",
        [_SET, {"answers": [None]}],
        [_RUNG, ["alarm", 1, True, "a"], ["alarm", 2, True, "a"]],
    ),
    "sql: what is no value of a column": _ours("sql-values", [{"answers": [_TYPE_ERROR] * 4}], []),
    "sql: rows read": _ours(
        "sql-counts",
        [
            {
                "answers": [
                    [],
                    [3, [False, {"a": 1}], 3, [{"a": 2}, {"a": 3}], 3],
                    [[{"a": 3}], 1],
                    [[{"count(*)": 3}], 1],
                ]
            }
        ],
        [],
    ),
    "sql: a row that an index has too": _ours("sql-counts", [{"answers": [[], [1]]}], []),
    "sql: a write while a cursor is open": _ours(
        "sql-cursor",
        [
            {"answers": [[], []]},
            {"answers": [[[False, {"name": "a"}], [], [{"name": "b"}]]]},
            {"answers": [[[], [{"name": "a"}, {"name": "b"}, {"name": "c"}]]]},
        ],
        [],
    ),
    "sql: VACUUM": _ours("sql-vacuum", [{"answers": [[]]}], []),
    "sockets: a tag that is empty": _ours("empty-tag", [{"answers": "Error"}], []),
    "bookmarks": _ours("bookmarks", [{"answers": ["000000000000-0000", "000000000000-0000", _TYPE_ERROR]}], []),
}
