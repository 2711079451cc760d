WITH old_requests AS (
    SELECT cls, key, request FROM wakeful.requests WHERE expires_at <= $now::bigint ORDER BY expires_at LIMIT $limit::bigint
),
-- The oldest numbers are the oldest runs, give or take the nodes' clocks: no need to look far past the limit.
first AS MATERIALIZED (
    SELECT number, finished_at FROM wakeful.ledger ORDER BY number LIMIT 1000 + 2 * $limit::bigint
),
-- Unless the clock was far ahead for a while: behind the rows of then are others, so each call looks on a little further.
later AS MATERIALIZED (
    SELECT number, finished_at
    FROM wakeful.ledger
    WHERE $entries_before::bigint > 0 AND number > greatest($behind::bigint, (SELECT max(number) FROM first))
    ORDER BY number
    LIMIT 1000 + 2 * $limit::bigint
),
aged AS MATERIALIZED (
    SELECT f.number
    FROM (SELECT * FROM first UNION ALL SELECT * FROM later) AS f
    WHERE f.finished_at < $entries_before::bigint
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
    END AS behind
