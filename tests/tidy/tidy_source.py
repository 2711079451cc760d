"""What the tidy tests read: the repository's own files."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "wakeful"


@cache
def modules() -> list[tuple[str, str]]:
    """Every module of the package as (dotted name, source)."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append((name, path.read_text(encoding="utf-8")))
    return found


@cache
def parsed(text: str) -> ast.Module:
    """Its tree, not to be changed: a dozen tests read those of all modules."""
    return ast.parse(text)


@cache
def nodes(text: str) -> list[ast.AST]:
    """All of its tree, in the order of `ast.walk`."""
    return list(ast.walk(parsed(text)))


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Every module of ours that the source imports, wherever in it, with its line."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "wakeful":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wakeful":
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if is_module(full) else node.module
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "wakeful.<relative>"


@cache
def is_module(name: str) -> bool:
    path = SRC.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()
