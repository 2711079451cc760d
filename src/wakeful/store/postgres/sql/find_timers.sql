-- Shard by shard in the order of firing until a page is full. IS TRUE keeps the planner from collecting by class,
-- once for every shard, instead.
SELECT t.*
FROM unnest($shards::smallint[]) AS w (shard)
CROSS JOIN LATERAL (
    SELECT a.cls, a.key, a.name, a.due_at, a.nominal_at, a.seq, a.attempt, a.crashes, a.started, a.priority, a.payload
    FROM wakeful.timers AS a
    WHERE a.shard = w.shard
        AND (a.due_at, -a.priority, a.seq) > ($after_due_at::bigint, $after_rank::integer, $after_seq::bigint)
        --? cls
        AND (a.cls = $cls::text) IS TRUE
        --.
        --? key
        AND (a.key = $key::text) IS TRUE
        --.
        --? key_first
        AND (a.key >= $key_first::text) IS TRUE
        --.
        --? key_last
        AND (a.key < $key_last::text) IS TRUE
        --.
        --? key_contains
        AND position(lower($key_contains::text COLLATE "C") IN lower(a.key COLLATE "C")) > 0
        --.
        --? name
        AND (a.name = $name::text) IS TRUE
        --.
        --? name_first
        AND (a.name >= $name_first::text) IS TRUE
        --.
        --? name_last
        AND (a.name < $name_last::text) IS TRUE
        --.
    ORDER BY a.due_at, -a.priority, a.seq
    LIMIT $limit::bigint
) AS t
ORDER BY t.due_at, -t.priority, t.seq
LIMIT $limit::bigint
