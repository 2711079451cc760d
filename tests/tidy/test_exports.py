"""What is public is this list: a name more is a promise, a name less breaks a program."""

import ast
import importlib
import inspect
import subprocess
import sys
import types

import pytest

import wakeful

EXPORTS = {
    "wakeful": [
        "Again",
        "AlarmInfo",
        "AlarmSlot",
        "App",
        "Client",
        "Context",
        "ContinueAsNew",
        "Dag",
        "DurableObject",
        "Job",
        "JobSpec",
        "Limits",
        "Machine",
        "Next",
        "ObjectId",
        "Queue",
        "Quotas",
        "RetryPolicy",
        "Run",
        "Schedule",
        "Schedules",
        "Socket",
        "Step",
        "Stop",
        "Storage",
        "Unavailable",
        "WakefulError",
        "Workflow",
        "action",
        "after",
        "any_of",
        "assign",
        "at",
        "business_hours",
        "cron",
        "errors",
        "every",
        "except_for",
        "exponential",
        "fixed",
        "guard",
        "holidays",
        "in_process",
        "in_thread",
        "internal",
        "reader",
        "rrule",
        "sharded",
        "spread",
        "within",
    ],
    "wakeful.store": ["Disk", "MemoryStore", "NodeRow", "Query", "Range", "ShardRow", "Store", "open_url"],
}
NAMES_MAX = 50  # "about 30 names", says surface.md


def problems(module: types.ModuleType, expected: list[str]) -> list[str]:
    names = list(module.__all__)
    found = [f"{name} is exported and not on the list" for name in names if name not in expected]
    found += [f"{name} is on the list and not exported" for name in expected if name not in names]
    found += [f"{name} is exported and does not exist" for name in names if not hasattr(module, name)]
    found += ["the list is not sorted"] if names != sorted(names) else []
    return found + ([f"{len(names)} names; keep it near 30"] if len(names) > NAMES_MAX else [])


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_are_exactly_these(name: str) -> None:
    assert problems(importlib.import_module(name), EXPORTS[name]) == []


def test_the_package_is_typed_and_has_a_version() -> None:
    assert wakeful.__version__.count(".") == 2


@pytest.mark.parametrize("names", [["App"], ["App", "Extra"], ["errors", "App"], ["App", "errors", "Missing"]])
def test_the_check_can_fail(names: list[str]) -> None:
    module = types.ModuleType("sample")
    module.App = module.errors = module.Extra = object()  # type: ignore[attr-defined]
    module.__all__ = names  # type: ignore[attr-defined]
    assert problems(module, ["App", "errors"])


def test_every_name_has_a_home_and_the_checkers_are_told_the_same() -> None:
    assert set(wakeful._HOMES) == set(wakeful.__all__) - {"errors"}
    source = ast.parse(inspect.getsource(wakeful))
    told = {
        alias.name: node.module
        for block in source.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == wakeful._HOMES
    assert not hasattr(wakeful, "nonsense")


def test_the_command_line_loads_no_runtime_before_it_needs_one() -> None:
    code = "import sys, wakeful.cli; print([name for name in sys.modules if name.startswith('wakeful.runtime')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
