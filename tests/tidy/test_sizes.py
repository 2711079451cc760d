"""Files stay small enough to be one thing, and say on their first line where they belong."""

import ast
import re

import pytest

from tests.tidy import tidy_source as source

LINES_MAX = 700  # at 500 the limit had begun to shape the code instead of the thought
FUNCTION_LINES_MAX = 70  # a screen
FOLDERS = ("src", "tests", "bench", "examples")
_FIRST = re.compile(r"Layer [0-5](, pure)?\. \S")


def too_long(path: str, text: str) -> list[str]:
    lines = text.count("\n") + 1
    return (
        [f"{path} has {lines} lines; past {LINES_MAX} a file is two things: split it by question"]
        if lines > LINES_MAX
        else []
    )


def long_functions(path: str, text: str) -> list[str]:
    return [
        f"{path}:{node.lineno} {node.name} has {length} lines; a function fits a screen ({FUNCTION_LINES_MAX})"
        for node in source.nodes(text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def no_layer(path: str, text: str) -> list[str]:
    first = (ast.get_docstring(source.parsed(text)) or "").partition("\n")[0]
    if _FIRST.match(first):
        return []
    return [f'{path} begins with {first!r}; begin with """Layer N. and the question it answers"""']


def test_files_are_one_thing() -> None:
    found = []
    for folder in FOLDERS:
        for path in sorted((source.ROOT / folder).rglob("*.py")):
            found += too_long(str(path.relative_to(source.ROOT)), path.read_text(encoding="utf-8"))
    assert not found, "\n" + "\n".join(found)


def test_functions_fit_a_screen() -> None:
    found = [problem for name, text in source.modules() for problem in long_functions(name, text)]
    assert not found, "\n" + "\n".join(found)


def test_modules_say_their_layer_and_question() -> None:
    found = [problem for name, text in source.modules() if name != "wakeful" for problem in no_layer(name, text)]
    assert not found, "\n" + "\n".join(found)


def test_the_layer_a_module_says_is_the_one_it_is_in() -> None:
    claims = {"values": 0, "specs": 1, "statechart": 1, "policy": 1, "store": 2, "runtime": 3, "sockets": 4}
    claims |= dict.fromkeys(("cli", "client", "compat", "dashboard", "http", "server", "telemetry", "testing"), 5)
    found = []
    for name, text in source.modules():
        part = name.split(".")[1] if "." in name else ""
        said = (ast.get_docstring(source.parsed(text)) or "")[6:7]
        if part in claims and said != str(claims[part]):
            found.append(f"{name} says layer {said} and is in layer {claims[part]}")
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "is_wrong",
    [
        bool(too_long("x.py", "a\n" * 701)),
        bool(long_functions("x.py", "def f():\n" + "    a = 1\n" * 80)),
        bool(no_layer("x.py", '"""Helpers."""')),
        bool(no_layer("x.py", "import os")),
        bool(no_layer("x.py", '"""Layer 9. What?"""')),
    ],
)
def test_the_checks_can_fail(is_wrong: bool) -> None:
    assert is_wrong


def test_what_is_right_passes() -> None:
    assert not too_long("x.py", "a\n" * 600)
    assert not no_layer("x.py", '"""Layer 1, pure. Which of them?"""')
