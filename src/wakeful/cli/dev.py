"""Layer 5. `wakeful dev`: run a program while it is being written."""

import os

import click

from wakeful.cli import options


@options.command("dev")
@click.argument("target", metavar="APP.PY")
@click.option(
    "--paranoid", is_flag=True, help="Every object sleeps after each turn: what relies on memory fails early."
)
@options.store_option
def dev(target: str, paranoid: bool, url: str, as_json: bool) -> int:
    """Run the App of APP.PY, reload it when a file changes, and say what happens.

    The data stays over reloads. If the module has `async def on_start(app)`, it is run once after
    each start: seed there, in a way that may be repeated.
    """
    from wakeful.cli.child import program_name
    from wakeful.cli.failing import USAGE, CommandError
    from wakeful.cli.saying import Say
    from wakeful.cli.watching import Supervisor

    where = target.partition(":")[0]
    if not where.endswith(".py"):
        raise CommandError(f"{where!r} is not a .py file; wakeful run takes modules", code="app.file", exit_code=USAGE)
    extra = ["--program", program_name()] + ["--name-store"] * (url != options.default_store())
    extra += ["--paranoid"] * paranoid + ["--json"] * as_json
    # Not as an argument, which every user of the machine could read: it may hold a password.
    os.environ["WAKEFUL_STORE"] = url
    return Supervisor(target, where, extra, Say(as_json=as_json)).run()
