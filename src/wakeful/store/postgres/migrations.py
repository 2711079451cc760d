"""Layer 2. Which version is the schema, and how does it become ours?"""

import logging
from contextlib import suppress
from importlib.resources import files

from wakeful.store.postgres.statements import Statement, Statements
from wakeful.store.postgres.wire import MAKING, READ_ONLY, RIGHTS, STANDBY, Invalid, ServerRefused, ServerWire
from wakeful.values.errors import SchemaTooNew, SchemaTooOld, StoreDown, StoreError

log = logging.getLogger("wakeful.store")

_EXISTS = Statement(
    """SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'migrations'""",
    ("schema",),
)
_SCHEMA_EXISTS = Statement("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = $1", ("schema",))
_NUMBERS = "SELECT number FROM wakeful.migrations ORDER BY number"
_RECORD = "INSERT INTO wakeful.migrations (number, name, applied_at) VALUES ($1, $2, $3)"
_READ_ONLY = Statement("SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'", ())
_LAZY = Statement("SELECT current_setting('synchronous_commit', true) = 'off'", ())
_FOREIGN = Statement(
    """SELECT name, setting || coalesce(unit, '') FROM pg_catalog.pg_settings
    WHERE (name = 'default_transaction_isolation' AND setting <> 'read committed')
        OR (name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout')
            AND CASE WHEN setting ~ '^[0-9]+$' THEN setting::bigint BETWEEN 1 AND $1::bigint ELSE false END)
    ORDER BY name""",
    ("timeout_ms",),
)
_STANDBY = Statement("SELECT pg_is_in_recovery()", ())
_IDENTITY = Statement(
    """SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()), oid::bigint
    FROM pg_catalog.pg_database WHERE datname = current_database()""",
    (),
)
_MAY_ENTER = Statement(
    "SELECT bool_and(has_schema_privilege(oid, 'USAGE')) FROM pg_catalog.pg_namespace WHERE nspname = $1", ("schema",)
)
# What the role may not do with the tables of the schema.
_LACKS = Statement(
    """SELECT r.name, c.relname
    FROM unnest($2::text[]) WITH ORDINALITY AS r (name, n)
    CROSS JOIN pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace
    WHERE s.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, r.name)
    ORDER BY r.n, c.relname""",
    ("schema", "rights"),
)
ENCODINGS = ("UTF8", "SQL_ASCII")
ENCODE = (
    "make another database, with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, "
    "and bring over what is here with `wakeful move`"
)
# Two nodes that start at once would both try; the lock lets the second find it done. Where there are no
# advisory locks the second fails on a table that exists, and looks again.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('wakeful.migrate'))"


def migration_names() -> list[str]:
    """All migrations in order, as `0001_core`."""
    found = files(__package__).joinpath("migrations").iterdir()
    return sorted(file.name.removesuffix(".sql") for file in found if file.name.endswith(".sql"))


async def version_of(wire: ServerWire, statements: Statements) -> int:
    """The number of the last migration that was applied; 0 when there is nothing."""
    [(found,)] = await wire.run(_EXISTS, [statements.schema])
    if not found:
        return 0
    numbers = await wire.run(Statement(statements.qualify(_NUMBERS), ()))
    return max((row[0] for row in numbers), default=0)


def check_version(version: int, where: str) -> None:
    """Nothing, when this program and that schema fit."""
    newest = _number(migration_names()[-1])
    if version > newest:
        raise SchemaTooNew(f"{where} has schema {version}, this Wakeful knows up to {newest}; upgrade Wakeful")
    if version < newest:
        raise SchemaTooOld(f"{where} has schema {version}, this Wakeful needs {newest}; run `wakeful migrate`")


async def check_writable(wire: ServerWire, statements: Statements, where: str, *, readonly: bool) -> None:
    """Nothing, when the server takes writes and the role has the rights; else `StoreError` with the remedy."""
    if not readonly:
        check_encoding(wire, where)
        [(follows, is_read_only)] = await wire.run(_READ_ONLY)
        if follows:
            raise StoreError(f"{where} is a standby, which takes no writes; {STANDBY}", code="store.readonly")
        if is_read_only:
            raise StoreError(f"{where} takes no writes; {READ_ONLY}", code="store.readonly")
        if wire.is_pooled:
            await _check_durable(wire, where)
            await _warn_of_settings(wire, where)
    rights = ["SELECT"] if readonly else ["SELECT", "INSERT", "UPDATE", "DELETE"]
    [(may_enter,)] = await wire.run(_MAY_ENTER, [statements.schema])
    lacks: dict[str, list[str]] = {}
    if may_enter is False:
        lacks["schema"] = [statements.schema]
    else:
        for right, table in await wire.run(_LACKS, [statements.schema, rights]):
            lacks.setdefault(f"{right} on", []).append(table)
    if lacks:
        what = "; ".join(f"{right} {', '.join(names)}" for right, names in lacks.items())
        raise StoreError(f"{where}: permission denied for {what}; {RIGHTS}", code="store.rights")


