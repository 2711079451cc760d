"""Layer 5. `wakeful schema` and `wakeful migrate`: what do the tables look like, and are they up to date?"""

import asyncio
from importlib.resources import files

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import USAGE, CommandError


@options.command("schema")
@click.option("--sql", is_flag=True, help="The SQL that makes the tables, to read or to run by hand.")
@options.store_option
def schema(sql: bool, url: str, as_json: bool) -> None:
    """Which version the store's tables have, or the SQL that makes them."""
    from wakeful.cli.output import put_json

    if sql:
        text = files(f"wakeful.store.{kind_of(url)}").joinpath("schema.sql").read_text(encoding="utf-8")
        if as_json:
            put_json({"store": kind_of(url), "sql": text})
        else:
            click.echo(text.rstrip())
        return
    asyncio.run(_schema(url, as_json))


async def _schema(url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.store_session import reading

    names = migrations(url)
    async with reading(url) as store:  # refuses any other version, in words
        shown = store.url
    if as_json:
        put_json({"store": shown, "migrations": names, "is_current": True})
    else:
        put_line(f"{shown}: up to date ({names[-1]})")


@options.command("migrate")
@options.store_option
def migrate(url: str, as_json: bool) -> None:
    """Bring the store's tables up to date. Stop the processes that run on it first."""
    asyncio.run(_migrate(url, as_json))


async def _migrate(url: str, as_json: bool) -> None:
    from wakeful.cli.output import now_ms, put_json, put_line
    from wakeful.cli.progress import pulse
    from wakeful.store import open_url

    store = open_url(url)
    with pulse("migrate", is_shown=not as_json):  # a database does not say how far a statement is
        applied = await store.migrate(now=now_ms())
    await store.close()
    if as_json:
        put_json({"store": store.url, "applied": applied})
        return
    for name in applied:
        put_line(f"applied {name}", "green")
    if not applied:
        put_line(f"{store.url}: nothing to do, it is up to date")


def kind_of(url: str) -> str:
    """The package of the store that the URL names, for one of ours."""
    from wakeful.store import open_url

    if url == "memory:":
        raise CommandError(
            "memory: has no tables; name sqlite:PATH or postgresql://…", code="store.memory", exit_code=USAGE
        )
    module = type(open_url(url)).__module__
    if not module.startswith("wakeful.store."):
        raise CommandError(
            f"{module} brings this store, and its tables; ask there", code="store.foreign", exit_code=USAGE
        )
    return module.split(".")[2]


def migrations(url: str) -> list[str]:
    """The names of all migrations that this version brings for that kind of store."""
    folder = files(f"wakeful.store.{kind_of(url)}").joinpath("migrations")
    return sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))
