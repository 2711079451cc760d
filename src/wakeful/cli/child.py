"""Layer 5. The process that `wakeful dev` starts anew at every change."""

import inspect
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options, telemetry_setup
from wakeful.cli.app_loader import LoadError, load, own_files
from wakeful.cli.fired_lines import HUSHED
from wakeful.cli.program import serve
from wakeful.cli.web import ADDRESS, wished
from wakeful.cli.workers import load_worker
from wakeful.views.timer_names import own_classes

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

UNLOADABLE = 9  # exit code between child and supervisor: wait for the next change


@options.command("_child", hidden=True)
@click.argument("target")
@click.option("--paranoid", is_flag=True)
@click.option("--lifeline", type=int, required=True)
@click.option("--report", type=int, required=True)
@click.option("--program", required=True)
@click.option("--again", is_flag=True)
@click.option("--name-store", is_flag=True)
@click.option("--workers", is_flag=True)
@click.option("--http")
@click.option("--http-again")
@telemetry_setup.options
@options.store_option
def child(
    target: str,
    paranoid: bool,
    lifeline: int,
    report: int,
    program: str,
    again: bool,
    name_store: bool,
    workers: bool,
    http: str | None,
    http_again: str | None,
    log_form: str | None,
    telemetry: str | None,
    url: str,
    as_json: bool,
) -> int:
    """Run the program and tell the supervisor which files it is made of."""
    sys.argv = [f"wakeful dev {'--workers ' * workers}{target}"]  # what the store tells others about its owner
    say = telemetry_setup.teller(log_form, as_json=as_json)
    try:
        loaded = load_worker(target) if workers else load(target)
    except LoadError as error:
        _report(report, own_files())
        say.lines(error.trace)
        say.event("error", f"{error.message}; save a fix and it starts again")
        return UNLOADABLE
    _report(report, own_files())

    async def ready(node: "Node", seen: str | None) -> None:
        _report(report, own_files())
        if seen is not None:
            _report(report, {"http": seen.partition("://")[2]})
        classes = ", ".join(own_classes(node.registry.names())) or "no classes (put @app.object on one)"
        where = f", dashboard at {seen}" if seen is not None else ""
        about = {"store": node.store.url, "pid": os.getpid(), "node": node.name, "http": seen}
        say.event("ready", f"{classes} on {node.store.url}{where}", **about)
        if not again:
            say.lines(await _what_next(node, program, seen, name_store=name_store))

    wish = wished(http, default=http_again or ADDRESS)
    with telemetry_setup.observed(loaded.app, say, log_form, telemetry, hushed=HUSHED):
        serve(loaded, url, say, paranoid=paranoid, is_dev=True, ready=ready, lifeline=lifeline, http=wish)
    return 0


def _report(descriptor: int, news: list[str] | dict[str, str]) -> None:
    """To the supervisor: the files that the program is made of, or where it serves."""
    os.write(descriptor, json.dumps(news).encode() + b"\n")


async def _what_next(node: "Node", program: str, seen: str | None, *, name_store: bool) -> str:
    """Commands that work as they stand, for what is in the store now."""
    from wakeful.store.protocol import Query

    url = node.store.url  # without its password
    head = "" if seen is None else f"\n  Open {seen} to watch it.\n"
    if url == "memory:":
        return f"{head}\n  The store is in memory: it is gone when this stops, and other commands can't see it.\n"
    where = f" --store {shlex.quote(url)}" if name_store else ""
    cls, method = _method(node)
    timers = await node.store.find_timers(Query(cls=cls, limit=1))
    objects = await node.store.find_objects(Query(cls=cls, limit=1))
    key = shlex.quote(timers[0].id.key if timers else objects[0].id.key if objects else "KEY")
    commands = [
        ("which objects there are", "ls"),
        ("one of them, without waking it", f"show {cls} {key}"),
        ("what fires next", "due"),
        ("call a method", f"call {cls} {key} {method}"),
        ("what failed for good", "parked"),
        ("try that again", "redrive --all"),
    ]
    width = max(len(command) for _, command in commands)
    lines = [f"    {program} {command}{where}{' ' * (width - len(command))}   # {text}" for text, command in commands]
    return "\n".join(
        [head, "  Try in another terminal:", *lines, "  Save a file to reload; Ctrl-C stops. The data stays.", ""]
    )


def _method(node: "Node") -> tuple[str, str]:
    """A class and a method to try: one that needs no arguments if there is one, readers first."""
    found = []
    for cls in own_classes(node.registry.names()):
        known = node.registry.by_name(cls)
        for name in sorted(known.methods):
            needs = _needed(known.cls, name)
            found.append((len(needs), name not in known.readers, cls, " ".join([name, *needs])))
    return min(found)[2:] if found else ("CLASS", "METHOD")


def _needed(cls: type, method: str) -> list[str]:
    """Something of the right kind for each parameter that has no default."""
    samples: dict[Any, str] = {int: "1", float: "1.5", bool: "true", str: "hello", dict: "'{}'", list: "'[]'"}
    parameters = list(inspect.signature(getattr(cls, method)).parameters.values())[1:]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        samples.get(parameter.annotation, parameter.name.upper())
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind in kinds
    ]


def program_name() -> str:
    """How this very command is called from this folder."""
    import shutil

    given = Path(sys.argv[0])
    if given.name != "wakeful":
        return f"{Path(sys.executable).name} -m wakeful.cli"
    on_path = shutil.which("wakeful")
    if on_path is not None and Path(on_path).resolve() == given.resolve():
        return "wakeful"
    relative = os.path.relpath(given.absolute())
    return relative if not relative.startswith("..") else str(given.absolute())
