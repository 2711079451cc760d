"""`wakeful run --processes`: what it takes, where each process listens, who its siblings are, and one page of metrics for all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.prometheus_text import parse
from wakeful import App, DurableObject
from wakeful.cli import run
from wakeful.cli.exit_codes import CommandError
from wakeful.cli.processes import PROCESSES_MAX, Assignment, count_of
from wakeful.store.protocol import NodeRow
from wakeful.telemetry import prometheus
from wakeful.values.errors import BadOption
from wakeful.views.nodes import place_of, siblings


def place(number: int, *, among: int = 3, is_odd: bool = False) -> Assignment:
    return Assignment(number, among, is_odd, "77-ab", 5, 6, None)


def row(name: str, number: int, *, parent: int = 77, host: str = "web-1", joined_at: int = 0) -> NodeRow:
    return NodeRow(
        name, "tcp:127.0.0.1:1", joined_at, 9, f"{host} pid 8 wakeful run app.py:app (process {number} of {parent})"
    )


@pytest.mark.parametrize(("text", "count"), [(None, 1), ("1", 1), ("4", 4), (str(PROCESSES_MAX), PROCESSES_MAX)])
def test_so_many(text: str | None, count: int) -> None:
    assert count_of(text) == count


@pytest.mark.parametrize("text", ["0", "-1", "65", "two", "2.0", "٣", "", "9" * 5_000])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(BadOption, match="a number from 1 to 64, or auto"):
        count_of(text)


def test_auto_is_one_for_each_core_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    shares = {"text": "max 100000"}

    def opened(path: str, **options: Any) -> Any:
        assert path == "/sys/fs/cgroup/cpu.max"
        import io

        return io.StringIO(shares["text"])

    monkeypatch.setattr("builtins.open", opened)
    assert count_of("auto") == 3
    shares["text"] = "200000 100000"
    assert count_of("auto") == 2
    shares["text"] = "50000 100000"
    assert count_of("auto") == 1


@pytest.mark.parametrize("store", ["sqlite:some.db", "memory:"])
def test_a_store_of_one_process_is_refused(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "nowhere.py:app", "--processes", "2", "--store", store, "--json"]) == 2
    said = json.loads(capsys.readouterr().out)["error"]
    assert said["code"] == "processes.store"
    assert "--store postgresql://" in said["message"]
    assert "wakeful move" in said["message"]


@pytest.mark.parametrize(
    ("value", "is_taken"), [("3", True), ('"auto"', True), ("true", False), ('"many"', False), ("0", False)]
)
def test_the_file_takes_a_number(
    value: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wakeful.toml").write_text(f"processes = {value}\n")
    code = run(["run", "nowhere.py:app", "--store", "sqlite:some.db", "--json"])
    said = json.loads(capsys.readouterr().out)["error"]
    assert code == 2
    assert said["code"] in (("processes.store",) if is_taken else ("config.type", "config.value"))
    if not is_taken:
        assert "auto" in said["message"]
        assert "wakeful.toml:1" in said["message"]


def test_each_listens_at_a_port_of_its_own_also_while_the_one_before_it_still_does() -> None:
    ports = [place(number).shift("0.0.0.0:7400") for number in (1, 2, 3)]
    assert ports == ["0.0.0.0:7400", "0.0.0.0:7401", "0.0.0.0:7402"]
    others = [place(number, is_odd=True).shift("[::1]:7400") for number in (1, 2, 3)]
    assert others == ["[::1]:7403", "[::1]:7404", "[::1]:7405"]
    assert [place(2).shift(one) for one in (None, "127.0.0.1:0", "unix:/run/a.sock")] == [
        None,
        "127.0.0.1:0",
        "unix:/run/a.sock",
    ]
    with pytest.raises(CommandError, match="6 ports from there on"):
        place(3, is_odd=True).shift("0.0.0.0:65531")


def test_what_the_parent_says_is_read_and_nothing_else() -> None:
    assert Assignment.read(json.dumps(place(2))) == place(2)
    for text in ("", "[]", "{}", "[1]"):
        with pytest.raises(CommandError, match="--under"):
            Assignment.read(text)


def test_siblings_are_those_of_one_parent_on_one_machine() -> None:
    own = row("a", 1)
    others = [row("b", 2), row("c", 3, parent=78), row("d", 2, host="web-10"), row("e", 1), row("f", 2, joined_at=5)]
    plain = NodeRow("g", "tcp:127.0.0.1:1", 0, 9, "web-1 pid 9 wakeful run app.py:app")
    assert [one.node for one in siblings(own.about, [*others, plain])] == [
        "f",
        "b",
    ]  # of two with a number the later first
    assert siblings(plain.about, others) == []
    assert place_of(plain.about) is None
    assert (place_of(own.about) or (0, 0))[:2] == (1, "77")


async def test_one_page_has_what_all_of_them_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def put(self) -> None:
            await self.storage.put("a", 1)

    async with app.world() as world:
        await world.get(Cell, "a").put()
        node = app.deployment.node
        assert node is not None
        alone = prometheus.page(app)
        assert "process=" not in await prometheus.family_page(app)  # a process by itself has no label
        node.about = row("a", 2).about
        prometheus.answer_siblings(node, app.deployment)
        told = json.loads(json.dumps(node.routes.requests[prometheus.REQUEST]()))  # over a link, as plain values
        rows = [row("b", 1), row("c", 3)]
        monkeypatch.setattr(node.routes.contacts, "alive", lambda: {one.node: one for one in rows})

        async def ask(home: Any, asked: Any, request: str) -> Mapping[str, Any]:
            assert (home, list(asked), request) == (node, rows, prometheus.REQUEST)
            return {"b": told}  # the third does not answer

        monkeypatch.setattr(prometheus, "ask_each", ask)
        page, single = parse(await prometheus.family_page(app)), parse(alone)
    assert page.keys() == single.keys()
    for name, metric in single.items():
        both = page[name].samples
        for (suffix, labels), value in metric.samples.items():
            bare = [label for label in labels if label[0] != "le"]
            bound = [label for label in labels if label[0] == "le"]
            for process in ("1", "2"):
                found = both[suffix, (*bare, ("process", process), *bound)]
                if not name.startswith("process_") and "lag" not in name:
                    assert found == value, name
        assert {dict(labels)["process"] for _, labels in both} == {"1", "2"}
