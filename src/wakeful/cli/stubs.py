"""Layer 5. `wakeful stubs`: what type checkers are to know of objects whose methods block."""

from pathlib import Path

import click

from wakeful.cli import known_names, options


@options.command("stubs")
@click.argument("target", metavar="APP.PY", shell_complete=known_names.files)
@click.option("--output", "-o", metavar="FILE.py", type=click.Path(path_type=Path), help="Where to.  [default: stdout]")
def stubs(target: str, output: Path | None, as_json: bool) -> None:
    """Write a protocol for each class of APP.PY (or MODULE:APP), as `Client.sync(...)` has its objects, for type checkers."""
    from wakeful.cli.app_loader import load
    from wakeful.cli.output import put_text
    from wakeful.operations.client_stubs import write_stubs
    from wakeful.views.timer_names import own_classes

    registry = load(target).app.deployment.registry
    names = own_classes(registry.names())
    text = write_stubs([registry.by_name(name) for name in names], target)
    put_text(text, output, "stubs", f"{', '.join(names)} in {output}", code="stubs.file", as_json=as_json)
