"""Layer 5. `wakeful dev`: run a program while it is being written."""

import os

import click

from wakeful.cli import completion_names, options, telemetry_setup
from wakeful.cli.settings import setting


@options.command("dev")
@click.argument("target", metavar="APP.PY", required=False, shell_complete=completion_names.files)
@click.option("--workers", metavar="DIR", help="Instead of APP.PY: a Worker of Cloudflare's, by its wrangler file.")
@setting(
    "--workers-http",
    env="WAKEFUL_WORKERS_HTTP",
    otherwise="127.0.0.1:8787",
    metavar="HOST:PORT",
    help="Where that answers.  [$WAKEFUL_WORKERS_HTTP, 127.0.0.1:8787]",
)
@setting(
    "--paranoid",
    env="WAKEFUL_PARANOID",
    is_flag=True,
    help="Every object sleeps after each turn: what relies on memory fails early.  [$WAKEFUL_PARANOID]",
)
@setting(
    "--http",
    env="WAKEFUL_HTTP",
    metavar="HOST:PORT|off",
    help="Where API and dashboard are.  [$WAKEFUL_HTTP, 127.0.0.1:7420 or a free port behind it]",
)
@telemetry_setup.options
@options.store_option
def dev(
    target: str | None,
    workers: str | None,
    workers_http: str | None,
    paranoid: bool,
    http: str | None,
    log_form: str | None,
    telemetry: str | None,
    url: str,
    as_json: bool,
) -> int:
    """Run the App of APP.PY, reload it when a file changes, and say what happens.

    The data stays over reloads. If the module has `async def on_start(app)`, it is run once after
    each start: seed there, in a way that may be repeated. With --workers it is the Durable Objects
    and the fetch of a Python Worker written for Cloudflare, unchanged: see docs/cloudflare.md.
    """
    from wakeful.cli.child import program_name
    from wakeful.cli.exit_codes import USAGE, CommandError
    from wakeful.cli.reloader import Supervisor
    from wakeful.cli.workers import HTTP, wrangler_file
    from wakeful.store import open_url
    from wakeful.system import default_store

    if (target is None) == (workers is None):
        raise CommandError("give APP.PY, or --workers DIR", code="app.file", exit_code=USAGE)
    if workers is not None:
        where = wrangler_file(workers)
        if workers_http is not None:
            os.environ[HTTP] = workers_http
    else:
        where = str(target).partition(":")[0]
    if workers is None and not where.endswith(".py"):
        raise CommandError(f"{where!r} is not a .py file; wakeful run takes modules", code="app.file", exit_code=USAGE)
    extra = ["--program", program_name()] + ["--name-store"] * (url != default_store())
    for option, value in (("--http", http), ("--log", log_form), ("--telemetry", telemetry)):
        extra += [option, value] if value is not None else []
    extra += ["--paranoid"] * paranoid + ["--json"] * as_json + ["--workers"] * (workers is not None)
    open_url(url)  # refused here, by the option that it came from: the child has it from its environment
    # Not as an argument, which every user of the machine could read: it may hold a password.
    os.environ["WAKEFUL_STORE"] = url
    return Supervisor(workers or str(target), where, extra, telemetry_setup.teller(log_form, as_json=as_json)).run()
