"""Layer 5. `wakeful config`: with which options would a program run here, and where did each come from?"""

import asyncio
import os
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from wakeful.cli import cluster_access, options, settings, settings_file, web
from wakeful.cli.exit_codes import OK, USAGE
from wakeful.cli.known_names import meant
from wakeful.cli.settings import Setting
from wakeful.cli.settings_file import CONFIG
from wakeful.system import DEFAULT_STORE
from wakeful.values.errors import WakefulError

PREFIX = "WAKEFUL_"


class Chosen(NamedTuple):
    """What an option is here, and who says so."""

    setting: Setting
    value: Any
    source: str
    place: str
    problem: str = ""

    @property
    def visible(self) -> object:
        return settings.mask(self.setting, self.value)

    @property
    def row(self) -> dict[str, Any]:
        row = {"option": self.setting.key, "value": self.visible, "source": self.source, "where": self.place}
        return row | {"problem": self.problem} if self.problem else row


def choices(ctx: click.Context) -> list[Chosen]:
    """Each option with its value and where it came from."""
    return [_choice(ctx, one) for _, one in sorted(settings_file.settings().items())]


def _choice(ctx: click.Context, one: Setting) -> Chosen:
    given = ctx.params.get(f"given_{one.name}")
    if given is not None and ctx.get_parameter_source(f"given_{one.name}") is ParameterSource.COMMANDLINE:
        problem = settings.problem(one, given) if isinstance(given, str) else ""
        return Chosen(one, given, "command line", f"--{one.key}", problem)
    if text := os.environ.get(one.env):
        problem = settings.problem(one, text)
        value = click.BOOL.convert(text, one, ctx) if one.is_flag and not problem else text
        source = "file" if one.env in settings.origins else "environment"
        return Chosen(one, value, source, settings.origins.get(one.env, f"${one.env}"), problem)
    return Chosen(one, _default(one), "default", "")


def conflicts(found: list[Chosen]) -> list[str]:
    """What `run` would say of options that are right each and do not go together."""
    given = {one.setting.name: None if one.source == "default" or one.problem else one.value for one in found}
    words = []
    for look in (_check_cluster, _check_web):
        try:
            look(given)
        except WakefulError as error:
            words.append(error.message)
    return words


def _check_cluster(given: dict[str, Any]) -> None:
    from wakeful.lifecycle import Joining, check_joining
    from wakeful.store import open_url

    url = given["url"] or DEFAULT_STORE
    let_in = cluster_access.pass_of(*map(given.get, ("secret_file", "tls_cert", "tls_key", "tls_ca")))
    joined = cluster_access.join_options(
        url, given["listen"], given["advertise"], given["cluster"], let_in, lease=given["lease"]
    )
    check_joining(open_url(url), Joining(**joined | {"lease": given["lease"]}))


def _check_web(given: dict[str, Any]) -> None:
    http = web.wish_of(given["http"], cert=given["http_cert"], key=given["http_key"])
    if http is not None:
        web.check_files(http)
    asyncio.run(web.check_open(http, given["url"] or DEFAULT_STORE))


def _default(one: Setting) -> Any:
    if one.key == "store":
        return DEFAULT_STORE
    if isinstance(one.type, click.Choice):
        return one.type.choices[0]
    return False if one.is_flag else one.otherwise


def _with_settings(command: click.Command) -> click.Command:
    """Let it take the options themselves, to be told what they would do."""
    for option in settings_file.settings().values():
        if option.hidden or option.key in settings_file.NO_OPTIONS:
            continue
        kind: dict[str, Any] = {"is_flag": True, "default": None} if option.is_flag else {"type": option.type}
        command.params.append(
            click.Option(
                [*option.opts, f"given_{option.name}"],
                metavar=option.metavar,
                help=option.help,
                expose_value=True,
                **kind,
            )
        )
    return command


@options.command("config")
@click.pass_context
def config(ctx: click.Context, /, as_json: bool, **_given: Any) -> int:
    """With which options `run` and `dev` would run here, and where each came from.

    The command line goes before the environment, that before wakeful.toml (or [tool.wakeful] of pyproject.toml), and that
    before the default. Give options of theirs to see what they change. Secrets are not shown. Values that no program would
    start with, alone or together, are named with what to write instead, and the exit code is 2.
    """
    from wakeful.cli.output import put_json, put_line, put_table

    file = settings_file.read()
    found = choices(ctx)
    wrong = [f"{one.place} is {_text(one.visible)}: {one.problem}" for one in found if one.problem]
    wrong += conflicts(found)
    if as_json:
        path = None if file is None else file.path
        put_json({"file": path, "options": [one.row for one in found], "problems": wrong, "unknown": unknown()})
    else:
        put_table(
            ["option", "value", "from"],
            [
                [one.setting.key, "–" if one.value is None else _text(one.visible), one.place or "default"]
                for one in found
            ],
        )
        for words in wrong:
            put_line(words, "red")
        for name in unknown():
            put_line(f"${name} is no variable of Wakeful's, so nothing comes of it{_meant(name)}", "yellow")
        put_line(_file_line(file))
    return USAGE if wrong else OK


def known() -> set[str]:
    """The variables that say something."""
    return {CONFIG, *(one.env for one in settings_file.settings().values())}


def unknown() -> list[str]:
    """Variables that look like ours and are none: a slip of the pen is ignored without a word otherwise."""
    return sorted({name for name in os.environ if name.startswith(PREFIX)} - known())


def _meant(name: str) -> str:
    bare = meant(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in sorted(known())])
    return bare.replace(" '", f" '{PREFIX}")


def _file_line(file: settings_file.SettingsFile | None) -> str:
    if file is None:
        return "no file here"
    return f"the file is {file.path}" + (f" (${CONFIG})" if CONFIG in os.environ else "")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_with_settings(config)
