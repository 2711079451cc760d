"""Layer 5. `wakeful run`: a program in earnest."""

import os
import sys

import click

from wakeful.cli import options


@options.command("run")
@click.argument("target", metavar="MODULE:APP")
@click.option("--paranoid", is_flag=True, help="Every object sleeps after each turn.")
@options.store_option
def run(target: str, paranoid: bool, url: str, as_json: bool) -> None:
    """Run the App of `module:app` or `path.py:app` until SIGTERM or SIGINT.

    The first signal lets running turns finish and releases the store (exit code 0); a second one
    stops at once. If the module has `async def on_start(app)`, it is run once after the start.
    """
    from wakeful.cli.loading import load
    from wakeful.cli.naming import own_classes
    from wakeful.cli.saying import Say, listen_to_logs
    from wakeful.cli.serving import serve
    from wakeful.runtime.node import Node

    sys.argv = [f"wakeful run {target}"]  # what the store tells others about its owner; the URL may hold a password
    say = Say(as_json=as_json)
    program = load(target)
    listen_to_logs(say)

    async def ready(node: Node) -> None:
        classes = ", ".join(own_classes(node.registry.names())) or "no classes"
        data = {"node": node.name, "pid": os.getpid(), "store": node.store.url, "address": node.address}
        say.event("ready", f"{classes} on {node.store.url} (node {node.name}, pid {os.getpid()})", **data)

    serve(program, url, say, paranoid=paranoid, ready=ready)
    say.event("stopped", "cleanly")
