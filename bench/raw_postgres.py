"""How fast do the same rows go into PostgreSQL with nothing around it?"""

import time
from typing import Any

from bench.measures import Measure
from bench.program import now_ms
from bench.raw import BULKS, Group, Pair, schedule
from bench.sizes import Sizes
from wakeful.store import open_url
from wakeful.store.postgres.url import parse_url

NODE = "raw"
OBJECT_COLUMNS = ("cls", "key", "created_at", "active_at", "rows", "bytes")
TIMER_COLUMNS = (
    "cls", "key", "name", "shard", "due_at", "nominal_at", "seq", "attempt", "crashes", "started", "priority",
    "payload",
)  # fmt: skip

# The epoch check, the object rows and the timer rows in one statement, hence one transaction and one round trip.
COMMIT = """
WITH locked AS MATERIALIZED (
    SELECT shard FROM wakeful.shards WHERE shard = ANY ($1::smallint[]) AND owner = $2 AND epoch = 1 FOR SHARE
), fence AS MATERIALIZED (
    SELECT count(*) = cardinality($1::smallint[]) AS ok FROM locked
), object AS (
    INSERT INTO wakeful.objects (cls, key, created_at, active_at, rows, bytes)
    SELECT o.cls, o.key, o.now, o.now, 0, 0
    FROM unnest($3::text[], $4::text[], $5::bigint[]) AS o (cls, key, now)
    WHERE (SELECT ok FROM fence)
    ON CONFLICT (cls, key) DO UPDATE SET active_at = EXCLUDED.active_at
)
INSERT INTO wakeful.timers
    (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority)
SELECT t.cls, t.key, t.name, t.shard, t.due_at, t.due_at, t.seq, 0, 0, 0, 0
FROM unnest($6::text[], $7::text[], $8::text[], $9::smallint[], $10::bigint[], $11::bigint[])
    AS t (cls, key, name, shard, due_at, seq)
WHERE (SELECT ok FROM fence)
ON CONFLICT (cls, key, name) DO UPDATE SET due_at = EXCLUDED.due_at, seq = EXCLUDED.seq
"""


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """Group commit with `unnest` on one asyncpg connection, and a binary COPY of both tables in one transaction."""
    import asyncpg

    store = open_url(url)
    await store.open(now=now_ms())  # for its schema, and epoch 1 of every shard
    await store.claim(NODE, range(256), now=now_ms())
    await store.close()
    connection: Any = await asyncpg.connect(parse_url(url).dsn)
    await connection.execute("SET plan_cache_mode = force_generic_plan; SET jit = off")
    commit = await connection.prepare(COMMIT)

    async def write(rows: list[Pair]) -> None:
        cls, key, shard, now = zip(*(row for row, _ in rows), strict=True)
        timers = zip(*(row[:-1] for _, row in rows), strict=True)
        await commit.fetch(list(set(shard)), NODE, cls, key, now, *timers)

    try:
        measures = await schedule(Group(write), sizes)
        for name, make in BULKS.items():
            some = [make(name, number) for number in range(sizes.bulk_count)]
            began = time.perf_counter()
            await _copy(connection, some)
            measures.append(Measure(name, len(some) / (time.perf_counter() - began), "/s", "COPY"))
    finally:
        await connection.close()
    return measures


async def _copy(connection: Any, rows: list[Pair]) -> None:
    objects = [(cls, key, now, now, 0, 0) for (cls, key, _, now), _ in rows]
    timers = [
        (cls, key, name, shard, due, due, seq, 0, 0, 0, 0, payload)
        for _, (cls, key, name, shard, due, seq, payload) in rows
    ]
    async with connection.transaction():
        await connection.copy_records_to_table(
            "objects", schema_name="wakeful", columns=OBJECT_COLUMNS, records=objects
        )
        await connection.copy_records_to_table("timers", schema_name="wakeful", columns=TIMER_COLUMNS, records=timers)
