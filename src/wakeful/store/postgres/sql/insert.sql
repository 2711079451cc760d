-- Timers from outside a turn, and the objects they wait for. No fence: anybody may add. A name that is taken
-- fails the statement, and so nothing of it is left.
WITH object AS (
    INSERT INTO wakeful.objects (cls, key, created_at, active_at, rows, bytes)
    SELECT DISTINCT a.cls, a.key, $now::bigint, $now::bigint, 0, 0
    FROM unnest($cls::text[], $key::text[]) AS a (cls, key)
    ORDER BY a.cls, a.key  -- so that two that add the same can't deadlock
    ON CONFLICT (cls, key) DO NOTHING
)
INSERT INTO wakeful.timers
    (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
SELECT a.cls, a.key, a.name, a.shard, a.due_at, a.nominal_at, a.seq, a.attempt, a.crashes, a.started, a.priority, a.payload
FROM unnest(
    $cls::text[], $key::text[], $name::text[], $shard::smallint[], $due_at::bigint[], $nominal_at::bigint[],
    $seq::bigint[], $attempt::integer[], $crashes::integer[], $started::bigint[], $priority::integer[],
    $payload::bytea[]
) AS a (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
ORDER BY a.cls, a.key, a.name
