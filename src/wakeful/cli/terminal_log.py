"""Layer 5. What does a running program tell its terminal, one line per thing that happened, and those who watch over it?"""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wakeful.cli import exit_codes
from wakeful.cli.exit_codes import CommandError, json_text, one_line, one_screen
from wakeful.cli.output import iso, now_ms
from wakeful.cli.settings import setting

if TYPE_CHECKING:
    from wakeful.app import App


_COLOURS = {
    "ran": 32,
    "failed": 33,
    "parked": 31,
    "skipped": 33,
    "too_late": 33,
    "overlap": 33,
    "redriven": 36,
    "dropped": 36,
    "error": 31,
    "warning": 33,
    "ready": 32,
    "reload": 36,
}


class Say:
    """Lines on stdout: for people, or one JSON document each."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.speaker: dict[str, Any] = {}  # of several processes on one terminal: which, and as which node
        self._is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def event(self, kind: str, text: str, **data: Any) -> None:
        """One thing that happened, with its time."""
        if self.as_json:
            self._write(json_text({"at": iso(now_ms()), "event": kind, "text": text, **self.speaker, **data}))
            return
        colour = _COLOURS.get(kind)
        word = f"{kind:<8}"
        if self._is_coloured:
            word = f"\033[{colour}m{word}\033[0m" if colour else f"\033[2m{word}\033[0m"
        who = f"[{' '.join(map(str, self.speaker.values()))}]  " if self.speaker else ""
        self._write(f"{datetime.now():%H:%M:%S}  {who}{word}  {one_line(text)}")

    @staticmethod
    def _write(line: str) -> None:
        """In one piece: other processes write to the same place."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def lines(self, text: str) -> None:
        """Help and tracebacks: for people only."""
        if not self.as_json:
            print(one_screen(text), flush=True)


class LogLines(logging.Handler):
    """Log records as such lines; what the teller says in better words is left to it."""

    def __init__(self, say: Say, *, hushed: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._say = say
        self._hushed = hushed

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "code", None) in self._hushed:
            return
        who = getattr(record, "object", None)
        text = record.getMessage()
        data = {"logger": record.name, "code": getattr(record, "code", None), "object": who}
        self._say.event(record.levelname.lower(), f"{who}: {text}" if who else text, **data)
        if record.exc_info and record.exc_info[1]:
            self._say.lines("".join(traceback.format_exception(record.exc_info[1])))


def listen_to_logs(say: Say, *, hushed: frozenset[str] = frozenset()) -> None:
    """Warnings from everywhere, and what objects say through `ctx.log`, as lines."""
    root = logging.getLogger()
    root.addHandler(LogLines(say, hushed=hushed))
    root.setLevel(logging.WARNING)
    logging.getLogger("wakeful.object").setLevel(logging.INFO)


# How does a program that runs tell those who watch over it?

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
    is_logged = _choose(log_form, "WAKEFUL_LOG", LOGS) == "json"
    exit_codes.as_log = is_logged
    return Say(as_json=as_json or is_logged)


@contextmanager
def observing(
    app: "App", say: Say, log_form: str | None, telemetry: str | None, *, hushed: frozenset[str] = frozenset()
) -> Iterator[None]:
    """Log and send like that for as long as the block lasts; what is left is sent at its end.

    Lines for people leave out the codes that are `hushed`: somebody else says them.
    """
    if _choose(log_form, "WAKEFUL_LOG", LOGS) == "json":
        from wakeful.telemetry.logs import install

        install("json")
    else:
        listen_to_logs(say, hushed=hushed)
    if _choose(telemetry, "WAKEFUL_TELEMETRY", TELEMETRY) == "off":
        yield
        return
    from wakeful.telemetry import setup

    begun = setup(app)
    try:
        yield
    finally:
        begun.close()


def _choose(option: str | None, variable: str, known: tuple[str, ...]) -> str:
    """What was asked for, by option or environment; else the first."""
    chosen = option or os.environ.get(variable) or known[0]
    if chosen not in known:
        raise CommandError(f"${variable} is {chosen!r}; use {' or '.join(known)}", code="option.choice")
    return chosen
