"""What `nodes` and `doctor` print when nodes don't reach each other, and of calls that ran out of time."""

from typing import Any

import pytest

from wakeful.cli import checkups
from wakeful.cli.nodes import put_reach
from wakeful.store import NodeRow
from wakeful.views.nodes import stand

NOW = 1_000_000


def cut(node: str, for_ms: int = 12_000) -> dict[str, Any]:
    return {"unreached": [{"node": node, "for_ms": for_ms, "because": "nobody answers at tcp:h:1", "calls": 3}]}


def test_who_reaches_whom_is_drawn_when_not_all_do(capsys: pytest.CaptureFixture[str]) -> None:
    put_reach({"a": {"unreached": []}, "b": {}})
    assert capsys.readouterr().out == ""
    put_reach({"a": cut("b"), "b": {"unreached": []}, "c": None})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "not all nodes reach each other:"
    found = {line.partition(" ")[0]: line for line in lines[1:] if line}
    assert found["a"] == "a - not for 12 s yes"
    assert found["b"] == "b yes - yes"
    assert found["c"] == "c ? ? -"


def test_one_that_has_left_is_not_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    put_reach({"a": cut("gone")})
    assert capsys.readouterr().out == ""


def test_the_doctor_names_both_ends_the_reason_and_the_remedy() -> None:
    rows = [NodeRow(name, f"tcp:{name}:1", 0, NOW + 3_000, "host") for name in ("a", "b")]
    found = stand(rows, [], NOW)
    [finding] = checkups.reach(found, {"a": cut("b"), "b": {"unreached": []}})
    assert (finding.check, finding.status) == ("reach", "fail")
    assert "node a can't reach node b for 12 s" in finding.text
    assert "call.unrouted" in finding.text
    assert "tcp:b:1" in finding.remedy
    assert "nobody answers at tcp:h:1 (3 calls met it)" in finding.evidence
    assert checkups.reach(found, {"a": cut("gone"), "b": {}}) == []  # an older node says nothing of it


def test_the_doctor_names_calls_that_ran_out_of_time_and_forgets_old_ones() -> None:
    late = {"class": "Cell", "method": "add", "on": "b", "calls": 7, "ago_ms": 2_000}
    [finding] = checkups.late({"a": {"late": [late]}, "b": {"late": []}, "old": {}})
    assert (finding.check, finding.status) == ("calls", "warn")
    assert "by way of node a" in finding.text
    assert "Cell.add on node b (7, the last 2.0 s ago)" in finding.text
    [finding] = checkups.late({"a": {"late": [{**late, "on": None}] * 7}})
    assert "Cell.add on no node" in finding.text
    assert "and 2 more" in finding.text
    assert checkups.late({"a": {"late": [{**late, "ago_ms": checkups.LATE_MS}]}}) == []
