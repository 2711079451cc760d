"""A module is a noun: somebody who looks for a thing by its name finds its file."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tidy import tidy_source as source

# What is done (`looking`, `settling`) or was done (`told`, `kept`) says nothing to somebody who searches.
_NO_NOUN = re.compile(r"(ing|told|kept|shown|sealed|carried|declared|owed)$")


def no_nouns(names: list[str]) -> list[str]:
    """Those of the module names that are gerunds or participles."""
    return [name for name in names if any(_NO_NOUN.search(part) for part in name.split("_"))]


def test_modules_are_nouns() -> None:
    paths = sorted(source.PACKAGE.rglob("*.py"))
    parts = {path.relative_to(source.PACKAGE) for path in paths} | {
        path.parent.relative_to(source.PACKAGE) for path in paths
    }
    found = [str(path) for path in sorted(parts) if no_nouns([Path(path).stem])]
    allowed = {"testing", "store/sealed_store.py"}  # a field's own word; a store that is sealed is a kind of store
    assert set(found) <= allowed, f"gerunds and participles: {sorted(set(found) - allowed)}"


@pytest.mark.parametrize("name", ["looking", "kept", "memory_swapping"])
def test_a_gerund_is_seen(name: str) -> None:
    assert no_nouns([name])


@pytest.mark.parametrize("name", ["archive", "timer_names", "machine_view"])
def test_a_noun_is_none(name: str) -> None:
    assert not no_nouns([name])


# Names that two share on purpose: those of Cloudflare's API, and a word that both XState's charts and our jobs have.
SHARED = {"DurableObject", "Env", "Queue", "Record", "State", "Stop", "Storage", "Stub"}


def class_homes(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Where each public class stands, from (place, source)."""
    homes = defaultdict(list)
    for place, text in files:
        for node in source.parsed(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(place)
    return dict(homes)


def test_no_class_name_is_there_twice() -> None:
    twice = {name: homes for name, homes in class_homes(source.modules()).items() if len(homes) > 1}
    assert twice.keys() == SHARED, {name: twice.get(name) for name in twice.keys() ^ SHARED}


def test_a_second_class_of_a_name_is_seen() -> None:
    assert class_homes([("a", "class Wire: ..."), ("b", "class Wire: ...")]) == {"Wire": ["a", "b"]}
    assert class_homes([("a", "class _Wire: ...")]) == {}


def namesakes(init: str, modules: Iterable[str]) -> set[str]:
    """Modules of a package that are called as something its `__init__` has: who imports one gets it in place of the other."""
    names: set[str] = set()
    for node in source.parsed(init).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names & set(modules)


def test_no_module_is_a_namesake_of_what_its_package_has() -> None:
    """`wakeful.cli.run` was a function until somebody imported the module of that name."""
    found = {
        str(init.parent.relative_to(source.PACKAGE)): namesakes(
            init.read_text(encoding="utf-8"), (path.stem for path in init.parent.glob("*.py"))
        )
        for init in source.PACKAGE.rglob("__init__.py")
    }
    assert not any(found.values()), {folder: names for folder, names in found.items() if names}


def test_a_namesake_is_seen() -> None:
    assert namesakes("def run(): ...", ["run", "stop"]) == {"run"}
    assert namesakes("from wakeful.server.serving import serving as serving", ["serving"]) == {"serving"}
    assert not namesakes("def run(): ...", ["run_command"])


# Names that others give or use: hooks of features and timer handlers, Cloudflare's API, helpers of the store suites, public
# methods; and words that are nouns here.
GIVEN = {
    *("started", "failed", "scheduled", "done", "filled", "keyed", "known", "closed"),
    *("parked", "seed", "feed", "speed", "need", "exceed", "embed", "heed", "sealed", "sharded", "missed"),
    *("fixed", "kept", "patched", "published", "removed"),
}
_DONE = re.compile(
    r"[a-z]+ed|told|shown|kept|made|said|seen|heard|given|taken|gone|held|sent|known|left|done|met|written|drawn|chosen"
    r"|broken|hidden|begun|found|built|bound|lost|put_off|worn"
)
_VAGUE = {"found", "one", "it"}
_LINES_MAX = 5


def participles(text: str) -> list[str]:
    """Functions that are called by what was done: nobody knows whether they do it, or say whether it was."""
    names = [node.name for node in source.nodes(text) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in names if _DONE.fullmatch(name.strip("_")) and name.strip("_") not in GIVEN]


def vague_names(text: str) -> list[str]:
    """`function: name` of each `found`, `one` or `it` that lives for longer than it can be kept in mind."""
    vague = set()
    for function in source.nodes(text):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names = list(_own_names(function))
            for name in {name.id for name in names if isinstance(name.ctx, ast.Store)} & _VAGUE:
                lines = [one.lineno for one in names if one.id == name]
                if max(lines) - min(lines) > _LINES_MAX:
                    vague.add(f"{function.name}: {name}")
    return sorted(vague)


def _own_names(node: ast.AST) -> Iterable[ast.Name]:
    """The names of a function, but for those of functions and comprehensions in it."""
    inner = (
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.Lambda,
        ast.ListComp,
        ast.SetComp,
        ast.DictComp,
        ast.GeneratorExp,
    )
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name):
            yield child
        if not isinstance(child, inner):
            yield from _own_names(child)


def test_functions_are_verbs_or_nouns() -> None:
    wrong = {name: names for name, text in source.modules() if (names := participles(text))}
    assert not wrong, "say what it does (check, join), or what it gives (refusal, mask)"


def test_what_lives_long_has_a_noun() -> None:
    wrong = {name: names for name, text in source.modules() if (names := vague_names(text))}
    assert not wrong, f"{', '.join(sorted(_VAGUE))} are for five lines"


def test_a_participle_and_a_vague_name_are_seen() -> None:
    assert participles("def _told(): ...\ndef checked(): ...\ndef check(): ...\nasync def failed(): ...") == [
        "_told",
        "checked",
    ]
    long = "def f():\n    found = []\n" + "    g()\n" * 5 + "    return found"
    assert vague_names(long) == ["f: found"]
    assert not vague_names("def f():\n    found = []\n    return found")
    assert not vague_names("def f():\n    a = [one for one in b]\n" + "    g()\n" * 9 + "    return [one for one in a]")
