"""Layer 5. `wakeful sql`: what is in the database of an object, without waking it; with --write, changed by its owner."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import one_line

if TYPE_CHECKING:
    from wakeful.views.databases import TableInfo

LOOK_MS = 10_000  # nobody else waits for it
RESULT_BYTES = 16_777_216


@options.command("sql")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.argument("query", metavar="[QUERY]", required=False)
@click.option("--write", "is_write", is_flag=True, help="Have the object run it in a turn; leaves an audit row.")
@options.app_option("With --write, when no process runs the store: run this program for the length of the command.")
@options.limit_option(100)
@options.store_option
def sql(
    cls: str, key: str, query: str | None, is_write: bool, target: str | None, limit: int, url: str, as_json: bool
) -> None:
    """Run QUERY on the database of the object CLASS/KEY, which sleeps on; without QUERY, list its tables.

    It reads what finished turns left, and only reads. With --write the object is woken and runs it, as its own code would:
    all statements of QUERY in one turn, which is undone when one of them fails.
    """
    if is_write:
        if query is None:
            raise click.UsageError("--write needs a QUERY")
        asyncio.run(_write(cls, key, query, limit, target, url, as_json))
        return
    if target is not None:
        raise click.UsageError("--app goes with --write")
    asyncio.run(_look(cls, key, query, limit, url, as_json))


async def _look(cls: str, key: str, query: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import own_ms, put_json
    from wakeful.cli.session import viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views import databases

    id = ObjectId(cls, key)
    bounds = databases.LookBounds(limit, RESULT_BYTES, LOOK_MS)
    async with viewing(url) as view:
        await info_of(view, id)
        look = await databases.look_into(view, id, now=own_ms, bounds=bounds)
    if query is None:
        tables, total = await look.tables()
        put_json(tables) if as_json else _put_tables(tables, total)
        return
    answer = await look.query(query)
    if as_json:
        put_json(answer.plain())
    else:
        _put_rows(answer.columns, answer.rows, limit, is_cut=answer.is_cut)


async def _write(cls: str, key: str, query: str, limit: int, target: str | None, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.session import acting, viewing
    from wakeful.sql.statement import split
    from wakeful.values.ids import ObjectId
    from wakeful.views.plain import plain

    id = ObjectId(cls, key)
    split(query)  # a text without a statement is refused before anybody is asked
    async with viewing(url) as view:
        await info_of(view, id)  # a turn would make the object that somebody mistyped
    async with acting(url, target, what="sql", id=id) as acts:
        answer = await acts.write_sql(id, query)
    answer |= {"rows": answer["rows"][:limit], "is_cut": answer["is_cut"] or len(answer["rows"]) > limit}
    if as_json:
        put_json(plain(answer))
        return
    if answer["columns"]:
        _put_rows(answer["columns"], answer["rows"], limit, is_cut=answer["is_cut"])
    put_line(one_line(f"{id}: {many(answer['written'], 'row')} written"), "green")


def _put_tables(tables: list["TableInfo"], total: int) -> None:
    from wakeful.cli.output import many, put_line, put_table

    if not tables:
        put_line("there are no tables", "dim")
        return
    rows = []
    for table in tables:
        columns = ", ".join(f"{column['name']} {column['type']}".rstrip() for column in table["columns"])
        rows.append((table["name"], table["type"], "" if table["rows"] is None else f"{table['rows']:,}", columns))
    put_table(["table", "type", ">rows", "~columns"], rows)
    if total > len(tables):
        put_line(f"the first {len(tables):,} of {many(total, 'table')}; ask sqlite_schema for the others", "dim")


def _put_rows(columns: list[str], rows: list[Any], limit: int, *, is_cut: bool) -> None:
    from wakeful.cli.output import many, put_line, put_table
    from wakeful.views.databases import literal

    if not rows:
        put_line("no rows", "dim")
        return
    heads = [f"{_mark(row[place] for row in rows)}{one_line(name)}" for place, name in enumerate(columns)]
    put_table(heads, [[literal(value) for value in row] for row in rows])
    if is_cut:
        more = "-n shows more" if len(rows) == limit else "more is too much at once: ask for less"
        put_line(f"the first {many(len(rows), 'row')}; {more}", "dim")


def _mark(values: Any) -> str:
    """Numbers stand to the right."""
    return ">" if all(isinstance(value, int | float | None) for value in values) else ""
