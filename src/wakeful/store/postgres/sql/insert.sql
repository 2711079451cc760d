-- Timers from outside a turn, and the objects they wait for. No fence: anybody may add. A name that is taken
-- fails the statement, and so nothing of it is left; unless each is for itself, then it is left out.
WITH asked AS (
    SELECT a.*
    FROM unnest(
        $cls::text[], $key::text[], $name::text[], $shard::smallint[], $due_at::bigint[], $nominal_at::bigint[],
        $seq::bigint[], $attempt::integer[], $crashes::integer[], $started::bigint[], $priority::integer[],
        $payload::bytea[]
    ) WITH ORDINALITY AS a (
        cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload, n
    )
)
--? guards
-- What is in the way of those that are guarded, as this statement sees the tables: `there` is a timer of the name, which
-- the insert will meet too, unless it ends meanwhile.
, guarded AS MATERIALIZED (
    SELECT g.n, g.cls, g.key, g.name,
        EXISTS (
            SELECT FROM wakeful.timers AS t WHERE t.cls = g.cls AND t.key = g.key AND t.name = g.name
        ) AS there,
        EXISTS (
            SELECT FROM wakeful.requests AS r
            WHERE r.cls = g.cls AND r.key = g.key AND r.request = g.request AND r.expires_at > $now::bigint
        ) OR EXISTS (
            SELECT FROM wakeful.parked AS p WHERE p.cls = g.cls AND p.key = g.key AND p.name = g.name
        ) OR EXISTS (
            SELECT FROM wakeful.timers AS e
            WHERE e.cls = g.cls AND e.key = g.key AND e.name >= g.first AND e.name < g.last
        ) AS barred
    FROM unnest(
        $guard_n::bigint[], $guard_cls::text[], $guard_key::text[], $guard_name::text[], $guard_request::bytea[],
        $guard_first::text[], $guard_last::text[]
    ) AS g (n, cls, key, name, request, first, last)
)
--.
--? receipt
-- One who asks again waits here for the first try, if that is still under way, and then finds its number.
, receipt AS (
    INSERT INTO wakeful.receipts AS r (id, number, expires_at, answer)
    SELECT $receipt::text,
        --? guards
        --? all
        -CASE WHEN EXISTS (SELECT FROM guarded WHERE barred) THEN 1 ELSE 0 END +
        --.
        --.
        $number::bigint, $expires_at::bigint,
        --? each
        (SELECT convert_to(string_agg((n - 1)::text, ','), 'UTF8') FROM guarded WHERE barred OR there)
        --.
        --? all
        NULL
        --.
    ON CONFLICT (id) DO UPDATE SET number = EXCLUDED.number, answer = EXCLUDED.answer,
        expires_at = CASE WHEN EXCLUDED.number < $number::bigint THEN r.expires_at ELSE EXCLUDED.expires_at END
        WHERE r.number < $number::bigint
    RETURNING 1
)
--.
, object AS (
    INSERT INTO wakeful.objects (cls, key, created_at, active_at, rows, bytes)
    SELECT DISTINCT a.cls, a.key, $now::bigint, $now::bigint, 0, 0
    FROM asked AS a
    WHERE true
        --? receipt
        AND EXISTS (SELECT FROM receipt)
        --.
        --? guards
        --? all
        AND NOT EXISTS (SELECT FROM guarded WHERE barred)
        --.
        --.
    ORDER BY a.cls, a.key  -- so that two that add the same can't deadlock
    ON CONFLICT (cls, key) DO NOTHING
)
--? guards
, timer AS (
--.
INSERT INTO wakeful.timers
    (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
SELECT a.cls, a.key, a.name, a.shard, a.due_at, a.nominal_at, a.seq, a.attempt, a.crashes, a.started, a.priority, a.payload
FROM asked AS a
WHERE true
    --? receipt
    AND EXISTS (SELECT FROM receipt)
    --.
    --? guards
    --? all
    AND NOT EXISTS (SELECT FROM guarded WHERE barred)
    --.
    --? each
    AND a.n NOT IN (SELECT n FROM guarded WHERE barred)
    --.
    --.
ORDER BY a.cls, a.key, a.name
--? each
ON CONFLICT (cls, key, name) DO NOTHING
--.
--? guards
    RETURNING cls, key, name
)
-- Where the insert met something, and where it may have slipped in behind a timer of its name that was just ending.
SELECT a.n - 1 AS place, false AS slipped,
    --? receipt
    EXISTS (SELECT FROM receipt) AS first
    --.
    --? bare
    true AS first
    --.
FROM asked AS a
WHERE NOT EXISTS (SELECT FROM timer AS t WHERE t.cls = a.cls AND t.key = a.key AND t.name = a.name)
UNION ALL
SELECT g.n - 1, true, true
FROM guarded AS g
JOIN timer AS t ON t.cls = g.cls AND t.key = g.key AND t.name = g.name
WHERE g.there
--.
