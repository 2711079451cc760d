"""`wakeful drain --here`: in a container, which knows its own name and not that of its node."""

import json
import re

import pytest

from wakeful.cli import run
from wakeful.store.protocol import NodeRow, ShardRow
from wakeful.values.errors import BadOption
from wakeful.values.ids import SHARDS
from wakeful.views.nodes import Members, stand

NOW = 1_000_000


def at(host: str, node: str, lease_ms: int = 3_000) -> NodeRow:
    about = f"{host} pid 1 wakeful run app.py:app"
    return NodeRow(node, f"tcp:127.0.0.1:{len(node)}", NOW - 9_000, NOW + lease_ms, about)


def cluster(*rows: NodeRow) -> Members:
    return stand(rows, [ShardRow(number, None, 1) for number in range(SHARDS)], NOW)


def test_the_one_that_lives_on_the_machine_is_meant() -> None:
    [found] = cluster(at("web-1", "a"), at("web-10", "b"), at("web-1", "c", -99_000)).at("web-1")
    assert found.row.node == "a"


def test_all_that_one_parent_started_are_meant() -> None:
    rows = [
        NodeRow(
            name,
            "tcp:127.0.0.1:1",
            NOW - 9_000,
            NOW + 3_000,
            f"web-1 pid {pid} wakeful run app.py:app (process {pid} of 7)",
        )
        for name, pid in (("a", 1), ("b", 2))
    ]
    assert [one.row.node for one in cluster(*rows).at("web-1")] == ["a", "b"]
    with pytest.raises(BadOption, match="several nodes run on web-1: a, b, c; name one of them"):
        cluster(*rows, at("web-1", "c")).at("web-1")


@pytest.mark.parametrize(
    ("host", "words"), [("web-1", "several nodes run on web-1: a, b; name one of them"), ("web", "no node runs on web")]
)
def test_none_and_several_are_refused(host: str, words: str) -> None:
    with pytest.raises(BadOption, match=re.escape(words)):
        cluster(at("web-1", "a"), at("web-1", "b"), at("web-10", "c")).at(host)


@pytest.mark.parametrize("args", [(), ("n1", "--here")])
def test_a_name_or_here_and_not_both(args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drain", "--json", *args]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"
