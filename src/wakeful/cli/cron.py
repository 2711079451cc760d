"""Layer 5. `wakeful cron`: what does a cron expression, phrase or rule mean, and when is it next?"""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.specs.spec import Spec

_SEED = "preview"


class ListedTime(NamedTuple):
    """One line of the list: an occurrence, or a time that the clocks jump over and `gap=skip` leaves out."""

    at: int
    note: str
    is_left_out: bool = False


@options.command("cron")
@click.argument("text", metavar="SPEC")
@click.option("--zone", metavar="ZONE", help="An IANA name like Europe/Paris.  [default: UTC]")
@click.option("--gap", type=click.Choice(["shift", "skip"]), help="A time that the clocks jump over.")
@click.option("--fold", type=click.Choice(["first", "second", "both"]), help="A time that the clocks show twice.")
@click.option("--from", "since", metavar="TIME", help="List from this time on, local unless it has an offset.")
@options.limit_option(10)
def cron(
    text: str, zone: str | None, gap: str | None, fold: str | None, since: str | None, limit: int, as_json: bool
) -> None:
    """Say in words what SPEC means and list the next times. Needs no store and no program.

    SPEC is a cron expression ("0 9 * * 1"), a phrase ("every monday at 9am"), a length ("90m" for every 90
    minutes), an RFC 5545 rule ("FREQ=WEEKLY;BYDAY=MO"), or what a schedule's spec is printed as.
    """
    from wakeful.cli.instants import instant
    from wakeful.cli.output import now_ms
    from wakeful.schedules.nights import zone_name, zones_in

    asked = spec_of(text, zone, gap, fold)
    shown_in = zone or zone_name(asked)
    start = now_ms() if since is None else instant(since, shown_in, what="--from")
    spec = _bind(asked, start, shown_in)
    found, is_all = occurrences(spec, start - (since is not None), limit)
    if as_json:
        _put_json(asked, shown_in, found)
        return
    _put_meaning(asked, is_zoneless=zones_in(spec) != zones_in(asked))
    _put_list(shown_in, found, is_all, is_now=since is None)


def spec_of(text: str, zone: str | None, gap: str | None, fold: str | None) -> "Spec":
    """The spec that the text means, with what the options say about its times of day."""
    from wakeful.cli.instants import is_length
    from wakeful.schedules.nights import zones_in
    from wakeful.schedules.options import parse_spec_options
    from wakeful.specs.build import to_spec
    from wakeful.specs.interval import interval
    from wakeful.specs.rrule import Rule
    from wakeful.specs.text import parse_spec
    from wakeful.specs.zones import zone_of
    from wakeful.values.errors import BadOption

    if zone is not None:
        zone_of(zone)
    spec = interval(text) if is_length(text) else to_spec(text)
    zones = zones_in(spec)
    if zone is not None and any(one != zone for one in zones):
        raise BadOption(f"--zone {zone}: the spec is in {zones[0]} already", code="schedule.zone")
    if isinstance(spec, Rule):
        given = (("in ", zone if not zones else None), ("gap=", gap), ("fold=", fold))
        return parse_spec(" ".join([spec.text, *(f"{name}{value}" for name, value in given if value is not None)]))
    if gap is not None or fold is not None:
        spec = parse_spec_options(spec, {"gap": gap, "fold": fold})
    # A length or an instant has no zone to be in; it is only shown in that one.
    bound = spec if zone is None else _bind(spec, 0, zone)
    return bound if zones_in(bound) else spec


def _bind(asked: "Spec", added_at: int, zone: str) -> "Spec":
    """The spec as a schedule added then would have it, but for a spread's offset, which each has its own of."""
    from wakeful.specs.text import parse_spec

    spec = asked.bind(added_at=added_at, seed=_SEED, zone=zone)
    marker = f" seed {_SEED}"
    return parse_spec(spec.text.replace(marker, "")) if marker in spec.text else spec


def occurrences(spec: "Spec", after: int, limit: int) -> tuple[list[ListedTime], bool]:
    """The next ones, what the clocks jump over among them; and whether there are no more."""
    from wakeful.schedules.nights import gap_note, night_note

    times: list[ListedTime] = []
    at = spec.next_ms(after)
    while at is not None and len(times) < limit:
        times.append(ListedTime(at, night_note(spec, at)))
        at = spec.next_ms(at)
    gaps = spec.gaps_ms(after + 1, times[-1].at) if times else []
    times += [ListedTime(gap, gap_note(spec, gap), is_left_out=True) for gap in gaps]
    return sorted(times), at is None


def _put_json(asked: "Spec", zone: str, found: list[ListedTime]) -> None:
    from wakeful.cli.output import iso, put_json
    from wakeful.schedules.nights import local_time

    rows: list[dict[str, Any]] = []
    for listed in found:
        local = local_time(listed.at, zone)
        rows.append(
            {
                "at": iso(listed.at),
                "local": local.isoformat(),
                "weekday": f"{local:%A}",
                "is_left_out": listed.is_left_out,
                "note": listed.note,
            }
        )
    put_json({"spec": asked.text, "words": asked.describe(), "zone": zone, "occurrences": rows})


def _put_meaning(asked: "Spec", *, is_zoneless: bool) -> None:
    from wakeful.cli.output import put_line

    put_line(asked.describe(), "bold")
    put_line(asked.text, "cyan")
    if is_zoneless:
        put_line("it names no zone: a schedule takes the app's default_zone, this list UTC; --zone says another", "dim")
    if " spread " in asked.text:
        put_line("each schedule has its own part of the spread; these are the times without it", "dim")
    put_line()


def _put_list(zone: str, found: list[ListedTime], is_all: bool, *, is_now: bool) -> None:
    from wakeful.cli.output import now_ms, put_line, put_table, relative
    from wakeful.schedules.nights import local_time

    if not found:
        put_line("never again" if is_now else "never after that", "dim")
        return
    form = "%Y-%m-%d %H:%M:%S" if any(listed.at % 60_000 for listed in found) else "%Y-%m-%d %H:%M"
    now = now_ms()
    columns: dict[str, list[str]] = {name: [] for name in ("day", zone, "UTC", "offset", "", "note")}
    for listed in found:
        local, utc = local_time(listed.at, zone), local_time(listed.at, "UTC")
        columns["day"].append(f"{local:%a}")
        columns["offset"].append(_offset(f"{local:%z}"))
        columns[""].append("" if listed.is_left_out else relative(listed.at, now))
        columns["note"].append(listed.note)
        for name, shown in {zone: local, "UTC": utc}.items():
            columns[name].append(f"{shown:%Y-%m-%d} —" if listed.is_left_out else f"{shown:{form}}")
    kept = [name for name in columns if (name or is_now) and (name != "note" or any(columns["note"]))]
    put_table(kept, list(zip(*(columns[name] for name in kept), strict=True)))
    if is_all:
        put_line("and never again", "dim")


def _offset(text: str) -> str:
    return f"{text[:3]}:{text[3:5]}"
