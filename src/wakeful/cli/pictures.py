"""Layer 5. `wakeful chart` and `wakeful show --chart`: pictures of statecharts."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import UNAVAILABLE, USAGE, CommandError

if TYPE_CHECKING:
    from wakeful.store.protocol import Store
    from wakeful.values.ids import ObjectId


@options.command("chart")
@click.argument("target", metavar="[TARGET]", required=False, shell_complete=known_names.files)
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(path_type=Path), help="Where to: .svg or .png.  [default: stdout]"
)
@click.option(
    "--exporter", is_flag=True, help="Print a script for Node that exports machines of XState, and draw nothing."
)
def chart(target: str | None, output: Path | None, exporter: bool, as_json: bool) -> None:
    """Draw the chart of TARGET as SVG: APP.PY:CLASS, MODULE:CLASS, or a .json or .yaml file with a chart.

    A machine of XState becomes such a file in its own project: wakeful chart --exporter > export.mjs, then
    node export.mjs ./order.js > order.json
    """
    if exporter:
        _put_exporter(output, as_json=as_json)
        return
    if target is None:
        raise CommandError(
            "which chart? APP.PY:CLASS, MODULE:CLASS, or a .json or .yaml file", code="chart.target", exit_code=USAGE
        )
    from wakeful.diagrams.diagram import draw

    config, heading, delays = _config_of(target)
    put_picture(draw(config, heading=heading, delays=delays), output, as_json=as_json)


def _put_exporter(output: Path | None, *, as_json: bool) -> None:
    from importlib.resources import files

    from wakeful.cli.output import put_text

    script = (files("wakeful.importers") / "xstate_export.mjs").read_text(encoding="utf-8")
    put_text(script, output, "script", f"written to {output}", code="picture.file", as_json=as_json)


def put_picture(svg: str, output: Path | None, *, as_json: bool) -> None:
    """The picture in its file, as PNG if that is its ending; or on stdout."""
    from wakeful.cli.output import put_json, put_line, put_text

    ending = None if output is None else output.suffix.lower()
    if output is not None and ending not in ("", ".svg", ".png"):
        raise CommandError(
            f"{output}: pictures are drawn as .svg or .png; give it one of these endings",
            code="picture.ending",
            exit_code=USAGE,
        )
    if output is not None and ending == ".png":
        from wakeful.diagrams.png import to_png

        dots = to_png(svg)
        try:
            output.write_bytes(dots)
        except OSError as error:
            raise CommandError(f"{output} can't be written: {error.strerror}", code="picture.file") from None
        if as_json:
            put_json({"output": str(output), "bytes": len(dots)})
        else:
            put_line(f"drawn in {output}", "green")
        return
    put_text(svg, output, "svg", f"drawn in {output}", code="picture.file", as_json=as_json)


async def show_chart(cls: str, key: str, output: Path | None, target: str | None, url: str, *, as_json: bool) -> None:
    """Draw an object's chart with its active states and pending delays; the object sleeps on."""
    from datetime import datetime

    from wakeful.cli.session import viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views.machines import picture

    id = ObjectId(cls, key)
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None
    async with viewing(url) as view:
        config, version = await _chart_of(view.store_of(id), id, target)
        svg = await picture(view, id, config, version, zone)
    put_picture(svg, output, as_json=as_json)


async def _chart_of(store: "Store", id: "ObjectId", target: str | None) -> tuple[Mapping[str, Any], int]:
    """The chart of a class, from the program, or from the process that runs it."""
    from wakeful.cli.app_loader import load
    from wakeful.cli.node_access import connecting
    from wakeful.importers.feature import CHART
    from wakeful.machines.bindings import Bound
    from wakeful.values.codec import decode_loosely

    if target is not None:
        known = load(target).app.deployment.registry.by_name(id.cls)
        if getattr(known.cls, "chart", None) is None:
            raise CommandError(f"{id.cls} is no Machine, so it has no chart", code="machine.class", exit_code=USAGE)
        bound = Bound(id.cls, known.cls, lambda src: True)
        return bound.chart.config, bound.version
    async with connecting(store, id) as client:
        if client is None:
            raise CommandError(
                f"no process runs {store.url}, and the chart is in the program: give --app APP.PY, or start it",
                code="owner.none",
                exit_code=UNAVAILABLE,
            )
        answer = decode_loosely(await client.call_raw(id.cls, id.key, CHART, (), {}))
        assert isinstance(answer, dict)
        return answer["config"], answer["version"]


def _config_of(target: str) -> tuple[Mapping[str, Any], str | None, Mapping[str, Any]]:
    """A chart, what it is called, and the lengths of its named delays."""
    from wakeful.cli.app_loader import module_of
    from wakeful.machines.bindings import Bound, config_of

    where, _, name = target.rpartition(":")
    if not where:
        if not target.endswith((".json", ".yaml", ".yml")):
            raise CommandError(
                f"{target!r}: which chart? APP.PY:CLASS, MODULE:CLASS, or a .json or .yaml file",
                code="chart.target",
                exit_code=USAGE,
            )
        path = Path(target).resolve()
        holder = type(path.stem, (), {"chart": path})
        return config_of(path.stem, holder), None, {}
    cls = getattr(module_of(where), name, None)
    if not isinstance(cls, type) or getattr(cls, "chart", None) is None:
        raise CommandError(f"{where} has no Machine {name!r}", code="machine.class", exit_code=USAGE)
    bound = Bound(name, cls, lambda src: True)
    return bound.chart.config, name, bound.lengths
