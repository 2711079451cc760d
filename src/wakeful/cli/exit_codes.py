"""Layer 5. How does an error end a command: in which words, and with which exit code?"""

import errno
import json
import os
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click

from wakeful.values.errors import (
    BadAddress,
    BadInput,
    BadUrl,
    ClusterError,
    Denied,
    MissingExtra,
    NoSecret,
    StoreError,
    TurnFailed,
    Unavailable,
    Undecodable,
    UnknownObject,
    UnknownParked,
    UnknownPoint,
    WakefulError,
    WrongCertificate,
)

OK = 0
FAILED = 1  # the operation was tried and did not succeed
USAGE = 2  # it could not be tried: wrong arguments, names or URL
UNAVAILABLE = 3  # store or node can't be reached or used
INTERRUPTED = 130

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

as_json = False  # by how the arguments look, and by --json as soon as it is read
with_traceback = False  # likewise, by --traceback
as_log = False  # the log is JSON, and so is what stands beside it


class CommandError(WakefulError):
    """An error of the command line itself, with the exit code that it means."""

    default_code = "command"

    def __init__(self, message: str, *, code: str, exit_code: int = FAILED) -> None:
        super().__init__(message, code=code)
        self.exit_code = exit_code


def exit_code_of(error: BaseException) -> int:
    """The promise of docs/cli.md: 1 failed, 2 wrong usage, 3 unavailable."""
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, WakefulError) and error.is_raised:
        return FAILED
    if isinstance(error, UnknownObject | UnknownParked | UnknownPoint | Undecodable):
        return FAILED
    if isinstance(
        error, click.UsageError | BadInput | Denied | BadUrl | MissingExtra | BadAddress | NoSecret | WrongCertificate
    ):
        return USAGE
    if isinstance(error, Unavailable | StoreError | ClusterError):
        return UNAVAILABLE
    return FAILED


def report(error: Exception) -> int:
    """Say it in one line (and as JSON, if that was wished); the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    message, code = _words(error)
    if as_json:
        about = {"type": type(error).__name__, "code": code, "message": message}
        if isinstance(error, TurnFailed):
            about |= {"remote_type": error.remote_type, "remote_traceback": error.remote_traceback}
        with suppress(OSError):  # it may be the output itself that failed: then stderr says it
            print(json_text({"error": about}), flush=True)
    trace = _trace(error)
    if with_traceback and trace:
        print(one_screen(trace), file=sys.stderr)
    elif isinstance(error, TurnFailed):
        message += "; --traceback shows where"
    if as_log:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = {"at": at, "level": "error", "logger": "wakeful.cli", "message": message, "code": code}
        print(json_text(record), file=sys.stderr)
        return exit_code_of(error)
    line = one_line(f"error: {message} [{code}]")
    if sys.stderr.isatty() and not is_plain():
        line = f"\033[31merror\033[0m{line.removeprefix('error')}"
    print(line, file=sys.stderr, flush=True)
    return exit_code_of(error)


def is_plain() -> bool:
    """No colours, and nothing else that only a terminal understands, is wished."""
    return "NO_COLOR" in os.environ


def one_line(text: str) -> str:
    """Text from anywhere, safe for a terminal and without line breaks."""
    return "".join(char if char.isprintable() else " " if char in "\n\t" else repr(char)[1:-1] for char in text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that says the same and is safe for a terminal: what can't be seen is written as \\u…."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def one_screen(text: str) -> str:
    """Text from anywhere, safe for a terminal, line breaks kept."""
    return "\n".join(one_line(line) for line in text.splitlines())


def _words(error: Exception) -> tuple[str, str]:
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "wakeful"
        said = error.format_message().rstrip(".")
        return f"{said}{' See' if said.endswith('?') else '; see'} {where} --help", "usage"
    if isinstance(error, click.ClickException):
        return error.format_message(), "command"
    if isinstance(error, WakefulError):
        return error.message, error.code
    if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
        return f"the output can't be written: {error.strerror}; what was written of it is not whole", "output"
    return f"{type(error).__name__}: {error}; this is a bug in Wakeful, --traceback shows where", "bug"


def _trace(error: Exception) -> str:
    if isinstance(error, TurnFailed):
        return error.remote_traceback
    return "".join(traceback.format_exception(error))
