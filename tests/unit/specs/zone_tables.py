"""The tables of docs/time-zones.md, computed: what each policy does on the nights when the clocks change.

Run it to write them into the page: `.venv/bin/python tests/unit/specs/zone_tables.py`.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from wakeful import cron, every
from wakeful.specs.spec import Spec
from wakeful.values.times import from_datetime, to_datetime

PAGE = Path(__file__).resolve().parents[3] / "docs" / "time-zones.md"
Rows = list[list[str]]


class Night(NamedTuple):
    """A change of the clocks, and the local stretch around it that the table looks at."""

    zone: str
    start: str
    end: str


SPRING = Night("Europe/Berlin", "2026-03-29T00:00", "2026-03-29T05:00")
AUTUMN = Night("Europe/Berlin", "2026-10-25T00:00", "2026-10-25T05:00")
JOBS = ("30 2 * * *", "0 2,3 * * *", "*/15 2 * * *", "0 * * * *", "*/30 * * * *", "0 */2 * * *")
ELSEWHERE = (
    (Night("Australia/Lord_Howe", "2026-10-04T01:00", "2026-10-04T04:00"), "15 2 * * *", "30 minutes are missing"),
    (Night("Australia/Lord_Howe", "2026-04-05T01:00", "2026-04-05T04:00"), "45 1 * * *", "30 minutes come twice"),
    (Night("Pacific/Apia", "2011-12-29T00:00", "2011-12-31T23:59"), "0 9 * * *", "a day is missing: 30 December"),
    (Night("Pacific/Apia", "2011-12-29T00:00", "2011-12-31T23:59"), "0 */12 * * *", "the same"),
    (Night("Europe/Dublin", "2026-03-29T00:00", "2026-03-29T04:00"), "30 1 * * *", "summer time is the standard"),
    (Night("Europe/Dublin", "2026-10-25T00:00", "2026-10-25T04:00"), "30 1 * * *", "winter is the exception"),
    (Night("Africa/Casablanca", "2026-02-15T00:00", "2026-02-15T05:00"), "30 2 * * *", "back for Ramadan"),
    (Night("Africa/Casablanca", "2026-03-22T00:00", "2026-03-22T05:00"), "30 2 * * *", "ahead after Ramadan"),
    (Night("America/Santiago", "2026-09-06T00:00", "2026-09-06T04:00"), "0 0 * * *", "midnight is missing"),
)


def instant(local: str, zone: str) -> datetime:
    return datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def told(spec: Spec, night: Night, *, days: bool = False) -> str:
    """The runs of a night as the clocks show them, `′` at a time that is shown for the second time, and its gaps."""
    zone = ZoneInfo(night.zone)
    start, end = instant(night.start, night.zone), instant(night.end, night.zone)
    runs = [at.astimezone(zone) for at in spec.between(start, end)]
    gaps = [to_datetime(at).astimezone(zone) for at in spec.gaps_ms(from_datetime(start), from_datetime(end))]
    gaps = [at for at in gaps if at not in runs]  # where it runs anyway, that is the verdict
    said = ", ".join(clock(at, days) for at in runs) or "none"
    return said + "".join(f"; `gap` at {clock(at, days)}" for at in gaps)


def clock(local: datetime, days: bool) -> str:
    return f"{local:%-d %b %H:%M}" * days + f"{local:%H:%M}" * (not days) + "′" * local.fold


def berlin(night: Night, name: str, policies: tuple[str, ...]) -> Rows:
    rows: Rows = []
    for job in JOBS:
        options: list[dict[str, Any]] = [{name: policy} for policy in policies]
        rows.append([f"`{job}`", *(told(cron(job, night.zone, **one), night) for one in options)])
    hourly = every("1h", anchor=datetime(2026, 1, 1, tzinfo=UTC)).spec
    six = every("6h", anchor=instant(night.start, night.zone) - timedelta(days=7)).spec
    day = Night(night.zone, night.start, night.end[:11] + "13:00")
    rows.append(["`0 */6 * * *`, until 13:00", *[told(cron("0 */6 * * *", night.zone), day)] * len(policies)])
    rows.append(['`every("1h", anchor=…)`', *[told(hourly, night)] * len(policies)])
    rows.append(['`every("6h", anchor=…)` from a midnight before, until 13:00', *[told(six, day)] * len(policies)])
    return rows


def elsewhere() -> Rows:
    rows = []
    for night, job, note in ELSEWHERE:
        days = night.start[:10] != night.end[:10]
        policies = ({}, {"gap": "skip"}, {"fold": "second"}, {"fold": "both"})
        cells = [told(cron(job, night.zone, **one), night, days=days) for one in policies]  # type: ignore[arg-type]
        rows.append([f"{night.zone} {night.start[:10]}", note, f"`{job}`", *cells])
    return rows


def table(head: list[str], rows: Rows, *, since: int = 1) -> str:
    """As Markdown; a cell that says what the first policy's says is `same`. The policies begin in column `since`."""
    short = [
        [*row[: since + 1], *("same" if cell == row[since] else cell for cell in row[since + 1 :])] for row in rows
    ]
    lines = [head, ["---"] * len(head), *short]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def tables() -> dict[str, str]:
    """Each table of the page, by the name in its markers."""
    return {
        "spring": table(["job", 'gap="shift" (default)', 'gap="skip"'], berlin(SPRING, "gap", ("shift", "skip"))),
        "autumn": table(
            ["job", 'fold="first" (default)', 'fold="second"', 'fold="both"'],
            berlin(AUTUMN, "fold", ("first", "second", "both")),
        ),
        "elsewhere": table(
            ["zone and day", "what happens", "job", "default", 'gap="skip"', 'fold="second"', 'fold="both"'],
            elsewhere(),
            since=3,
        ),
    }


def parts(page: str) -> dict[str, str]:
    """What the page has between its markers."""
    found = re.findall(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    return {name: body.strip() + "\n" for name, body in found}


def written(page: str) -> str:
    """The page with its tables as they are computed now."""
    for name, text in tables().items():
        page = re.sub(
            rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", lambda m, t=text: f"{m[1]}\n{t}\n{m[2]}", page, flags=re.S
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
