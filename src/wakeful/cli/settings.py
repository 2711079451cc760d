"""Layer 5. Which options does a program run with, and where did each come from: command line, environment, file, default?

An option says where it is declared what it is called in the environment; in `wakeful.toml`, or under `[tool.wakeful]` of
`pyproject.toml`, it has its own name without the dashes. What the file says goes where the environment says nothing, so
whoever reads the environment, in this process or one that it starts, reads the file as well.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.suggestions import meant

FILE, PROJECT, TABLE = "wakeful.toml", "pyproject.toml", "tool.wakeful"
CONFIG = "WAKEFUL_CONFIG"  # the file, if it is another
BYTES_MAX = 1 << 20
_PASSWORD = re.compile(r"(?i)(\w*passw\w*\s*=\s*)[^&\s]+")

F = TypeVar("F", bound=Callable[..., Any])

COMMAND_LINE = ParameterSource.COMMANDLINE

origins: dict[str, str] = {}  # of variables that a file has set: the file and the line


class Setting(click.Option):
    """An option that has a name in the environment, and so in the file."""

    def __init__(
        self,
        *args: Any,
        env: str,
        is_secret: bool = False,
        rival: str = "",
        otherwise: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`rival` is the variable that says the same in another way: of the two the environment's goes first.

        `otherwise` is what holds where nothing is said, if that is one thing.
        """
        super().__init__(*args, **kwargs)
        self.env = env
        self.is_secret = is_secret
        self.rival = rival
        self.otherwise = otherwise
        if self.is_flag:
            self.envvar = env

    @property
    def key(self) -> str:
        """Its name in the file."""
        return next(name for name in self.opts if name.startswith("--")).removeprefix("--")

    @property
    def wants(self) -> str:
        """What may stand there, in words."""
        if self.is_flag:
            return "true or false"
        if isinstance(self.type, click.Choice):
            return " or ".join(f'"{choice}"' for choice in self.type.choices)
        return f'a text in quotes ("{self.metavar}")' if self.metavar else "a text in quotes"

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """As click does; what comes from outside the command line is looked at here, where the variable is known."""
        text = os.environ.get(self.env)
        if text and not ctx.resilient_parsing and ctx.get_parameter_source(self.name or "") is not COMMAND_LINE:
            wrong = problem(self, text)
            if wrong:
                shown = "…" if self.is_secret else repr(masked(self, text))
                raise _wrong("config.value", f"{origins.get(self.env, f'${self.env}')} is {shown}: {wrong}")
        return super().process_value(ctx, value)

    def takes(self, value: object) -> bool:
        if self.is_flag:
            return isinstance(value, bool)
        return isinstance(value, str) and (not isinstance(self.type, click.Choice) or value in self.type.choices)


def setting(*names: str, **about: Any) -> Callable[[F], F]:
    """`click.option` for one that has a name in the environment too."""
    return click.option(*names, cls=Setting, **about)


class SettingsFile(NamedTuple):
    """What a file says."""

    path: str
    values: dict[str, Any]
    lines: dict[str, int]

    def place(self, key: str) -> str:
        return f"{self.path}:{self.lines[key]}" if key in self.lines else self.path


def settings() -> dict[str, Setting]:
    """All of them by their names in the file: those of `run` and `dev`, and the keys, which no command takes."""
    from wakeful.cli.dev import dev
    from wakeful.cli.run_command import run
    from wakeful.system import KEYS, KEYS_FILE

    found = {one.key: one for command in (run, dev) for one in command.params if isinstance(one, Setting)}
    found["keys"] = Setting(["--keys"], env=KEYS, rival=KEYS_FILE, is_secret=True, metavar="KEYS")
    found["keys-file"] = Setting(["--keys-file"], env=KEYS_FILE, rival=KEYS, metavar="FILE")
    return found


@contextmanager
def applied() -> Iterator[None]:
    """Let the file of this folder count, below the environment, while the block lasts."""
    origins.clear()
    found = read()
    if found is None:
        yield
        return
    known = settings()
    _check(found, known)
    given = {one.env for one in known.values() if os.environ.get(one.env)}
    before: dict[str, str | None] = {}
    for key, value in found.values.items():
        one = known[key]
        if one.env not in given and one.rival not in given:
            before[one.env] = os.environ.get(one.env)
            os.environ[one.env] = str(int(value)) if isinstance(value, bool) else value
            origins[one.env] = found.place(key)
    try:
        yield
    finally:
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
        return _parsed(named, _text(named), table)
    own, project = Path(FILE).exists(), _text(PROJECT) if Path(PROJECT).is_file() else ""
    # Most have one, and few of them say anything about this.
    says = _parsed(PROJECT, project, TABLE) if re.search(r"^\s*\[\s*tool\s*\.\s*wakeful\b", project, re.M) else None
    if own and says is not None:
        raise _wrong("config.two", f"{FILE} and [{TABLE}] of {PROJECT} are both here; keep one of them")
    return _parsed(FILE, _text(FILE), "") if own else says


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        because = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _wrong("config.file", f"{path} can't be read: {because}") from None
    if len(text) > BYTES_MAX:
        raise _wrong("config.file", f"{path} has more than {BYTES_MAX:,} characters, so it is something else")
    return text


