"""Layer 5. `wakeful run`: a program in earnest, alone or as one node of a cluster."""

import os
import sys
from typing import Any

import click

from wakeful.cli import cluster_access, known_names, options, terminal_log
from wakeful.cli.settings import setting


@options.command("run")
@click.argument("target", metavar="MODULE:APP", shell_complete=known_names.files)
@setting(
    "--paranoid", env="WAKEFUL_PARANOID", is_flag=True, help="Every object sleeps after each turn.  [$WAKEFUL_PARANOID]"
)
@setting(
    "--listen", env="WAKEFUL_LISTEN", metavar="HOST:PORT", help="Take calls of other nodes there.  [$WAKEFUL_LISTEN]"
)
@setting(
    "--advertise",
    env="WAKEFUL_ADVERTISE",
    metavar="HOST:PORT",
    help="What others dial, if not that.  [$WAKEFUL_ADVERTISE]",
)
@setting(
    "--cluster", env="WAKEFUL_CLUSTER", metavar="NAME", help="Nodes of other names are refused.  [$WAKEFUL_CLUSTER]"
)
@setting(
    "--lease",
    env="WAKEFUL_LEASE",
    metavar="LENGTH",
    otherwise="5s",
    help="2s to 60s, the same on all nodes.  [$WAKEFUL_LEASE, 5s]",
)
@setting("--http", env="WAKEFUL_HTTP", metavar="HOST:PORT", help="Serve API and dashboard there.  [$WAKEFUL_HTTP]")
@setting(
    "--http-cert",
    env="WAKEFUL_HTTP_CERT",
    metavar="FILE",
    help="By HTTPS, with this certificate.  [$WAKEFUL_HTTP_CERT]",
)
@setting("--http-key", env="WAKEFUL_HTTP_KEY", metavar="FILE", help="The key of that certificate.  [$WAKEFUL_HTTP_KEY]")
@cluster_access.options
@terminal_log.options
@options.store_option
def run(
    target: str,
    paranoid: bool,
    listen: str | None,
    advertise: str | None,
    cluster: str | None,
    lease: str | None,
    http: str | None,
    http_cert: str | None,
    http_key: str | None,
    secret_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    log_form: str | None,
    telemetry: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Run the App of `module:app` or `path.py:app` until SIGTERM or SIGINT.

    The first signal lets running turns finish and releases the store (exit code 0); a second one
    stops at once. If the module has `async def on_start(app)`, it is run once after the start.
    Nodes on one PostgreSQL database are a cluster: give each --listen, and all the same secret.
    """
    from wakeful.cli.app_loader import load
    from wakeful.cli.program import serve
    from wakeful.cli.web import wish_of
    from wakeful.runtime.node import Node
    from wakeful.views.timer_names import own_classes

    sys.argv = [f"wakeful run {target}"]  # what the store tells others about its owner; the URL may hold a password
    say = terminal_log.teller(log_form, as_json=as_json)
    joined = cluster_access.join_options(
        url, listen, advertise, cluster, cluster_access.pass_of(secret_file, tls_cert, tls_key, tls_ca), lease=lease
    )
    program = load(target)

    wish = wish_of(http, cert=http_cert, key=http_key)

    async def ready(node: Node, seen: str | None) -> None:
        classes = ", ".join(own_classes(node.registry.names())) or "no classes"
        data: dict[str, Any] = {"node": node.name, "pid": os.getpid(), "store": node.store.url, "address": node.address}
        data |= {"http": seen} if seen is not None else {}
        where = f", {node.address.removeprefix('tcp:')}" if "listen" in joined else ""
        where += f", {seen}" if seen is not None else ""
        say.event("ready", f"{classes} on {node.store.url} (node {node.name}, pid {os.getpid()}{where})", **data)

    with terminal_log.observing(program.app, say, log_form, telemetry):
        serve(program, url, say, paranoid=paranoid, ready=ready, joined=joined, http=wish)
    node = program.app.deployment.latest
    is_clean = node is None or all(home.has_left for home in node.all_homes)
    words = "cleanly" if is_clean else "the store could not be told, which harms nothing"
    say.event("stopped", words)
