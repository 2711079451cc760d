"""Layer 5. `wakeful run`: a program in earnest, alone or as one node of a cluster."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import cluster_access, known_names, options, terminal_log
from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.settings import setting

if TYPE_CHECKING:
    from wakeful.cli.processes import Assignment
    from wakeful.cli.program import Ready
    from wakeful.cli.terminal_log import Say
    from wakeful.cli.web import Http
    from wakeful.runtime.node import Node


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
@setting(
    "--processes",
    env="WAKEFUL_PROCESSES",
    metavar="N|auto",
    otherwise="1",
    help="So many nodes, one HTTP port; auto: one a core. PostgreSQL only.  [$WAKEFUL_PROCESSES, 1]",
)
@click.option("--under", hidden=True)
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
    processes: str | None,
    under: str | None,
    secret_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    log_form: str | None,
    telemetry: str | None,
    url: str,
    as_json: bool,
) -> int | None:
    """Run the App of `module:app` or `path.py:app` until SIGTERM or SIGINT.

    The first signal lets running turns finish and releases the store (exit code 0); a second one
    stops at once. If the module has `async def on_start(app)`, it is run once after the start.
    Nodes on one PostgreSQL database are a cluster: give each --listen, and all the same secret.
    With --processes they are started and kept here; SIGHUP replaces them one by one, with the code as it is then.
    """
    from wakeful.cli.app_loader import load
    from wakeful.cli.processes import Assignment, count_of
    from wakeful.cli.program import serve
    from wakeful.cli.web import wish_of

    place = None if under is None else Assignment.read(under)
    command, words = sys.argv[1:], "" if place is None else place.words
    sys.argv = [
        f"wakeful run {target}{words}"
    ]  # what the store tells others about its owner; the URL may hold a password
    say = terminal_log.teller(log_form, as_json=as_json)
    if place is not None:
        say.speaker = {"process": place.number}
        listen, advertise = place.shift(listen), place.shift(advertise)
    joined = cluster_access.join_options(
        url, listen, advertise, cluster, cluster_access.pass_of(secret_file, tls_cert, tls_key, tls_ca), lease=lease
    )
    wish = wish_of(http, cert=http_cert, key=http_key)
    asked = processes or os.environ.get("WAKEFUL_PROCESSES") or None
    if place is None and ((count := count_of(asked)) > 1 or asked == "auto"):
        return _supervise(command, count, url, wish, say)
    program = load(target)
    if wish is not None and place is not None:
        wish = wish._replace(listener=place.http)

    with terminal_log.observing(program.app, say, log_form, telemetry):
        serve(
            program,
            url,
            say,
            paranoid=paranoid,
            ready=_ready(say, place, is_listening="listen" in joined),
            lifeline=None if place is None else place.lifeline,
            joined=joined,
            http=wish,
        )
    node = program.app.deployment.latest
    is_clean = node is None or all(home.has_left for home in node.all_homes)
    words = "cleanly" if is_clean else "the store could not be told, which harms nothing"
    say.event("stopped", words)
    return None


def _ready(say: "Say", place: "Assignment | None", *, is_listening: bool) -> "Ready":
    """What is said when the node is there, and to the parent too if it has one."""
    from wakeful.views.timer_names import own_classes

    async def ready(node: "Node", seen: str | None) -> None:
        classes = ", ".join(own_classes(node.registry.names())) or "no classes"
        data: dict[str, Any] = {"node": node.name, "pid": os.getpid(), "store": node.store.url, "address": node.address}
        data |= {"http": seen} if seen is not None else {}
        where = f", {node.address.removeprefix('tcp:')}" if is_listening else ""
        where += f", {seen}" if seen is not None else ""
        if place is not None:
            say.speaker["node"] = node.name
            place.say_ready(node.name)
        say.event("ready", f"{classes} on {node.store.url} (node {node.name}, pid {os.getpid()}{where})", **data)

    return ready


def _supervise(command: list[str], count: int, url: str, http: "Http | None", say: "Say") -> int:
    """Be the parent of so many of them; the exit code."""
    from wakeful.cli.supervisor import ProcessSupervisor
    from wakeful.cli.web import listen
    from wakeful.store import open_url

    store = open_url(url)
    if not store.shared:
        raise CommandError(
            f"{store.url} belongs to one process, so --processes {count} needs another store: --store postgresql://…, or leave "
            "--processes out (wakeful move takes what is there along)",
            code="processes.store",
            exit_code=USAGE,
        )
    return ProcessSupervisor([sys.executable, "-P", "-m", "wakeful.cli", *command], count, listen(http, say), say).run()
