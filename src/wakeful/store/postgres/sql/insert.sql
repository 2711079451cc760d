-- Timers from outside a turn, and the objects they wait for. No fence: anybody may add. A name that is taken
-- fails the statement, and so nothing of it is left. When each is for itself, what is seen to be in the way is left out;
-- what comes to be there meanwhile fails it too, unless it `meets`: then it is left out as well, at the price of one
-- more look for every timer.
WITH asked AS (
    SELECT a.*
    FROM unnest(
        $cls::text[], $key::text[], $name::text[], $shard::smallint[], $due_at::bigint[], $nominal_at::bigint[],
        $seq::bigint[], $attempt::integer[], $crashes::integer[], $started::bigint[], $priority::integer[],
        $payload::bytea[]
        --? guards
        , $request::bytea[], $first::text[], $last::text[]
        --.
    ) WITH ORDINALITY AS a (
        cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload,
        --? guards
        request, first, last,
        --.
        n
    )
    --? guards
    ORDER BY a.cls, a.key, a.name  -- neighbours are looked up one after the other
    --.
)
--? guards
-- What is in the way of those that are guarded, as this statement sees the tables: `there` is a timer of the name, which
-- the insert will meet too, unless it ends meanwhile. Each is looked up in an index by itself: of an EXISTS the server
-- may choose to read the whole table once instead, if the table was small when the plan was made.
, guarded AS MATERIALIZED (
    SELECT a.n, a.cls, a.key, a.name,
        (
            SELECT true FROM wakeful.timers AS t WHERE t.cls = a.cls AND t.key = a.key AND t.name = a.name
        ) IS NOT NULL AS there,
        (
            SELECT true FROM wakeful.requests AS r
            WHERE r.cls = a.cls AND r.key = a.key AND r.request = a.request AND r.expires_at > $now::bigint
        ) IS NOT NULL OR (
            SELECT true FROM wakeful.parked AS p WHERE p.cls = a.cls AND p.key = a.key AND p.name = a.name LIMIT 1
        ) IS NOT NULL OR (
            SELECT true FROM wakeful.timers AS e
            WHERE e.cls = a.cls AND e.key = a.key AND e.name >= a.first AND e.name < a.last LIMIT 1
        ) IS NOT NULL AS barred
    FROM asked AS a
    WHERE a.request IS NOT NULL
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
    AND a.n NOT IN (
        SELECT n FROM guarded WHERE barred
        --? leaves
        OR there
        --.
    )
    --.
    --.
ORDER BY a.cls, a.key, a.name
--? meets
ON CONFLICT (cls, key, name) DO NOTHING
--.
--? guards
    RETURNING cls, key, name
)
-- Where the insert met something, and where it may have slipped in behind a timer of its name that was just ending.
-- Nearly always it is nowhere, which is known by counting. What is in is looked for by NOT IN and within a CASE, which
-- the server answers from a hash: a join would compare all with all, for it may only loop (see wire.py).
SELECT a.n - 1 AS place, false AS slipped,
    --? receipt
    EXISTS (SELECT FROM receipt) AS first
    --.
    --? bare
    true AS first
    --.
FROM asked AS a
WHERE (SELECT count(*) FROM timer) < cardinality($cls::text[])
    AND (a.cls, a.key, a.name) NOT IN (SELECT t.cls, t.key, t.name FROM timer AS t)
UNION ALL
SELECT g.n - 1, true, true
FROM guarded AS g
WHERE CASE WHEN g.there THEN (g.cls, g.key, g.name) IN (SELECT t.cls, t.key, t.name FROM timer AS t) END
--.
