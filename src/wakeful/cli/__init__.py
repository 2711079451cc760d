"""Layer 5. The command line: which command is meant, and how does its end become an exit code?

Commands are imported when they are named, so that `wakeful --help` does not wait for all of them.
"""

import importlib
import os
import sys
from collections.abc import Sequence

import click

# name: (module, one line for the list)
_COMMANDS = {
    "dev": ("dev", "Run a program while you write it: reload on change, friendly log."),
    "run": ("run", "Run a program until it is told to stop."),
    "call": ("call", "Call a method of an object."),
    "ls": ("ls", "List objects, without waking them."),
    "show": ("show", "Show one object: state, keys, timers, ledger; doesn't wake it."),
    "chart": ("pictures", "Draw the chart of a Machine as SVG."),
    "due": ("due", "What fires next."),
    "schedules": ("schedules", "List an object's schedules, without waking it."),
    "why": ("why", "Why a schedule ran or did not: its verdicts, newest first."),
    "cron": ("cron", "Say what a cron expression or phrase means, and when it is next."),
    "pause": ("operating", "Let no occurrence of a schedule run for a while."),
    "resume": ("operating", "Let a paused schedule run again."),
    "fire": ("operating", "Run a schedule now, beside its own times."),
    "backfill": ("backfill", "Run a schedule's occurrences of a stretch of time, or list them."),
    "jobs": ("jobs", "List, show and cancel jobs."),
    "parked": ("parked", "What failed for good and waits for a person."),
    "redrive": ("redrive", "Set parked timers due again."),
    "nodes": ("nodes", "Who runs the store: state, address, shards, load."),
    "drain": ("drain", "Let a node own nothing, so that it can be stopped at leisure."),
    "move": ("move", "Copy everything from one store into another, empty one."),
    "import": ("importing", "Bring in machines from XState or actor-kit."),
    "doctor": ("doctor", "Is everything well? Each finding with its remedy."),
    "schema": ("schema", "The tables of a store, and their version."),
    "migrate": ("schema", "Bring a store's tables up to date."),
}
_HIDDEN = {"_child": "child"}


class _Commands(click.Group):
    """Finds commands by name in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS[cmd_name][0] if cmd_name in _COMMANDS else _HIDDEN.get(cmd_name)
        if module is None:
            return None
        attribute = "import_" if cmd_name == "import" else cmd_name.strip("_")  # a word that Python keeps for itself
        found: click.Command = getattr(importlib.import_module(f"wakeful.cli.{module}"), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from wakeful import __version__

        click.echo(f"wakeful {__version__}")
        ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="The store is --store URL, else $WAKEFUL_STORE, else sqlite:wakeful.db. Every command takes --json.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show it.")
def cli() -> None:
    """Durable objects that sleep on disk, wake when called or due, and never lose or double what they owe."""


def run(args: Sequence[str]) -> int:
    """Run one command; its exit code. Errors are one line on stderr."""
    from wakeful.cli import failing

    failing.as_json = failing.with_traceback = False
    try:
        code = cli.main(args=list(args), prog_name="wakeful", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else failing.OK
    except BrokenPipeError:
        # `wakeful ls | head`: whoever read has enough. Python must not try to flush again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failing.OK
    except (click.Abort, KeyboardInterrupt):
        return failing.INTERRUPTED
    except Exception as error:
        return failing.report(error)


def main() -> None:
    """The `wakeful` command."""
    sys.exit(run(sys.argv[1:]))
