"""schema.sql is what people read, the migrations are what a database gets: they must say the same."""

from importlib.resources import files

import asyncpg

from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.url import parse_url

NOW = 1_700_000_000_000

_COLUMNS = """
    SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default, collation_name,
        is_identity, identity_generation
    FROM information_schema.columns WHERE table_schema = $1 ORDER BY table_name, ordinal_position"""
_INDEXES = (
    "SELECT tablename, indexname, replace(indexdef, $1, '') AS def FROM pg_indexes WHERE schemaname = $1 ORDER BY 1, 2"
)
_CONSTRAINTS = """
    SELECT t.relname, c.conname, pg_get_constraintdef(c.oid) AS def
    FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = $1 ORDER BY 1, 2"""
_OPTIONS = """
    SELECT c.relname, c.relkind::text, c.reloptions FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 ORDER BY 1"""


async def test_the_schema_that_people_read_is_the_schema_that_migrations_make(postgres_schema_url: str) -> None:
    target = parse_url(postgres_schema_url)
    await PostgresStore.of_url(postgres_schema_url).migrate(now=NOW)
    written = Statements(f"{target.schema}_w")
    text = files("wakeful.store.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    connection = await asyncpg.connect(target.dsn)
    try:
        await connection.execute(f'CREATE SCHEMA "{written.schema}"')
        await connection.execute(written.qualify(text))
        for query in (_COLUMNS, _INDEXES, _CONSTRAINTS, _OPTIONS):
            made = [tuple(row) for row in await connection.fetch(query, target.schema)]
            read = [tuple(row) for row in await connection.fetch(query, written.schema)]
            assert made == read
            assert made
        shards = 'SELECT count(*), min(shard), max(shard), max(epoch) FROM "{}".shards'
        assert await connection.fetchrow(shards.format(target.schema)) == (256, 0, 255, 0)
        assert await connection.fetchrow(shards.format(written.schema)) == (256, 0, 255, 0)
    finally:
        await connection.execute(f'DROP SCHEMA "{written.schema}" CASCADE')
        await connection.close()
