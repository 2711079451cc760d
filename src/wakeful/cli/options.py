"""Layer 5. What do all commands have in common: which store, which form of output?"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from wakeful.cli import exit_codes, known_names
from wakeful.cli.settings import setting

F = TypeVar("F", bound=Callable[..., Any])

OPEN_S = 15.0  # until a store can be read, of commands that say what is wrong with it


def _default_store() -> str:
    from wakeful.system import default_store

    return default_store()


def _set_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    exit_codes.as_json = value
    return value


def _set_traceback(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    exit_codes.with_traceback = value


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with --json and --traceback."""

    def make(function: Any) -> click.Command:
        function = click.option(
            "--json", "as_json", is_flag=True, is_eager=True, callback=_set_json, help="JSON on stdout, nothing else."
        )(function)
        function = click.option(
            "--traceback",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_set_traceback,
            help="Say where an error comes from.",
        )(function)
        decorate: Callable[[Any], click.Command] = click.command(name, **settings)
        return decorate(function)

    return make


class ListingGroup(click.Group):
    """A group of commands that lists when none of them is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_bare = not args and not ctx.resilient_parsing  # a shell that completes asks for the subcommands
        if is_bare or (args and args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def store_option(function: F) -> F:
    """--store, with its default from the environment."""
    return setting(
        "--store",
        "url",
        env="WAKEFUL_STORE",
        metavar="URL",
        default=_default_store,
        help="sqlite:PATH, postgresql://… or s3://…  [default: $WAKEFUL_STORE or sqlite:wakeful.db]",
    )(function)


def limit_option(default: int) -> Callable[[F], F]:
    """-n, how many rows at most."""
    return click.option(
        "-n",
        "limit",
        type=click.IntRange(1, 100_000),
        default=default,
        show_default=True,
        metavar="N",
        help="At most N rows.",
    )


def app_option(text: str) -> Callable[[F], F]:
    """--app, the program that knows the classes."""
    return click.option("--app", "target", metavar="APP.PY", help=text, shell_complete=known_names.files)
