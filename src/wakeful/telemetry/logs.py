"""Layer 5. What does a log line say beside its words: of which object, run, node and trace it is?

Read where the line is written, from the context of the code that writes it: nothing has to be handed around, and a
program's own lines have it too. Every code that Wakeful itself logs is in docs/telemetry.md.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import IO, Any

from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import BadOption
from wakeful.values.timers import run_id
from wakeful.values.trace import TRACE, trace_of_header

FORMS = ("text", "json")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def about(record: logging.LogRecord) -> dict[str, Any]:
    """Where the line belongs: code, object, run, node, trace; and what else it was given as `extra`."""
    fields: dict[str, Any] = {key: value for key, value in vars(record).items() if key not in _PLAIN and key[:1] != "_"}
    turn = CURRENT.get()
    if turn is not None:
        fields.setdefault("object", str(turn.activation.id))
        fields.setdefault("node", turn.activation.node.name)
        if turn.consumed is not None:
            told = turn.occurrence
            fields.setdefault("run", run_id(turn.consumed) if told is None else told.run_id)
            fields.setdefault("timer", turn.consumed.name)
    trace = trace_of_header(TRACE.get())
    if trace is not None:
        fields.setdefault("trace_id", trace[3:35])
        fields.setdefault("span_id", trace[36:52])
    return fields


class JsonLines(logging.Formatter):
    """One JSON document a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in about(record).items() if value is not None},
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": self.formatException(record.exc_info),
            }
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """A line for people: time, level, words, and then where it belongs."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        rest = " ".join(f"{key}={value}" for key, value in about(record).items() if value is not None)
        line = f"{at} {record.levelname:<7} {record.name}: {record.getMessage()}{'  ' + rest if rest else ''}"
        if record.exc_info and record.exc_info[1] is not None:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def install(form: str = "json", *, level: int = logging.INFO, stream: IO[str] | None = None) -> logging.Handler:
    """Write the process's log like that: warnings of everybody, and from that level on what objects and Wakeful say.

    The handler, for whoever wants to take it away again.
    """
    if form not in FORMS:
        raise BadOption(f"--log {form}: use {' or '.join(FORMS)}", code="log.form")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.addHandler(handler)
    if root.level == logging.NOTSET or root.level > logging.WARNING:
        root.setLevel(logging.WARNING)
    logging.getLogger("wakeful").setLevel(level)
    return handler


class Unclaimed(logging.StreamHandler[IO[str]]):
    """What objects and Wakeful say, while nobody else writes it; gone as soon as somebody does."""

    def emit(self, record: logging.LogRecord) -> None:
        ours = logging.getLogger("wakeful")
        if logging.getLogger().handlers or len(ours.handlers) > 1:
            ours.removeHandler(self)
            ours.setLevel(logging.NOTSET)  # whoever writes it from here on says which lines
            return
        super().emit(record)


def speak_up() -> None:
    """In a web application whose server has set up a log for itself only: lines with their time and object, on stderr.

    Python would write warnings as bare words, and not at all what objects say. Where the program has set up a log,
    for all or for "wakeful", that one is left to itself. `$WAKEFUL_LOG` says in which form.
    """
    ours = logging.getLogger("wakeful")
    if ours.level != logging.NOTSET or logging.getLogger("wakeful.object").hasHandlers():
        return
    handler = Unclaimed(sys.stderr)
    handler.setFormatter(JsonLines() if os.environ.get("WAKEFUL_LOG") == "json" else TextLines())
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