def check_encoding(wire: ServerWire, where: str) -> None:
    """Nothing, when the database can hold all text. One without an encoding does: it keeps the bytes that we send."""
    if wire.encoding not in (*ENCODINGS, None):
        raise StoreError(
            f"{where} keeps text as {wire.encoding}, which lacks most letters, so that keys, names and errors with "
            f"others can't be written; {ENCODE}",
            code="store.encoding",
        )


async def _check_durable(wire: ServerWire, where: str) -> None:
    """An acknowledged write is on disk. Behind a pooler that can't be set for this program alone."""
    [(is_lazy,)] = await wire.run(_LAZY)
    if is_lazy:
        raise StoreError(
            f"{where} answers before a commit is on disk, and a pooler is between, so that this program can't set it "
            "otherwise for itself; ALTER ROLE … SET synchronous_commit = on, or connect to the server itself",
            code="store.lazy",
        )


async def _warn_of_settings(wire: ServerWire, where: str) -> None:
    """The same of what makes statements fail that are well: nothing is lost by it, so it is only said."""
    try:
        found = await wire.run(_FOREIGN, [round(wire.timeout_s * 1000)])
    except ServerRefused:
        return
    if found:
        what = ", ".join(f"{name} = {setting}" for name, setting in found)
        log.warning(
            "%s has %s, and a pooler is between, so that this program can't set it otherwise for itself: statements will "
            "fail that need not; ALTER ROLE … SET it for this role, or connect to the server itself",
            *(where, what),
            extra={"code": "store.settings"},
        )


async def is_standby(wire: ServerWire) -> bool:
    """Whether the server follows another; one that can't say so does not."""
    try:
        [(answer,)] = await wire.run(_STANDBY)
    except ServerRefused:
        return False
    return bool(answer)


async def identity_of(wire: ServerWire, schema: str) -> str:
    """Which database of which cluster of databases this is, standbys included; empty where the server does not say."""
    try:
        [(system, database)] = await wire.run(_IDENTITY)
    except (ServerRefused, StoreDown):  # for a hint: whether the server is there, the next statement tells
        return ""
    return f"{system}/{database}/{schema}"


async def migrate(wire: ServerWire, statements: Statements, *, now: int) -> list[str]:
    """Apply what is missing, all or none; the names of what was applied."""
    try:
        return await _migrate(wire, statements, now)
    except (Invalid, StoreDown):
        # Somebody else may have been faster.
        if wire.is_closed or await version_of(wire, statements) < _number(migration_names()[-1]):
            raise
        return []


async def _migrate(wire: ServerWire, statements: Statements, now: int) -> list[str]:
    applied: list[str] = []
    async with wire.transaction():
        await _lock(wire)
        version = await version_of(wire, statements)
        for name in migration_names():
            if _number(name) <= version:
                continue
            if _number(name) == 1:
                [(found,)] = await wire.run(_SCHEMA_EXISTS, [statements.schema])
                if not found:
                    await _make_schema(wire, statements.schema)
            sql = files(__package__).joinpath("migrations", f"{name}.sql").read_text(encoding="utf-8")
            await wire.script(statements.qualify(sql))
            record = Statement(statements.qualify(_RECORD), ("number", "name", "applied_at"))
            await wire.run(record, [_number(name), name, now])
            applied.append(name)
    return applied


async def _make_schema(wire: ServerWire, schema: str) -> None:
    try:
        await wire.script(f'CREATE SCHEMA "{schema}"')
    except ServerRefused as error:
        what = f"; there is no schema {schema} yet: {MAKING}"
        raise ServerRefused(error.message.replace(f"; {RIGHTS}", what), code=error.code) from None


async def _lock(wire: ServerWire) -> None:
    await wire.script("SAVEPOINT locking")
    with suppress(StoreDown):
        await wire.script(_LOCK)
        return
    await wire.script("ROLLBACK TO SAVEPOINT locking")


def _number(name: str) -> int:
    return int(name[:4])
