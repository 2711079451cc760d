"""What a node leaves for the next on its machine when its store was away to the end: a small file, believed with care."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wakeful.runtime import ended_epochs
from wakeful.values.errors import BadInput


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


async def nobody(*args: Any, **options: Any) -> None:
    raise AssertionError("there is nobody to ask")


def node(identity: str = "db/1/wakeful", *, url: str = "postgresql://x/y") -> Any:
    return SimpleNamespace(
        name="n1",
        store=SimpleNamespace(url=url, identity=identity),
    )


def file() -> Path:
    [found] = (Path(os.environ["XDG_RUNTIME_DIR"]) / "wakeful").glob("ended-*")
    return found


async def test_the_next_one_on_this_machine_reads_it_and_others_add_to_it() -> None:
    await ended_epochs.tell(node(), {3: 7, 200: 1}, [], nobody)
    await ended_epochs.tell(node(), {3: 9}, [], nobody)
    assert ended_epochs.known(node()) == {3: [7, 9], 200: [1]}
    assert file().stat().st_mode & 0o077 == 0


async def test_another_store_is_told_nothing() -> None:
    await ended_epochs.tell(node(), {3: 7}, [], nobody)
    assert ended_epochs.known(node("db/2/wakeful")) == {}
    # By its URL where the server does not say which it is.
    await ended_epochs.tell(node("", url="postgresql://x/z"), {4: 1}, [], nobody)
    assert ended_epochs.known(node("", url="postgresql://x/z")) == {4: [1]}


async def test_it_has_a_bound_and_files_of_stores_that_are_no_more_go() -> None:
    for epoch in range(100):
        await ended_epochs.tell(node(), {3: epoch}, [], nobody)
    assert ended_epochs.known(node()) == {3: list(range(84, 100))}
    then = file().stat().st_mtime - ended_epochs.KEEP_S - 1
    os.utime(file(), (then, then))
    assert ended_epochs.known(node()) == {3: list(range(84, 100))}, "an epoch ends once"
    await ended_epochs.tell(node("db/2/wakeful"), {4: 1}, [], nobody)
    assert (ended_epochs.known(node()), ended_epochs.known(node("db/2/wakeful"))) == ({}, {4: [1]})


async def test_nothing_was_owned_so_nothing_is_said() -> None:
    await ended_epochs.tell(node(), {}, [], nobody)
    assert ended_epochs.known(node()) == {}


@pytest.mark.parametrize("text", ["", "[]", "7", '{"3": 1}', '{"x": [1]}', '{"3": ["y"]}', "[" * 100_000, "\udcff"])
async def test_a_file_that_is_none_of_ours_is_no_file(text: str) -> None:
    await ended_epochs.tell(node(), {3: 7}, [], nobody)
    file().write_text(text, encoding="utf-8", errors="surrogateescape")
    assert ended_epochs.known(node()) == {}
    await ended_epochs.tell(node(), {3: 8}, [], nobody)
    assert json.loads(file().read_text()) == {"3": [8]}


async def test_a_folder_that_can_not_be_written_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(OSError("full")))
    await ended_epochs.tell(node(), {3: 7}, [], nobody)
    assert ended_epochs.known(node()) == {}


@pytest.mark.parametrize(
    "pairs", [None, 5, "ab", [1], [(1,)], [(1, 2, 3)], [("1", 2)], [(-1, 2)], [(256, 2)], [(True, 2)]]
)
def test_what_no_node_says_is_refused(pairs: Any) -> None:
    with pytest.raises(BadInput, match="pairs of a shard and an epoch"):
        ended_epochs.check_epochs(pairs)


def test_what_a_node_says_is_taken() -> None:
    assert ended_epochs.check_epochs([(0, 1), [255, 1 << 40]]) == {0: 1, 255: 1 << 40}
