"""Layer 5. The command line: which command is meant, and how does its end become an exit code?

Commands are imported when they are named, so that `wakeful --help` does not wait for all of them.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import click

from wakeful.cli.known_names import COMPLETE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# theme: name: (module, one line for the list)
_THEMES = {
    "Write and run": {
        "init": ("init", "Write a small working project into a folder."),
        "dev": ("dev", "Run a program while you write it: reload on change, dashboard, friendly log."),
        "run": ("run_command", "Run a program until it is told to stop."),
        "config": ("config", "Say with which options a program would run, and where each came from."),
        "call": ("call", "Call a method of an object."),
        "stubs": ("stubs", "Write what type checkers are to know of the objects of a blocking client."),
    },
    "Look (nothing of it wakes an object)": {
        "ls": ("ls", "List objects."),
        "show": ("show", "Show one object: state, keys, timers, ledger."),
        "sql": ("sql", "Look into the database of an object, with SQL or without."),
        "history": ("history", "The points in time that an object can go back to."),
        "due": ("due", "What fires next."),
        "schedules": ("schedules", "List schedules: of an object, a class, or all."),
        "why": ("why", "Why a schedule ran or did not: its verdicts, newest first."),
        "jobs": ("jobs", "List, show and cancel jobs."),
        "workflow": (
            "workflows",
            "List workflows, show one and its steps; start, send, pause, cancel, retry and fork one.",
        ),
        "queues": ("queues", "What waits and runs in which queue; pausing one."),
        "parked": ("parked", "What failed for good and waits for a person."),
        "calls": ("calls", "What is under way, since when, waiting for what; and cancelling it."),
        "nodes": ("nodes", "Who runs the store: state, address, shards, load."),
        "doctor": ("doctor", "Is everything well? Each finding with its remedy."),
        "search": ("search", "Find anything by its name."),
        "cron": ("cron", "Say what a cron expression or phrase means, and when it is next."),
        "chart": ("pictures", "Draw the chart of a Machine as SVG."),
    },
    "Operate (each leaves an audit row)": {
        "pause": ("schedules", "Let no occurrence of a schedule run for a while."),
        "resume": ("schedules", "Let a paused schedule run again."),
        "fire": ("schedules", "Run a schedule now, beside its own times."),
        "cancel": ("schedules", "End a schedule: it runs no more."),
        "backfill": ("backfill", "Run a schedule's occurrences of a stretch of time, or list them."),
        "redrive": ("parked", "Set parked timers due again."),
        "restore": ("history", "Have an object be as it was."),
        "reset": ("reset", "Have a machine that is over begin anew."),
        "forget": ("forget", "Forget an object, or a whole tenant: everything of it goes for good."),
        "webhooks": ("webhooks", "Who is told of what happens; send one a test."),
        "drain": ("drain", "Let a node own nothing, so that it can be stopped at leisure."),
    },
    "Data": {
        "export": ("export", "Write one object with all that it owes into a file."),
        "import": (
            "imports",
            "Bring in an exported object, machines of XState or actor-kit, or schedules of APScheduler or Celery.",
        ),
        "move": ("stores", "Copy everything from one store into another, empty one."),
        "rebalance": ("rebalance", "Deal a class evenly over its servers, while it runs."),
        "schema": ("stores", "The tables of a store, and their version."),
        "migrate": ("stores", "Bring a store's tables up to date."),
    },
    "Security": {
        "tokens": ("tokens", "Make, list and revoke what the server asks for."),
        "audit": ("audit", "Who did what, and who was refused."),
        "keys": ("keys", "Seal values at rest, and change the key."),
    },
    "Shell": {
        "completion": ("completion", "Print what makes your shell complete commands and names."),
    },
}
_COMMANDS = {name: about for theme in _THEMES.values() for name, about in theme.items()}
_HIDDEN = {"_child": "dev"}
_HELP = frozenset({"-h", "--help", "--version"})
_LOGGING = frozenset({"run", "dev"})
_BEFORE = frozenset({"init", "completion"})  # what is wrong in the folder is no concern of theirs


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from wakeful.cli.known_names import meant

        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"there is no command {args[0]!r}{meant(args[0], _COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """By the table: a TAB does not wait for all commands to be imported either."""
        from click.shell_completion import CompletionItem

        named = [(name, line) for name, (_, line) in _COMMANDS.items() if name.startswith(incomplete)]
        found = [CompletionItem(name, help=line) for name, line in named]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _COMMANDS))
        for theme, commands in _THEMES.items():
            with formatter.section(theme):
                formatter.write_dl([(name.ljust(widest), line) for name, (_, line) in commands.items()])


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from wakeful import __version__
        from wakeful.values.compilation import compilation_words

        click.echo(f"wakeful {__version__}, {compilation_words()}")
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
    from wakeful.cli import exit_codes

    # What is wrong with the arguments may be found before these two are read; once they are read, that holds.
    wishes = list(takewhile(lambda arg: arg != "--", args))
    exit_codes.as_json, exit_codes.with_traceback = "--json" in wishes, "--traceback" in wishes
    exit_codes.as_log = _is_logging_json(wishes)
    if COMPLETE in os.environ:  # a shell asks what could stand here
        from wakeful.cli.completion import answer

        return answer(cli, os.environ[COMPLETE])
    stdout = sys.stdout
    try:
        with _settings_applied(wishes):
            exit_codes.as_log = _is_logging_json(wishes)  # the file may say so
            code = cli.main(args=list(args), prog_name="wakeful", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.OK
    except BrokenPipeError:
        return _enough()
    except SystemExit as error:
        # How rich and click end when nobody reads any more; click wraps stdout then.
        if not isinstance(error.__context__, BrokenPipeError) and sys.stdout is stdout:
            raise
        sys.stdout = stdout
        return _enough()
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except Exception as error:
        return exit_codes.report(error)


def _is_logging_json(wishes: list[str]) -> bool:
    """One collector reads what the program logs, and so what it says before it begins."""
    if not wishes or wishes[0] not in _LOGGING:
        return False
    given = [after for name, after in pairwise(wishes) if name == "--log"]
    given += [wish.removeprefix("--log=") for wish in wishes if wish.startswith("--log=")]
    return (given[-1] if given else os.environ.get("WAKEFUL_LOG")) == "json"


def _settings_applied(wishes: list[str]) -> AbstractContextManager[None]:
    """What wakeful.toml says counts; who only asks for help is helped also where that is wrong."""
    from wakeful.cli.settings_file import applying

    is_asking = not wishes or wishes[0] in _BEFORE or not _HELP.isdisjoint(wishes)
    return nullcontext() if is_asking else applying()


def _enough() -> int:
    """`wakeful ls | head`: whoever read has enough. Python must not try to flush again at exit."""
    from wakeful.cli import exit_codes

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_codes.OK


def main() -> None:
    """The `wakeful` command."""
    _fill_streams()
    terms = _hear_term()
    code = run(sys.argv[1:])
    sys.exit(128 + signal.SIGTERM if terms and code == 128 + signal.SIGINT else code)


def _fill_streams() -> None:
    """`wakeful ls >&-`: nobody reads. What is closed leads nowhere then, for the next file that is opened would be in its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def _hear_term() -> list[int]:
    """Have SIGTERM do what Ctrl-C does; grows when it comes.

    A program that a command runs with --app must be stopped, not cut off: its running timers would count it as a crash.
    """
    terms: list[int] = []

    def hear(number: int, frame: object) -> None:
        terms.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, hear)
    return terms
