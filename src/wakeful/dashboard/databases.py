"""Layer 5. The page Database: which tables has an object, what is in them, and what does a query of them say?"""

from time import monotonic
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.visits import Visit
from wakeful.values.errors import BadOption, BadSql, LimitExceeded
from wakeful.views import databases
from wakeful.views.databases import DatabaseLook, LookBounds, SqlAnswer
from wakeful.views.plain import plain

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 50
RESULT_BYTES = 262_144  # of a page
LOOK_MS = 500  # a statement may fill memory for that long
QUERY_CHARS_MAX = 4_000  # it is a part of the address
OFFSET_MAX = 1_000_000_000


async def one(visit: Visit) -> "Response":
    """The tables of an object's database, and the rows of one, or of a query; the object sleeps on."""
    id = await visit.object()
    bounds = LookBounds(ROWS, RESULT_BYTES, LOOK_MS, visit.node.limits.sql_bytes)
    look = await databases.look_into(visit.view, id, now=_now, bounds=bounds)
    tables, total = await look.tables()
    answer, problem = None, ""
    try:
        answer = await _answer(visit, look)
    except (BadSql, LimitExceeded, BadOption) as error:
        problem = str(error)
    return await visit.render(
        "database.html",
        "objects",
        status=400 if problem else 200,
        lives=False,
        problem=problem,
        id=id,
        size=look.size,
        tables=tables,
        tables_total=total,
        table=visit.query("table"),
        q=visit.query("q") or "",
        chars_max=QUERY_CHARS_MAX,
        columns=[] if answer is None else answer.columns,
        rows=None if answer is None else [[_cell(value) for value in row] for row in answer.rows],
        offset=0 if answer is None else _offset(visit),
        is_cut=answer is not None and answer.is_cut,
    )


async def _answer(visit: Visit, look: DatabaseLook) -> SqlAnswer | None:
    """Of the query if there is one, else of the table that was chosen, if one was."""
    text, table = visit.query("q"), visit.query("table")
    if text is not None:
        if len(text) > QUERY_CHARS_MAX:
            raise BadOption(
                f"a query has at most {QUERY_CHARS_MAX} characters here; wakeful sql takes longer ones",
                code="option.query",
            )
        return await look.query(text)
    if table is not None:
        return await look.rows_of(table, offset=_offset(visit))
    return None


def _offset(visit: Visit) -> int:
    text = visit.query("offset") or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(OFFSET_MAX))):
        raise BadOption(f"an offset is a whole number up to {OFFSET_MAX}", code="option.offset")
    return int(text)


def _cell(value: Any) -> Any:
    return databases.literal(value) if isinstance(value, bytes) else plain(value)


def _now() -> int:
    return int(monotonic() * 1_000)
