"""Layer 5. `wakeful import` of the schedules that APScheduler or Celery beat had."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.output import many, put_json, put_line, put_table

if TYPE_CHECKING:
    from wakeful.importers.wishes import ImportPlan

FORMS = ("apscheduler", "celery")


async def settle(
    file: Path,
    form: str,
    cls: str | None,
    key: str | None,
    *,
    maps: tuple[str, ...],
    table: str | None,
    target: str | None,
    url: str,
    is_dry: bool,
    replaces: bool,
    as_json: bool,
) -> None:
    """Read the file, have the object take what it can, and say what became of each."""
    import msgspec

    from wakeful.cli.object_calls import ask
    from wakeful.importers.archive_rules import check_own
    from wakeful.importers.feature import SETTLE
    from wakeful.values.ids import ObjectId, check_class, check_key

    if cls is None or key is None:
        raise CommandError(
            f"whose schedules will they be? Give {'--class' if cls is None else '--key'}", code="usage", exit_code=USAGE
        )
    id = ObjectId(check_class(cls), check_key(cls, key))
    check_own(id, "import brings")
    methods = _methods(maps)
    plan = _read(file, form, table)
    wishes = [msgspec.structs.asdict(one) for one in plan.wishes]
    report: dict[str, Any] = await ask(
        id,
        SETTLE,
        (wishes,),
        {"methods": methods, "is_dry": is_dry, "replaces": replaces},
        url=url,
        target=target,
        what="import",
    )
    report["left"] += [{"what": "", "name": name, "note": why} for name, why in plan.left]
    report["note"] = plan.note
    _put(report, is_dry=is_dry, as_json=as_json)


def _read(file: Path, form: str, table: str | None) -> "ImportPlan":
    if form == "celery":
        from wakeful.importers.celery import read_beat

        if table is not None:
            raise CommandError("--table is for --as apscheduler", code="usage", exit_code=USAGE)
        return read_beat(file)
    from wakeful.importers.apscheduler import TABLE, read_store

    return read_store(file, table or TABLE)


def _methods(maps: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in maps:
        task, equals, method = text.partition("=")
        if not equals or not task or not method:
            raise CommandError(f"--map {text!r}: write it as TASK=METHOD", code="usage", exit_code=USAGE)
        found[task.replace(":", ".")] = method
    return found


def _put(report: dict[str, Any], *, is_dry: bool, as_json: bool) -> None:
    if as_json:
        put_json({"is_dry": is_dry, "objects": [report]})
        return
    rows = [(how, one["name"], one["what"], one["note"]) for how in ("taken", "changed", "left") for one in report[how]]
    put_table(["", "schedule", "was", "~"], rows)
    count, left = len(report["taken"]) + len(report["changed"]), len(report["left"])
    said = (
        f"{'would import' if is_dry else 'imported'} {many(count, 'schedule')} into {report['class']}/{report['key']}"
    )
    said += f", {len(report['changed'])} of them changed" if report["changed"] else ""
    put_line(f"{said}, and left {left} behind" if left else said, "yellow" if left else "green")
    if count:
        put_line(f"of all of them: {report['note']}")
    if count and not is_dry:
        put_line("stop the other scheduler, or each of them runs twice", "yellow")
