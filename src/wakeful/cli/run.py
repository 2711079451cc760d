"""Layer 5. `wakeful run`: a program in earnest, alone or as one node of a cluster."""

import os
import sys
from typing import Any

import click

from wakeful.cli import joining, options
from wakeful.cli.failing import USAGE, CommandError


@options.command("run")
@click.argument("target", metavar="MODULE:APP")
@click.option("--paranoid", is_flag=True, help="Every object sleeps after each turn.")
@click.option("--listen", metavar="HOST:PORT", help="Take calls of other nodes there.  [$WAKEFUL_LISTEN]")
@click.option("--advertise", metavar="HOST:PORT", help="What others dial, if not that.  [$WAKEFUL_ADVERTISE]")
@click.option("--cluster", metavar="NAME", help="Nodes of other names are refused.  [$WAKEFUL_CLUSTER]")
@joining.options
@options.store_option
def run(
    target: str,
    paranoid: bool,
    listen: str | None,
    advertise: str | None,
    cluster: str | None,
    secret_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Run the App of `module:app` or `path.py:app` until SIGTERM or SIGINT.

    The first signal lets running turns finish and releases the store (exit code 0); a second one
    stops at once. If the module has `async def on_start(app)`, it is run once after the start.
    Nodes on one PostgreSQL database are a cluster: give each --listen, and all the same secret.
    """
    from wakeful.cli.loading import load
    from wakeful.cli.naming import own_classes
    from wakeful.cli.saying import Say, listen_to_logs
    from wakeful.cli.serving import serve
    from wakeful.runtime.node import Node

    sys.argv = [f"wakeful run {target}"]  # what the store tells others about its owner; the URL may hold a password
    say = Say(as_json=as_json)
    joined = _joined(url, listen, advertise, cluster, joining.pass_of(secret_file, tls_cert, tls_key, tls_ca))
    program = load(target)
    listen_to_logs(say)

    async def ready(node: Node) -> None:
        classes = ", ".join(own_classes(node.registry.names())) or "no classes"
        data = {"node": node.name, "pid": os.getpid(), "store": node.store.url, "address": node.address}
        where = f", {node.address.removeprefix('tcp:')}" if "listen" in joined else ""
        say.event("ready", f"{classes} on {node.store.url} (node {node.name}, pid {os.getpid()}{where})", **data)

    serve(program, url, say, paranoid=paranoid, ready=ready, joined=joined)
    say.event("stopped", "cleanly")


def _joined(
    url: str, listen: str | None, advertise: str | None, cluster: str | None, let_in: joining.Pass
) -> dict[str, Any]:
    """The options of `App.run` that make the node one of a cluster; none where they were not given."""
    from wakeful.store import open_url

    listen = listen or os.environ.get("WAKEFUL_LISTEN")
    advertise = advertise or os.environ.get("WAKEFUL_ADVERTISE")
    cluster = cluster or os.environ.get("WAKEFUL_CLUSTER")
    if advertise is not None and listen is None:
        raise CommandError(
            "--advertise says what others dial, so give --listen HOST:PORT too", code="address.listen", exit_code=USAGE
        )
    given: dict[str, Any] = {"listen": listen, "advertise": advertise, "cluster": cluster}
    if open_url(url).shared:
        given |= {"secret": let_in.secret, "tls": let_in.tls}
    return {name: value for name, value in given.items() if value is not None}