def _parsed(path: str, text: str, table: str) -> SettingsFile:
    import tomllib

    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong("config.toml", f"{path} is no TOML: {error}") from None
    except RecursionError:
        raise _wrong("config.toml", f"{path} is nested too deeply") from None
    for part in table.split(".") if table else ():
        found = found.get(part, {}) if isinstance(found, dict) else {}
    if not isinstance(found, dict):
        raise _wrong("config.toml", f"{path}: {table} must be a table: [{table}]")
    return SettingsFile(path, found, _lines(text, table))


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
            raise _wrong("config.key", words.replace("' There", "'; there"))
        one = known[key]
        if not one.takes(value):
            is_hidden = one.is_secret or one.key == "store"
            shown = f"a {type(value).__name__}" if is_hidden else repr(value)[:100]
            raise _wrong("config.type", f"{where}: {key} must be {one.wants}, not {shown}")
        rival = next((other for other in known.values() if other.env == one.rival), None)
        if rival is not None and rival.key in file.values:
            raise _wrong("config.both", f"{where}: {key} and {rival.key} say the same; keep one of them")
    secret = [key for key, value in file.values.items() if holds_secret(known[key], value)]
    if secret and os.stat(file.path).st_mode & stat.S_IROTH:
        raise _wrong(
            "config.secret",
            f"{file.place(secret[0])}: {secret[0]} has a secret, and every user of this machine can read {file.path}; "
            f"chmod 600 {file.path}, or put it in a file of its own or in ${known[secret[0]].env}",
        )


def holds_secret(setting: Setting, value: object) -> bool:
    """It, or the password in its URL, is for nobody else."""
    return bool(value) and (setting.is_secret or masked(setting, value) != value)


def masked(setting: Setting, value: object) -> object:
    """As it may be shown. Of a URL everything between the user and the last @: a password that is not encoded has any letters."""
    if not isinstance(value, str):
        return value
    if setting.is_secret:
        return "…" if value else value
    scheme, colon, rest = value.partition("://")
    login, at, where = rest.rpartition("@")
    if at and ":" in login:
        rest = f"{login.partition(':')[0]}:…@{where}"
    return _PASSWORD.sub(r"\1…", f"{scheme}{colon}{rest}")


def _wrong(code: str, words: str) -> CommandError:
    return CommandError(words, code=code, exit_code=USAGE)


def problem(setting: Setting, text: str) -> str:
    """What is wrong with that text, and what to write; empty when a program would start with it."""
    from wakeful.values.errors import BadAddress, BadInput, BadUrl

    if setting.is_flag or isinstance(setting.type, click.Choice):
        try:
            setting.type.convert(text, setting, None)
        except click.BadParameter:
            return f"write {setting.wants}"
        return ""
    look = _LOOKS.get((setting.metavar or "").partition("|")[0])
    try:
        if look is not None:
            look(text)
    except (BadInput, BadUrl, BadAddress) as error:
        return error.message
    return ""


# what may stand in a variable, by what the option wants; each raises an error of ours that says what to write


def _look_at_address(text: str) -> None:
    from wakeful.transport.addresses import parse
    from wakeful.values.errors import BadAddress

    if text != "off":
        try:
            parse(text, is_listening=True)
        except BadAddress:
            raise BadAddress("it is no address; write HOST:PORT, like 127.0.0.1:7420") from None


def _look_at_file(text: str) -> None:
    from wakeful.values.errors import BadOption

    if not Path(text).is_file():
        raise BadOption("there is no such file; give the path of one that is there", code="option.file")


def _look_at_length(text: str) -> None:
    from wakeful.policy.lease import lease_of
    from wakeful.values.errors import BadOption

    try:
        lease_of(text)
    except BadOption as error:
        raise BadOption(error.message.removeprefix(f"lease={text!r}: "), code=error.code) from None


def _look_at_store(text: str) -> None:
    from wakeful.store import open_url

    open_url(text)


def _look_at_keys(text: str) -> None:
    from wakeful.system import read_keys

    read_keys(text)


_LOOKS: dict[str, Callable[[str], None]] = {
    "HOST:PORT": _look_at_address,
    "FILE": _look_at_file,
    "LENGTH": _look_at_length,
    "URL": _look_at_store,
    "KEYS": _look_at_keys,
}
