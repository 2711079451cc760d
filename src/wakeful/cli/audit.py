"""Layer 5. `wakeful audit`: who did what, and who was refused?"""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import one_line

if TYPE_CHECKING:
    from wakeful.security.audit import PlainAudit


@options.command("audit")
@click.option("--acts", "is_acts", is_flag=True, help="Only what operators did, without those who were refused.")
@click.option("--actor", metavar="NAME", help="Only of this one, like token:deploy or cli:ada.")
@click.option("--after", "cursor", metavar="CURSOR", help="Where the last page ended: its `cursor`.")
@options.limit_option(50)
@options.store_option
def audit(is_acts: bool, actor: str | None, cursor: str | None, limit: int, url: str, as_json: bool) -> None:
    """What operators did and who was refused, newest first. An act that is still `begun` was cut off."""
    asyncio.run(_audit(is_acts, actor, cursor, limit, url, as_json))


async def _audit(is_acts: bool, actor: str | None, cursor: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line, put_table
    from wakeful.cli.session import reading
    from wakeful.security.audit import page

    async with reading(url) as store:
        trail = await page(store, limit=limit, cursor=cursor, has_refusals=not is_acts, actor=actor)
    if as_json:
        put_json({"rows": trail.rows, "cursor": trail.cursor})
        return
    if not trail.rows:
        put_line("nothing yet", "dim")
        return
    put_table(["when", "who", "what", "on", "outcome", "…detail"], [_cells(row) for row in trail.rows])
    if trail.cursor is not None:
        put_line(f"the newest {len(trail.rows):,}; -n shows more", "dim")


def _cells(row: "PlainAudit") -> tuple[Any, ...]:
    from wakeful.cli.output import clock_time
    from wakeful.values.times import from_datetime

    count = f" ×{row['count']:,}" if row["count"] > 1 else ""
    detail = row["error"] or ", ".join(f"{name} {value}" for name, value in row["detail"].items() if value)
    at = clock_time(from_datetime(datetime.fromisoformat(row["at"])))
    cells = (at, row["actor"], row["act"], row["target"], f"{row['outcome']}{count}", detail)
    return tuple(one_line(str(cell)) for cell in cells)
