"""Layer 5. The page Due: what fires next, on one line to now, and what has just fired."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.renderer import address
from wakeful.dashboard.visits import Visit
from wakeful.dashboard.words import instant, relative
from wakeful.values.times import LATEST_MS, to_datetime
from wakeful.views import due, ledger

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 40
DOTS = 200
PAST = 16
WEEK_MS = 604_800_000
TICKS = [(10_000, "10 s"), (60_000, "1 min"), (600_000, "10 min"), (3_600_000, "1 h"), (21_600_000, "6 h")]
TICKS += [(86_400_000, "1 day"), (WEEK_MS, "1 week")]
LANES = 5


async def page(visit: Visit) -> "Response":
    """Timers in firing order, grouped by how soon."""
    view, cls, prefix = visit.view, visit.query("class"), visit.caller.prefix
    timers = await due.page(view, cls, limit=ROWS, cursor=visit.query("cursor"), prefix=prefix)
    ahead = timers.rows
    if timers.cursor is not None and visit.query("cursor") is None:
        more = await due.page(view, cls, limit=DOTS - ROWS, cursor=timers.cursor, prefix=prefix)
        ahead = timers.rows + more.rows
    total = len(ahead)
    if timers.cursor is not None and prefix is None:
        total = max(total, await visit.count("timers", cls))
    past = await ledger.page(view, cls=cls, limit=PAST, prefix=prefix)
    return await visit.render(
        "due.html",
        "due",
        cls=cls,
        classes=await visit.classes(),
        groups=[(name, list(rows)) for name, rows in groupby(timers.rows, lambda row: group_of(row, visit.now))],
        dots=dots(visit, ahead),
        ticks=[(place(ms), name) for ms, name in TICKS],
        total=total,
        shown=len(timers.rows),
        cursor=timers.cursor,
        ledger=sorted(past.rows, key=lambda row: instant(row["finished_at"]) or 0, reverse=True),
        is_cluster=any(store.shared for store in view.stores),
        own=visit.node.name,
    )


def place(ms: float) -> float:
    """Where on the strip, in percent, something is that is due in so long; the same curve as in wakeful.js."""
    share = math.log1p(max(0.0, ms) / 5_000) / math.log1p(WEEK_MS / 5_000)
    return round(2 + 96 * min(1.0, share), 2)


def dots(visit: Visit, rows: Iterable[due.PlainTimer]) -> list[dict[str, Any]]:
    """The timers on the strip; those that would hide each other stand in lanes."""
    marks, used = [], dict[int, int]()
    for row in rows:
        at = instant(row["due_at"]) or 0
        if at > LATEST_MS:
            continue
        where = place(at - visit.now)
        lane = used[int(where)] = used.get(int(where), -1) + 1
        look = " held" if row["held_by"] else " late" if at < visit.now - 1_000 and not row["is_running"] else ""
        marks.append(
            {
                "at": at,
                "place": where,
                "y": 36 + (lane % LANES + 1) // 2 * 12 * (-1 if lane % 2 else 1),
                "look": look,
                "href": address(visit.request, "/object", class_=row["class"], key=row["key"]),
                "label": f"{row['class']}/{row['key']} {row['words']}, {relative(at, visit.now)}",
            }
        )
    return marks


def group_of(row: due.PlainTimer, now: int) -> str:
    """How soon, in words; days as the server's own calendar has them."""
    at = instant(row["due_at"]) or 0
    if row["is_running"]:
        return "Running"
    if at < now - 1_000:
        return "Overdue"
    if at < now + 60_000:
        return "Within a minute"
    if at < now + 3_600_000:
        return "Within the hour"
    if at > LATEST_MS:
        return "Once others have run"
    return day_of(to_datetime(at).astimezone(), to_datetime(now).astimezone())


def day_of(at: datetime, now: datetime) -> str:
    """`Later today`, `Tomorrow`, `Within a week`, `Later`."""
    if at.date() == now.date():
        return "Later today"
    if at.date() == now.date() + timedelta(days=1):
        return "Tomorrow"
    return "Within a week" if at < now + timedelta(days=7) else "Later"
