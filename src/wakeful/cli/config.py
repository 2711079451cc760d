"""Layer 5. `wakeful config`: with which options would a program run here, and where did each come from?"""

import os
from typing import Any

import click
from click.core import ParameterSource

from wakeful.cli import options, settings
from wakeful.cli.settings import CONFIG, Setting


def rows(ctx: click.Context) -> list[dict[str, Any]]:
    """Each option with its value and where it came from, as it may be shown."""
    found = []
    for key, one in sorted(settings.settings().items()):
        given = ctx.params.get(f"given_{one.name}")
        value: Any
        problem = ""
        if given is not None and ctx.get_parameter_source(f"given_{one.name}") is ParameterSource.COMMANDLINE:
            value, source, place = given, "command line", f"--{key}"
        elif text := os.environ.get(one.env):
            problem = settings.problem(one, text)
            value = click.BOOL.convert(text, one, ctx) if one.is_flag and not problem else text
            source = "file" if one.env in settings.origins else "environment"
            place = settings.origins.get(one.env, f"${one.env}")
        else:
            value, source, place = _default(one), "default", ""
        row = {"option": key, "value": settings.masked(one, value), "source": source, "where": place}
        found.append(row | {"problem": problem} if problem else row)
    return found


def _default(one: Setting) -> Any:
    if one.key == "store":
        return options.DEFAULT_STORE
    if isinstance(one.type, click.Choice):
        return one.type.choices[0]
    return False if one.is_flag else one.otherwise


def _with_settings(command: click.Command) -> click.Command:
    """Let it take the options themselves, to be told what they would do."""
    for one in settings.settings().values():
        if one.hidden or one.key in ("keys", "keys-file"):
            continue  # never on a command line
        kind: dict[str, Any] = {"is_flag": True, "default": None} if one.is_flag else {"type": one.type}
        command.params.append(
            click.Option(
                [*one.opts, f"given_{one.name}"], metavar=one.metavar, help=one.help, expose_value=True, **kind
            )
        )
    return command


@options.command("config")
@click.pass_context
def config(ctx: click.Context, /, as_json: bool, **_given: Any) -> None:
    """With which options `run` and `dev` would run here, and where each came from.

    The command line goes before the environment, that before wakeful.toml (or [tool.wakeful] of pyproject.toml), and that
    before the default. Give options of theirs to see what they change. Secrets are not shown; a value that no program
    would start with is named, with what to write instead.
    """
    from wakeful.cli.output import put_json, put_line, put_table

    file = settings.read()
    found = rows(ctx)
    if as_json:
        put_json({"file": None if file is None else file.path, "options": found})
        return
    put_table(
        ["option", "value", "from"],
        [[row["option"], "–" if row["value"] is None else _shown(row["value"]), _from(row)] for row in found],
    )
    for row in found:
        if "problem" in row:
            put_line(f"{row['where']} is {_shown(row['value'])}: {row['problem']}", "red")
    put_line(
        "no file here"
        if file is None
        else f"the file is {file.path}" + (f" (${CONFIG})" if CONFIG in os.environ else "")
    )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from(row: dict[str, Any]) -> str:
    return row["where"] or "default"


_with_settings(config)
