"""What tests and teeth replace by name is there: a name that was changed would be replaced where nobody looks."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tidy.tidy_source import ROOT

REPLACERS = {"swapped", "setattr", "delattr"}


def test_what_is_replaced_by_name_is_there() -> None:
    missing = [line for path in sorted((ROOT / "tests").rglob("*.py")) for line in replaced_in_vain(path)]
    assert not missing, "\n".join(missing)


def test_a_name_that_is_gone_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "test_gone.py"
    text = "from wakeful.runtime.turn import Turn\nfrom wakeful.runtime import turn\nimport wakeful.runtime.node\n"
    text += 'swapped(Turn, "take_commit", 1)\nm.setattr(turn, "no_such", 1)\nswapped(wakeful.runtime.node.Node, "nor_this", 1)\n'
    path.write_text(text)
    assert [line.partition(": ")[2] for line in replaced_in_vain(path)] == [
        "turn has no no_such",
        "Node has no nor_this",
    ]


def replaced_in_vain(path: Path) -> Iterator[str]:
    """What is said to be replaced in a module, class or object that the file imports, and is not there."""
    text = path.read_text()
    if not any(f"{name}(" in text for name in REPLACERS):
        return
    tree = ast.parse(text)
    imported = dict(_imports(tree))
    for call in ast.walk(tree):
        is_added = any(
            one.arg == "raising" for one in getattr(call, "keywords", ())
        )  # it says that it need not be there
        if isinstance(call, ast.Call) and len(call.args) >= 2 and not is_added and _last_name(call.func) in REPLACERS:
            place, name = call.args[:2]
            target, attribute = _resolve(place, imported), getattr(name, "value", None)
            if target is not None and isinstance(attribute, str) and not hasattr(target, attribute):
                yield f"{path.name}:{call.lineno}: {_last_name(place)} has no {attribute}"


def _imports(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """What names stand for that are imported from Wakeful, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "wakeful":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                yield alias.asname or alias.name, getattr(module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "wakeful":
                    module = importlib.import_module(alias.name)
                    yield (alias.asname, module) if alias.asname else ("wakeful", importlib.import_module("wakeful"))


def _resolve(place: ast.expr, imported: dict[str, Any]) -> Any:
    """The module or class that an expression names; None for what only a running test knows."""
    if isinstance(place, ast.Name):
        return imported.get(place.id)
    if isinstance(place, ast.Attribute):
        return getattr(_resolve(place.value, imported), place.attr, None)
    return None


def _last_name(place: ast.expr) -> str:
    return place.attr if isinstance(place, ast.Attribute) else getattr(place, "id", "")
