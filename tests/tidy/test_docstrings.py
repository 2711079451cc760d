"""Every public name has a docstring with an example, and every example prints what it says."""

import ast
import asyncio
import doctest
import importlib
import io
import traceback
from contextlib import redirect_stdout
from typing import Any

import pytest

DOORS = ("wakeful", "wakeful.testing", "wakeful.store")
NAMES = [f"{door}.{name}" for door in DOORS for name in importlib.import_module(door).__all__]


def documented(name: str) -> str:
    door, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(door), last)
    return found.__doc__ or ""


async def printed(code: str, space: dict[str, Any]) -> str:
    """What an example prints: the value of an expression too, as at the prompt, and of an error its last line."""
    # Not so inside of blocks, where the prompt shows the value of every line: nobody wants to read those.
    mode = "single" if isinstance(ast.parse(code).body[0], ast.Expr) else "exec"
    out = io.StringIO()
    with redirect_stdout(out):
        try:
            done = eval(compile(code, "example", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
            if done is not None:
                await done
        except Exception as error:
            print("Traceback (most recent call last):")
            print(traceback.format_exception_only(error)[-1], end="")
    return out.getvalue()


def wrong(text: str, name: str) -> list[str]:
    """The examples of a docstring that don't print what it says they do."""
    examples = doctest.DocTestParser().get_examples(text, name)
    space: dict[str, Any] = {"__name__": name}

    async def run() -> list[str]:
        found = []
        for example in examples:
            got = await printed(example.source, space)
            if got != example.want:
                found.append(f"{example.source}prints\n{got}not\n{example.want}")
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    text = documented(name)
    assert ">>> " in text, "give its docstring a short example"
    assert not text.lstrip().startswith(">>>"), "its first line is its promise"
    assert wrong(text, name) == []


def test_an_example_that_is_not_true_is_found() -> None:
    assert wrong(">>> 1 + 1\n3\n", "sample")
    assert wrong(">>> import asyncio\n>>> await asyncio.sleep(0, 5)\n5\n", "sample") == []
    assert wrong(">>> 1 / 0\n", "sample")
