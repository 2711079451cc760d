-- Timers from outside a turn, and the objects they wait for. No fence: anybody may add.
WITH added AS (
    SELECT s.*
    FROM unnest(
        $cls::text[], $key::text[], $name::text[], $shard::smallint[], $due_at::bigint[], $nominal_at::bigint[],
        $seq::bigint[], $attempt::integer[], $crashes::integer[], $started::bigint[], $priority::integer[],
        $payload::bytea[]
    ) AS s (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
),
object AS (
    INSERT INTO wakeful.objects (cls, key, created_at, active_at, rows, bytes)
    SELECT DISTINCT a.cls, a.key, $now::bigint, $now::bigint, 0, 0 FROM added AS a
    ON CONFLICT (cls, key) DO NOTHING
)
INSERT INTO wakeful.timers AS t
    (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
SELECT a.cls, a.key, a.name, a.shard, a.due_at, a.nominal_at, a.seq, a.attempt, a.crashes, a.started, a.priority, a.payload
FROM added AS a
ON CONFLICT (cls, key, name) DO UPDATE
    SET due_at = EXCLUDED.due_at, nominal_at = EXCLUDED.nominal_at, seq = EXCLUDED.seq,
        attempt = EXCLUDED.attempt, crashes = EXCLUDED.crashes, started = EXCLUDED.started,
        priority = EXCLUDED.priority, payload = EXCLUDED.payload
