"""What is kept of a machine: nothing of one is another's."""

from typing import Any

from wakeful.machines.records import whole


def _changed(part: dict[str, Any]) -> None:
    for one in part.values():
        if isinstance(one, list):
            one.append("mine")
        elif isinstance(one, dict):
            one["mine"] = 1


def test_what_is_not_on_disk_is_made_anew_for_each() -> None:
    found: dict[str, Any] = {"version": 1, "snapshot": {"value": "a"}}
    first, second = whole(found), whole(found)
    assert first == second
    _changed(first)
    _changed(first["snapshot"])
    assert first["snapshot"]["pending"] == ["mine"]
    assert whole(found) == second
