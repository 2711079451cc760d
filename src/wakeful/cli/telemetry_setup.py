"""Layer 5. How does a program that runs tell those who watch over it?"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wakeful.cli import exit_codes
from wakeful.cli.exit_codes import CommandError
from wakeful.cli.settings import setting
from wakeful.cli.terminal_log import Say, listen_to_logs

if TYPE_CHECKING:
    from wakeful.app import App

F = TypeVar("F", bound=Callable[..., Any])
LOGS, TELEMETRY = ("text", "json"), ("off", "otlp")


def options(function: F) -> F:
    """--log and --telemetry."""
    function = setting(
        "--telemetry",
        env="WAKEFUL_TELEMETRY",
        type=click.Choice(TELEMETRY),
        help="Send metrics and traces; OTEL_… say where to.  [$WAKEFUL_TELEMETRY]",
    )(function)
    return setting(
        "--log",
        "log_form",
        env="WAKEFUL_LOG",
        type=click.Choice(LOGS),
        help="How log lines look; json goes to stderr.  [$WAKEFUL_LOG]",
    )(function)


def teller(log_form: str | None, *, as_json: bool) -> Say:
    """Who says what happens: in JSON as well when the log is, because one collector reads both."""
    is_logged = _chosen(log_form, "WAKEFUL_LOG", LOGS) == "json"
    exit_codes.as_log = is_logged
    return Say(as_json=as_json or is_logged)


@contextmanager
def observed(
    app: "App", say: Say, log_form: str | None, telemetry: str | None, *, hushed: frozenset[str] = frozenset()
) -> Iterator[None]:
    """Log and send like that for as long as the block lasts; what is left is sent at its end.

    Lines for people leave out the codes that are `hushed`: somebody else says them.
    """
    if _chosen(log_form, "WAKEFUL_LOG", LOGS) == "json":
        from wakeful.telemetry.logs import install

        install("json")
    else:
        listen_to_logs(say, hushed=hushed)
    if _chosen(telemetry, "WAKEFUL_TELEMETRY", TELEMETRY) == "off":
        yield
        return
    from wakeful.telemetry import setup

    begun = setup(app)
    try:
        yield
    finally:
        begun.close()


def _chosen(option: str | None, variable: str, known: tuple[str, ...]) -> str:
    """What was asked for, by option or environment; else the first."""
    chosen = option or os.environ.get(variable) or known[0]
    if chosen not in known:
        raise CommandError(f"${variable} is {chosen!r}; use {' or '.join(known)}", code="option.choice")
    return chosen
