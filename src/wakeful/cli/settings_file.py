"""Layer 5. What does `wakeful.toml`, or `[tool.wakeful]` of `pyproject.toml`, say about the options of a program?

What the file says goes where the environment says nothing, so whoever reads the environment, in this process or one that
it starts, reads the file as well.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from wakeful.cli.dev import dev
from wakeful.cli.known_names import meant
from wakeful.cli.run_command import run
from wakeful.cli.settings import Setting, applied, holds_secret, origins, refusal
from wakeful.system import KEYS, KEYS_FILE, WEBHOOK, WEBHOOK_FILE

FILE, PROJECT, TABLE = "wakeful.toml", "pyproject.toml", "tool.wakeful"
CONFIG = "WAKEFUL_CONFIG"  # the file, if it is another
BYTES_MAX = 1 << 20


class SettingsFile(NamedTuple):
    """What a file says."""

    path: str
    values: dict[str, Any]
    lines: dict[str, int]

    def place(self, key: str) -> str:
        return f"{self.path}:{self.lines[key]}" if key in self.lines else self.path


NO_OPTIONS = frozenset({"keys", "keys-file", "webhook-secret", "webhook-secret-file"})  # never on a command line


def settings() -> dict[str, Setting]:
    """All of them by their names in the file: those of `run` and `dev`, and those that no command takes."""
    options = {one.key: one for command in (run, dev) for one in command.params if isinstance(one, Setting)}
    options["keys"] = Setting(["--keys"], env=KEYS, rival=KEYS_FILE, is_secret=True, metavar="KEYS")
    options["keys-file"] = Setting(["--keys-file"], env=KEYS_FILE, rival=KEYS, metavar="FILE")
    options["webhook-secret"] = Setting(
        ["--webhook-secret"], env=WEBHOOK, rival=WEBHOOK_FILE, is_secret=True, metavar="SECRETS"
    )
    options["webhook-secret-file"] = Setting(["--webhook-secret-file"], env=WEBHOOK_FILE, rival=WEBHOOK, metavar="FILE")
    return options


@contextmanager
def applying() -> Iterator[None]:
    """Let the file of this folder count, below the environment, while the block lasts."""
    origins.clear()
    file = read()
    if file is None:
        yield
        return
    known = settings()
    _check(file, known)
    given = {one.env for one in known.values() if os.environ.get(one.env)}
    before: dict[str, str | None] = {}
    for key, value in file.values.items():
        one = known[key]
        if one.env not in given and one.rival not in given:
            before[one.env] = os.environ.get(one.env)
            os.environ[one.env] = str(int(value)) if isinstance(value, int) else value
            origins[one.env] = file.place(key)
    applied.update(before)
    try:
        yield
    finally:
        applied.clear()
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def read() -> SettingsFile | None:
    """The file that counts here, if there is one: `$WAKEFUL_CONFIG`, else of this folder."""
    named = os.environ.get(CONFIG)
    if named:
        table = TABLE if Path(named).name == PROJECT else ""
        return _parse(named, _text(named), table)
    own, project = Path(FILE).exists(), _text(PROJECT) if Path(PROJECT).is_file() else ""
    # Most have one, and few of them say anything about this.
    says = _parse(PROJECT, project, TABLE) if re.search(r"^\s*\[\s*tool\s*\.\s*wakeful\b", project, re.M) else None
    if own and says is not None:
        raise refusal("config.two", f"{FILE} and [{TABLE}] of {PROJECT} are both here; keep one of them")
    return _parse(FILE, _text(FILE), "") if own else says


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        because = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise refusal("config.file", f"{path} can't be read: {because}") from None
    if len(text) > BYTES_MAX:
        raise refusal("config.file", f"{path} has more than {BYTES_MAX:,} characters, so it is something else")
    return text


def _parse(path: str, text: str, table: str) -> SettingsFile:
    import tomllib

    try:
        content: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refusal("config.toml", f"{path} is no TOML: {error}") from None
    except RecursionError:
        raise refusal("config.toml", f"{path} is nested too deeply") from None
    for part in table.split(".") if table else ():
        content = content.get(part, {}) if isinstance(content, dict) else {}
    if not isinstance(content, dict):
        raise refusal("config.toml", f"{path}: {table} must be a table: [{table}]")
    return SettingsFile(path, content, _lines(text, table))


def _lines(text: str, table: str) -> dict[str, int]:
    """In which line each key of the table begins, as far as it can be seen without parsing it all again."""
    lines: dict[str, int] = {}
    here = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[+\s*([^\]#]*?)\s*\]", line):
            here = re.sub(r"[\s\"']", "", head[1])
            if here.startswith(f"{table}." if table else ""):
                lines.setdefault(here.removeprefix(f"{table}.").split(".")[0], number)
        elif here == table and (key := re.match(r"\s*[\"']?([\w-]+)[\"']?\s*[=.]", line)):
            lines.setdefault(key[1], number)
    return lines


def _check(file: SettingsFile, known: dict[str, Setting]) -> None:
    for key, value in file.values.items():
        where = file.place(key)
        if key not in known:
            words = f"{where}: there is no option {key!r}{meant(key, known)} There are {', '.join(sorted(known))}"
            raise refusal("config.key", words.replace("' There", "'; there"))
        one = known[key]
        if not one.takes(value):
            is_hidden = one.is_secret or one.key == "store"
            shown = f"a {type(value).__name__}" if is_hidden else repr(value)[:100]
            raise refusal("config.type", f"{where}: {key} must be {one.wants}, not {shown}")
        rival = next((other for other in known.values() if other.env == one.rival), None)
        if rival is not None and rival.key in file.values:
            raise refusal("config.both", f"{where}: {key} and {rival.key} say the same; keep one of them")
    secret = [key for key, value in file.values.items() if holds_secret(known[key], value)]
    if secret and os.stat(file.path).st_mode & stat.S_IROTH:
        raise refusal(
            "config.secret",
            f"{file.place(secret[0])}: {secret[0]} has a secret, and every user of this machine can read {file.path}; "
            f"chmod 600 {file.path}, or put it in a file of its own or in ${known[secret[0]].env}",
        )
