WITH old_requests AS (
    SELECT cls, key, request FROM wakeful.requests WHERE expires_at <= $now::bigint ORDER BY expires_at LIMIT $limit::bigint
),
old_entries AS (
    (
        -- The oldest numbers are the oldest runs, give or take the nodes' clocks: no need to look far past the limit.
        SELECT f.number
        FROM (SELECT number, finished_at FROM wakeful.ledger ORDER BY number LIMIT 1000 + 2 * $limit::bigint) AS f
        WHERE f.finished_at < $entries_before::bigint
        ORDER BY f.number
        LIMIT $limit::bigint
    )
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
entries AS (
    DELETE FROM wakeful.ledger AS l USING old_entries AS o WHERE l.number = o.number RETURNING 1
)
SELECT (SELECT count(*) FROM requests) + (SELECT count(*) FROM entries) AS n
