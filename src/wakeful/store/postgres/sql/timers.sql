-- The earliest timers of some shards, without reading a million that are due at one instant for one page:
-- each shard gives its first `inner`, and one more to tell that it has more. The smallest of those extra
-- rows is the edge: everything before it is known in every shard.
WITH near AS MATERIALIZED (
    SELECT t.*
    FROM unnest($shards::smallint[]) AS w (shard)
    CROSS JOIN LATERAL (
        SELECT f.*, row_number() OVER (ORDER BY f.due_at, f.rank, f.seq) AS n
        FROM (
            SELECT a.cls, a.key, a.name, a.due_at, a.nominal_at, a.seq, a.attempt, a.crashes, a.started, a.priority,
                a.payload, -a.priority AS rank
            FROM wakeful.timers AS a
            WHERE a.shard = w.shard AND a.due_at <= $until::bigint
                AND (a.due_at, -a.priority, a.seq) > ($after_due_at::bigint, $after_rank::integer, $after_seq::bigint)
            ORDER BY a.due_at, -a.priority, a.seq
            LIMIT $inner::bigint + 1
        ) AS f
    ) AS t
),
edge AS MATERIALIZED (
    SELECT due_at, rank, seq FROM near WHERE n = $inner::bigint + 1 ORDER BY due_at, rank, seq LIMIT 1
)
SELECT n.cls, n.key, n.name, n.due_at, n.nominal_at, n.seq, n.attempt, n.crashes, n.started, n.priority, n.payload,
    e.due_at IS NOT NULL AS more
FROM near AS n
LEFT JOIN edge AS e ON true
WHERE e.due_at IS NULL OR (n.due_at, n.rank, n.seq) < (e.due_at, e.rank, e.seq)
ORDER BY n.due_at, n.rank, n.seq
LIMIT $limit::bigint + 1
