-- One group of commits, in one statement and so in one transaction.
--
-- All or nothing by fence: when a single shard is not ours at the epoch we think, nothing is written and
-- the shards that are ours come back, so that the rest can be sent again without the fenced ones. Under
-- READ COMMITTED a commit that had to wait for a claim checks the row as the claim left it.
--
-- Every part sees the rows as they were before the statement, and may touch a row once: the caller has
-- already folded all commits of an object into one final state.
WITH locked AS MATERIALIZED (
    SELECT s.shard
    FROM wakeful.shards AS s
    WHERE s.shard = ANY ($shards::smallint[])
        AND s.owner = $node::text
        AND s.epoch = ($epochs::bigint[])[array_position($shards::smallint[], s.shard)]
    ORDER BY s.shard  -- as a claim does, so that the two can't deadlock
    FOR SHARE
),
-- Each statement of a writer has a number, and one that comes again because its answer was lost does nothing: here it
-- waits for the first to end, and finds that this number was written.
receipt AS (
    INSERT INTO wakeful.receipts AS r (id, number, expires_at)
    SELECT $writer::text, $number::bigint, $keep_until::bigint
    WHERE (SELECT count(*) = cardinality($shards::smallint[]) FROM locked)
    ON CONFLICT (id) DO UPDATE SET number = EXCLUDED.number, expires_at = EXCLUDED.expires_at
        WHERE r.number < EXCLUDED.number
    RETURNING 1
),
fence AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM receipt) AS ok
)
--? wipes
, wiped AS (
    DELETE FROM wakeful.storage AS s
    USING unnest($wipe_cls::text[], $wipe_key::text[]) AS w (cls, key)
    WHERE (SELECT ok FROM fence)
        AND s.cls = w.cls AND s.key = w.key AND s.space = 0
        AND (s.cls, s.key, s.name) NOT IN (
            SELECT k.cls, k.key, k.name
            FROM unnest($keep_cls::text[], $keep_key::text[], $keep_name::bytea[]) AS k (cls, key, name)
        )
    RETURNING s.cls, s.key, octet_length(s.name) + octet_length(s.value) AS size
)
--.
--? deletes
, deleted AS (
    DELETE FROM wakeful.storage AS s
    USING unnest($delete_cls::text[], $delete_key::text[], $delete_space::smallint[], $delete_name::bytea[])
        AS d (cls, key, space, name)
    WHERE (SELECT ok FROM fence)
        AND s.cls = d.cls AND s.key = d.key AND s.space = d.space AND s.name = d.name
    RETURNING s.cls, s.key, octet_length(s.name) + octet_length(s.value) AS size
)
--.
--? puts
, replaced AS (
    SELECT p.cls, p.key, s.size
    FROM unnest($put_cls::text[], $put_key::text[], $put_space::smallint[], $put_name::bytea[])
        AS p (cls, key, space, name)
    CROSS JOIN LATERAL (
        SELECT octet_length(o.name) + octet_length(o.value) AS size
        FROM wakeful.storage AS o
        WHERE o.cls = p.cls AND o.key = p.key AND o.space = p.space AND o.name = p.name
        OFFSET 0
    ) AS s
    WHERE (SELECT ok FROM fence)
),
put AS (
    INSERT INTO wakeful.storage (cls, key, space, name, value)
    SELECT p.cls, p.key, p.space, p.name, p.value
    FROM unnest($put_cls::text[], $put_key::text[], $put_space::smallint[], $put_name::bytea[], $put_value::bytea[])
        AS p (cls, key, space, name, value)
    WHERE (SELECT ok FROM fence)
    ON CONFLICT (cls, key, space, name) DO UPDATE SET value = EXCLUDED.value
)
--.
--? objects
, object AS (
    INSERT INTO wakeful.objects AS o (cls, key, created_at, active_at, rows, bytes)
    SELECT c.cls, c.key, max(c.created_at), max(c.active_at), sum(c.rows), sum(c.bytes)
    FROM (
        SELECT a.cls, a.key, a.created_at, a.active_at, a.rows, a.bytes
        FROM unnest(
            $cls::text[], $key::text[], $created_at::bigint[], $active_at::bigint[], $rows::integer[], $bytes::bigint[]
        ) AS a (cls, key, created_at, active_at, rows, bytes)
        --? puts
        UNION ALL SELECT cls, key, NULL, NULL, -1, -size FROM replaced
        --.
        --? deletes
        UNION ALL SELECT cls, key, NULL, NULL, -1, -size FROM deleted
        --.
        --? wipes
        UNION ALL SELECT cls, key, NULL, NULL, -1, -size FROM wiped
        --.
        --? makes
        -- Objects that are sent something and write nothing themselves in this group. Those that are there are not
        -- even locked: many may send to one.
        UNION ALL
        SELECT m.cls, m.key, m.at, m.at, 0, 0
        FROM unnest($make_cls::text[], $make_key::text[], $make_at::bigint[]) AS m (cls, key, at)
        WHERE NOT EXISTS (SELECT FROM wakeful.objects AS e WHERE e.cls = m.cls AND e.key = m.key)
        --.
    ) AS c
    WHERE (SELECT ok FROM fence)
    GROUP BY c.cls, c.key
    ORDER BY c.cls, c.key  -- as all who add objects do, so that no two can deadlock over new ones
    ON CONFLICT (cls, key) DO UPDATE
        SET rows = o.rows + EXCLUDED.rows, bytes = o.bytes + EXCLUDED.bytes, active_at = EXCLUDED.active_at
        --? makes
        -- One that somebody else made meanwhile stays as it is.
        WHERE (o.cls, o.key) NOT IN (SELECT m.cls, m.key FROM unnest($make_cls::text[], $make_key::text[]) AS m (cls, key))
        --.
)
--.
--? clears
, cleared AS (
    DELETE FROM wakeful.timers AS t
    USING unnest($clear_cls::text[], $clear_key::text[], $clear_name::text[], $clear_seq::bigint[])
        AS c (cls, key, name, seq)
    WHERE (SELECT ok FROM fence)
        AND t.cls = c.cls AND t.key = c.key AND t.name = c.name AND c.seq IN (0, t.seq)
)
--.
--? sets
, timer AS (
    INSERT INTO wakeful.timers AS t
        (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
    SELECT s.cls, s.key, s.name, s.shard, s.due_at, s.nominal_at, s.seq, s.attempt, s.crashes, s.started, s.priority,
        s.payload
    FROM unnest(
        $set_cls::text[], $set_key::text[], $set_name::text[], $set_shard::smallint[], $set_due_at::bigint[],
        $set_nominal_at::bigint[], $set_seq::bigint[], $set_attempt::integer[], $set_crashes::integer[],
        $set_started::bigint[], $set_priority::integer[], $set_payload::bytea[]
    ) AS s (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
    WHERE (SELECT ok FROM fence)
    ON CONFLICT (cls, key, name) DO UPDATE
        SET due_at = EXCLUDED.due_at, nominal_at = EXCLUDED.nominal_at, seq = EXCLUDED.seq,
            attempt = EXCLUDED.attempt, crashes = EXCLUDED.crashes, started = EXCLUDED.started,
            priority = EXCLUDED.priority, payload = EXCLUDED.payload
)
--.
--? starts
, started AS (
    UPDATE wakeful.timers AS t
    SET started = s.epoch, crashes = s.crashes
    FROM unnest(
        $start_cls::text[], $start_key::text[], $start_name::text[], $start_seq::bigint[], $start_epoch::bigint[],
        $start_crashes::integer[]
    ) AS s (cls, key, name, seq, epoch, crashes)
    WHERE (SELECT ok FROM fence)
        AND t.cls = s.cls AND t.key = s.key AND t.name = s.name AND t.seq = s.seq
)
--.
--? sends
, sent AS (
    INSERT INTO wakeful.timers
        (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
    SELECT s.cls, s.key, s.name, s.shard, s.due_at, s.nominal_at, s.seq, s.attempt, s.crashes, s.started, s.priority,
        s.payload
    FROM unnest(
        $send_cls::text[], $send_key::text[], $send_name::text[], $send_shard::smallint[], $send_due_at::bigint[],
        $send_nominal_at::bigint[], $send_seq::bigint[], $send_attempt::integer[], $send_crashes::integer[],
        $send_started::bigint[], $send_priority::integer[], $send_payload::bytea[]
    ) AS s (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
    WHERE (SELECT ok FROM fence)
    ON CONFLICT (cls, key, name) DO NOTHING
)
--.
--? resends
-- Sends of names that the same commit clears: in one statement that is a change of the row, if it is the cleared one.
, resent AS (
    INSERT INTO wakeful.timers AS t
        (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
    SELECT s.cls, s.key, s.name, s.shard, s.due_at, s.nominal_at, s.seq, s.attempt, s.crashes, s.started, s.priority,
        s.payload
    FROM unnest(
        $resend_cls::text[], $resend_key::text[], $resend_name::text[], $resend_shard::smallint[],
        $resend_due_at::bigint[], $resend_nominal_at::bigint[], $resend_seq::bigint[], $resend_attempt::integer[],
        $resend_crashes::integer[], $resend_started::bigint[], $resend_priority::integer[], $resend_payload::bytea[]
    ) AS s (cls, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)
    WHERE (SELECT ok FROM fence)
    ON CONFLICT (cls, key, name) DO UPDATE
        SET due_at = EXCLUDED.due_at, nominal_at = EXCLUDED.nominal_at, seq = EXCLUDED.seq,
            attempt = EXCLUDED.attempt, crashes = EXCLUDED.crashes, started = EXCLUDED.started,
            priority = EXCLUDED.priority, payload = EXCLUDED.payload
        WHERE EXISTS (
            SELECT FROM unnest($over_cls::text[], $over_key::text[], $over_name::text[], $over_seq::bigint[])
                AS v (cls, key, name, seq)
            WHERE v.cls = t.cls AND v.key = t.key AND v.name = t.name AND v.seq IN (0, t.seq)
        )
)
--.
--? entries
, entry AS (
    INSERT INTO wakeful.ledger (
        cls, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed, is_backfill,
        covers, first_at
    )
    SELECT e.cls, e.key, e.name, e.run_id, e.nominal_at, e.fired_at, e.finished_at, e.attempt, e.verdict, e.node,
        e.error, e.missed, e.is_backfill, e.covers, e.first_at
    FROM unnest(
        $entry_cls::text[], $entry_key::text[], $entry_name::text[], $entry_run_id::text[],
        $entry_nominal_at::bigint[], $entry_fired_at::bigint[], $entry_finished_at::bigint[],
        $entry_attempt::integer[], $entry_verdict::text[], $entry_node::text[], $entry_error::text[],
        $entry_missed::integer[], $entry_is_backfill::boolean[], $entry_covers::integer[], $entry_first_at::bigint[]
    ) WITH ORDINALITY AS e (
        cls, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed, is_backfill,
        covers, first_at, n
    )
    WHERE (SELECT ok FROM fence)
    ORDER BY e.n  -- numbers are given in this order
)
--.
--? parks
, park AS (
    INSERT INTO wakeful.parked (
        cls, key, name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload,
        run_id, parked_at, attempts, reason, error, traceback
    )
    SELECT p.cls, p.key, p.name, p.due_at, p.nominal_at, p.seq, p.attempt, p.crashes, p.started, p.priority, p.payload,
        p.run_id, p.parked_at, p.attempts, p.reason, p.error, p.traceback
    FROM unnest(
        $park_cls::text[], $park_key::text[], $park_name::text[], $park_due_at::bigint[], $park_nominal_at::bigint[],
        $park_seq::bigint[], $park_attempt::integer[], $park_crashes::integer[], $park_started::bigint[],
        $park_priority::integer[], $park_payload::bytea[], $park_run_id::text[], $park_parked_at::bigint[],
        $park_attempts::integer[], $park_reason::text[], $park_error::text[], $park_traceback::text[]
    ) WITH ORDINALITY AS p (
        cls, key, name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload,
        run_id, parked_at, attempts, reason, error, traceback, n
    )
    WHERE (SELECT ok FROM fence)
    ORDER BY p.n
)
--.
--? unparks
, unparked AS (
    DELETE FROM wakeful.parked WHERE (SELECT ok FROM fence) AND number = ANY ($unparks::bigint[])
)
--.
--? remembers
, remembered AS (
    INSERT INTO wakeful.requests (cls, key, request, fingerprint, answer, expires_at)
    SELECT r.cls, r.key, r.request, r.fingerprint, r.answer, r.expires_at
    FROM unnest(
        $remember_cls::text[], $remember_key::text[], $remember_request::bytea[], $remember_fingerprint::bytea[],
        $remember_answer::bytea[], $remember_expires_at::bigint[]
    ) AS r (cls, key, request, fingerprint, answer, expires_at)
    WHERE (SELECT ok FROM fence)
    ON CONFLICT (cls, key, request) DO UPDATE
        SET fingerprint = EXCLUDED.fingerprint, answer = EXCLUDED.answer, expires_at = EXCLUDED.expires_at
)
--.
SELECT
    shard, ok
    --? lazy
    , set_config('synchronous_commit', 'off', true)
    --.
FROM locked, fence
