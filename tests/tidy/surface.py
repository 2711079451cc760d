"""What others rely on, as plain data: exported names, commands, routes, metrics, codes, tables.

`python -m tests.tidy.surface > tests/vectors/surface.json` writes down what there is, after something was added on purpose.
"""

import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import click

import wakeful
from wakeful.cli import cli
from wakeful.cli.options import ListingGroup
from wakeful.http.rows import ROWS
from wakeful.telemetry.catalogue import CATALOGUE

PUBLIC = ("wakeful", "wakeful.client", "wakeful.server", "wakeful.telemetry", "wakeful.testing")
_CODE = re.compile(r"""(?:\bcode=|"code": )"([a-z_]+(?:\.[a-z_]+)+)\"""")
_CREATED = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?([\w.{}]+) \((.*?)\n\)", re.DOTALL | re.IGNORECASE)
_COLUMN = re.compile(r"^\s+([a-z_]+)\s+[A-Za-z]", re.MULTILINE)


def surface() -> dict[str, Any]:
    return {
        "exports": {f"{module}.{name}": value for module in PUBLIC for name, value in exported(module).items()},
        "commands": commands(cli),
        "routes": sorted(f"{row.method} {row.path}" for row in ROWS),
        "metrics": {metric.prometheus: [metric.kind, *metric.labels] for metric in CATALOGUE},
        "codes": sorted({code for text in sources() for code in _CODE.findall(text)}),
        "tables": tables(),
    }


def exported(module: str) -> dict[str, Any]:
    """Each name with what it takes; of a class its public methods too."""
    found = importlib.import_module(module)
    return {name: shape(getattr(found, name)) for name in getattr(found, "__all__", ())}


def shape(value: Any) -> Any:
    if inspect.isclass(value):
        members = {name: one for name, one in inspect.getmembers(value) if not name.startswith("_")}
        return {name: parameters(one) for name, one in members.items() if belongs(one)}
    return parameters(value)


def belongs(member: Any) -> bool:
    """It is of ours, and not what the standard library's base classes bring."""
    return str(getattr(member, "__module__", None) or "wakeful").startswith("wakeful")


def parameters(value: Any) -> list[str] | None:
    """Names, in their order; `=` behind those that may be left out. None of what can't be called."""
    try:
        found = inspect.signature(value).parameters.values() if callable(value) else None
    except (TypeError, ValueError):
        found = None
    if found is None:
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        f"{stars.get(one.kind, '')}{one.name}{'' if one.default is one.empty else '='}"
        for one in found
        if one.name != "self"
    ]


def commands(group: click.Group) -> dict[str, list[str]]:
    """Each command with its options and arguments."""
    context = click.Context(group)
    found = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": options for inner, options in commands(command).items()}
        listing = command.commands["list"].params if isinstance(command, ListingGroup) else []
        found[name] = sorted({opt for one in [*command.params, *listing] for opt in (*one.opts, *one.secondary_opts)})
    return found


def sources() -> list[str]:
    root = Path(wakeful.__file__).parent
    return [path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))]


def tables() -> dict[str, list[str]]:
    """Of each store the tables with their columns."""
    root = Path(wakeful.__file__).parent / "store"
    return {
        f"{path.parent.name}.{table.rpartition('.')[2]}": _COLUMN.findall(body)
        for path in sorted(root.rglob("schema.sql"))
        for table, body in _CREATED.findall(path.read_text(encoding="utf-8"))
    }


if __name__ == "__main__":
    json.dump(surface(), sys.stdout, indent=1, sort_keys=True)
    print()
