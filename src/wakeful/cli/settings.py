"""Layer 5. What is an option that can stand in the environment or in a file as well, and may stand there what does?

It says where it is declared what it is called in the environment; in a file it has its own name without the dashes.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from wakeful.cli.exit_codes import USAGE, CommandError

_PASSWORD = re.compile(r"(?i)(\w*passw\w*\s*=\s*)[^&\s]+")

F = TypeVar("F", bound=Callable[..., Any])

COUNT = "N|auto"  # of what wants a number or that word

COMMAND_LINE = ParameterSource.COMMANDLINE

applied: dict[str, str | None] = {}  # what variables that a file has set were before
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
        if self.metavar == COUNT:
            return 'a number or "auto"'
        return f'a text in quotes ("{self.metavar}")' if self.metavar else "a text in quotes"

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """As click does; what comes from outside the command line is looked at here, where the variable is known."""
        text = os.environ.get(self.env)
        if text and not ctx.resilient_parsing and ctx.get_parameter_source(self.name or "") is not COMMAND_LINE:
            wrong = problem(self, text)
            if wrong:
                shown = "…" if self.is_secret else repr(mask(self, text))
                raise refusal("config.value", f"{origins.get(self.env, f'${self.env}')} is {shown}: {wrong}")
        return super().process_value(ctx, value)

    def takes(self, value: object) -> bool:
        if self.is_flag:
            return isinstance(value, bool)
        if self.metavar == COUNT and isinstance(value, int) and not isinstance(value, bool):
            return True
        return isinstance(value, str) and (not isinstance(self.type, click.Choice) or value in self.type.choices)


def environment() -> dict[str, str]:
    """As it is without the file: for a process that reads that itself, as it is by then."""
    found = dict(os.environ)
    for name, text in applied.items():
        found.pop(name, None)
        if text is not None:
            found[name] = text
    return found


def setting(*names: str, **about: Any) -> Callable[[F], F]:
    """`click.option` for one that has a name in the environment too."""
    return click.option(*names, cls=Setting, **about)


def holds_secret(setting: Setting, value: object) -> bool:
    """It, or the password in its URL, is for nobody else."""
    return bool(value) and (setting.is_secret or mask(setting, value) != value)


def mask(setting: Setting, value: object) -> object:
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


def refusal(code: str, words: str) -> CommandError:
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


def _look_at_count(text: str) -> None:
    from wakeful.cli.processes import count_of
    from wakeful.values.errors import BadOption

    try:
        count_of(text)
    except BadOption as error:
        raise BadOption(error.message.removeprefix(f"--processes {text}: "), code=error.code) from None


def _look_at_keys(text: str) -> None:
    from wakeful.system import read_keys

    read_keys(text)


def _look_at_secrets(text: str) -> None:
    from wakeful.notices.signatures import read_secrets

    read_secrets(text)


_LOOKS: dict[str, Callable[[str], None]] = {
    "HOST:PORT": _look_at_address,
    "FILE": _look_at_file,
    "LENGTH": _look_at_length,
    "URL": _look_at_store,
    "KEYS": _look_at_keys,
    "SECRETS": _look_at_secrets,
    "N": _look_at_count,
}
