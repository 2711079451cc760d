"""Imports point down only, and siblings don't import each other."""

import pytest

from tests.tidy import tidy_source as source

LAYERS = {
    "values": 0,
    "specs": 1,
    "statechart": 1,
    "policy": 1,
    "store": 2,
    "transport": 2,
    "runtime": 3,
    "schedules": 4,
    "jobs": 4,
    "machines": 4,
    "sockets": 4,
    "sql": 4,
    "history": 4,
    "executors": 4,
    "notices": 4,
    "workflows": 4,
    "queues": 4,
    # The parts that put everything together, under the edges proper.
    "app": 5,
    "objects": 5,
    "sync_view": 5,
    "system": 5,
    "machine": 5,
    "workflow": 5,
    "store_move": 5,
    "webhooks": 5,
    "lifecycle": 5,
    "spread_servers": 5,
    "deployment": 5,
    "chart": 5,
    "diagrams": 5,
    "importers": 5,
    "views": 5,
    "security": 5,
    "operations": 5,
    "wakeful": 5,
    "http": 6,
    "dashboard": 6,
    "telemetry": 6,
    "client": 6,
    "testing": 10,  # a program that runs has no use for it
    "server": 7,  # http, dashboard, telemetry as one
    "compat": 8,
    "cli": 9,
}
NAMES = {0: "values", 1: "logic", 2: "seams", 3: "runtime", 4: "features"} | dict.fromkeys(range(5, 11), "edges")

# Modules that live in one folder and belong to another layer, with the reason.
ELSEWHERE = {"wakeful.transport.control": "runtime"}  # serves a node, so it must know one

# Imports against the rule, each with the reason why it stays.
EXCEPTIONS = {
    ("wakeful", "wakeful.client.client"): "a public name, for checkers only; it is loaded when it is first asked for",
    ("wakeful.app", "wakeful.testing.world"): "app.world() is the door to the test kit; imported when it is opened",
    ("wakeful.app", "wakeful.telemetry.logs"): "in a web application nobody else may write what objects say",
    ("wakeful.app", "wakeful.server"): "app.asgi() is the door to the server; imported when it is opened",
}

# Of two in one layer, which may know the other: what to do with occurrences is decided over the specs that have them.
ABOVE = {("policy", "specs")}

# Parts of one folder that are siblings as well: each may know the seam, none another.
STORES = ("wakeful.store.memory", "wakeful.store.sqlite", "wakeful.store.postgres")


def part_of(module: str) -> str:
    if module in ELSEWHERE:
        return ELSEWHERE[module]
    names = module.split(".")
    return names[1] if len(names) > 1 else names[0]


def problems(module: str, text: str) -> list[str]:
    """What is wrong with the imports of a module, and why it matters."""
    found = []
    part = part_of(module)
    if part not in LAYERS:
        return [
            f"{module}: {part!r} is in no layer; add it to LAYERS in tests/tidy/test_layers.py, under what it may import"
        ]
    for line, target in source.imports(text):
        other = part_of(target)
        where = f"src/{module.replace('.', '/')}:{line} imports {target}"
        if target == "wakeful.<relative>":
            found.append(f"{where}: relative imports hide the layer; write the whole name")
        elif (module, target) in EXCEPTIONS or part == other == "wakeful":
            continue
        elif other not in LAYERS:
            found.append(f"{where}: {other!r} is in no layer")
        elif any(module.startswith(one) and target.startswith(two) for one in STORES for two in STORES if one != two):
            found.append(f"{where}: stores are siblings; what they share belongs in store/protocol.py")
        elif part != other and LAYERS[other] > LAYERS[part]:
            found.append(
                f"{where}: {NAMES[LAYERS[part]]} (layer {LAYERS[part]}) must not know {NAMES[LAYERS[other]]} "
                f"(layer {LAYERS[other]}), or it can't be tested and replaced without it; pass it in, or register it from above"
            )
        elif part != other and LAYERS[other] == LAYERS[part] and LAYERS[part] != 5 and (part, other) not in ABOVE:
            found.append(f"{where}: {part} and {other} are siblings; what both need belongs one layer down")
    return found


def test_imports_point_down_only() -> None:
    found = [problem for name, text in source.modules() for problem in problems(name, text)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("wakeful.values.ids", "from wakeful.policy.limits import Limits"),
        ("wakeful.policy.retry", "import wakeful.runtime.node"),
        ("wakeful.runtime.node", "from wakeful.schedules import specs"),
        ("wakeful.runtime.node", "from wakeful import App"),
        ("wakeful.store.memory", "from wakeful.transport.frames import read_frame"),
        ("wakeful.store.sqlite.store", "from wakeful.store.postgres import rows"),
        ("wakeful.transport.frames", "def late():\n    from wakeful.runtime.node import Node"),
        ("wakeful.schedules.specs", "from wakeful.jobs import queue"),
        ("wakeful.cli.dev", "from wakeful.testing.world import World"),
        ("wakeful.runtime.node", "from . import turn"),
        ("wakeful.novelty.thing", "import asyncio"),
    ],
)
def test_the_check_can_fail(module: str, line: str) -> None:
    assert problems(module, line)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("wakeful.runtime.node", "from wakeful.store.protocol import Store"),
        ("wakeful.transport.control", "from wakeful.runtime.node import Node"),
        ("wakeful.cli.dev", "from wakeful.app import App"),
        ("wakeful.app", "from wakeful.testing.world import World"),
    ],
)
def test_what_is_allowed_passes(module: str, line: str) -> None:
    assert not problems(module, line)
