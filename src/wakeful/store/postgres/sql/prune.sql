WITH old_requests AS (
    SELECT cls, key, request FROM wakeful.requests WHERE expires_at <= $now::bigint ORDER BY expires_at LIMIT $limit::bigint
),
-- The oldest numbers are the oldest runs, give or take the nodes' clocks: no need to look far past the limit.
first AS MATERIALIZED (
    SELECT number, finished_at, cls, key, name, run_id
    FROM wakeful.ledger
    WHERE $entries_before::bigint > 0 AND number > $settled::bigint
    ORDER BY number
    LIMIT 1000 + 2 * $limit::bigint
),
-- Unless the clock was far ahead for a while: behind the rows of then are others, so each call looks on a little further.
later AS MATERIALIZED (
    SELECT number, finished_at, cls, key, name, run_id
    FROM wakeful.ledger
    WHERE EXISTS (SELECT FROM first WHERE finished_at >= $entries_before::bigint)
        AND number > greatest($behind::bigint, $settled::bigint, (SELECT max(number) FROM first))
    ORDER BY number
    LIMIT 1000 + 2 * $limit::bigint
),
-- The newest verdict, and its attempts, of a name that lasts stay (see `Store.prune`). OFFSET 0 keeps the planner from
-- reading a whole table into a hash: each is a look into an index.
aged AS MATERIALIZED (
    SELECT f.number
    FROM (SELECT * FROM first UNION ALL SELECT * FROM later) AS f
    WHERE f.finished_at < $entries_before::bigint
        AND CASE
            WHEN f.name LIKE 'job%' THEN true
            WHEN EXISTS (
                SELECT FROM wakeful.ledger AS n
                WHERE n.cls = f.cls AND n.key = f.key AND n.name = f.name AND n.number > f.number AND n.run_id <> f.run_id
                    AND (
                        n.verdict <> 'failed'
                        OR EXISTS (
                            SELECT FROM wakeful.ledger AS m
                            WHERE m.cls = f.cls AND m.key = f.key AND m.name = f.name AND m.number > n.number
                                AND m.run_id <> f.run_id AND m.run_id <> n.run_id
                        )
                    )
            ) THEN true
            WHEN EXISTS (
                SELECT FROM wakeful.timers AS t WHERE t.cls = f.cls AND t.key = f.key AND t.name = f.name OFFSET 0
            ) THEN false
            WHEN EXISTS (
                SELECT FROM wakeful.storage AS s
                WHERE s.cls = f.cls AND s.key = f.key AND s.space = 1 AND s.name = convert_to(f.name, 'UTF8')
                OFFSET 0
            ) THEN false
            WHEN f.name = 'alarm' THEN NOT EXISTS (
                SELECT FROM wakeful.objects AS o WHERE o.cls = f.cls AND o.key = f.key AND o.rows > 0 OFFSET 0
            )
            ELSE true
        END
    ORDER BY f.number
    LIMIT $limit::bigint
),
old_entries AS (
    SELECT number FROM aged
    UNION
    SELECT l.number
    FROM unnest($cls::text[], $key::text[], $name::text[], $keep::bigint[]) AS c (cls, key, name, keep)
    CROSS JOIN LATERAL (
        SELECT e.number
        FROM wakeful.ledger AS e
        WHERE e.cls = c.cls AND e.key = c.key AND e.name = c.name
        ORDER BY e.number DESC
        OFFSET c.keep
    ) AS l
),
requests AS (
    DELETE FROM wakeful.requests AS r
    USING old_requests AS o
    WHERE r.cls = o.cls AND r.key = o.key AND r.request = o.request
    RETURNING 1
),
receipts AS (
    DELETE FROM wakeful.receipts WHERE expires_at <= $now::bigint
),
entries AS (
    DELETE FROM wakeful.ledger AS l USING old_entries AS o WHERE l.number = o.number RETURNING 1
)
SELECT (SELECT count(*) FROM requests) + (SELECT count(*) FROM entries) AS n,
    CASE
        WHEN (SELECT count(*) FROM later) < 1000 + 2 * $limit::bigint THEN 0  -- that was the end: from the front again
        WHEN (SELECT count(*) FROM aged) >= $limit::bigint THEN $behind::bigint  -- there may be more of them here
        ELSE (SELECT max(number) FROM later)
    END AS behind,
    CASE
        WHEN (SELECT count(*) FROM aged) >= $limit::bigint THEN $settled::bigint
        ELSE coalesce(
            (SELECT min(number) - 1 FROM first WHERE finished_at >= $entries_before::bigint),
            (SELECT max(number) FROM first),
            $settled::bigint
        )
    END AS settled,
    -- All were old, and there may be more: look on at once.
    (SELECT count(*) FROM first WHERE finished_at < $entries_before::bigint) >= 1000 + 2 * $limit::bigint AS is_walking
