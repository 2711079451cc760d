-- All of some objects, then sorted: for when they are few.
SELECT a.cls, a.key, a.name, a.due_at, a.nominal_at, a.seq, a.attempt, a.crashes, a.started, a.priority, a.payload
FROM wakeful.timers AS a
WHERE a.cls = ANY ($classes::text[])
    AND (a.due_at, -a.priority, a.seq) > ($after_due_at::bigint, $after_rank::integer, $after_seq::bigint)
    --? key
    AND a.key = $key::text
    --.
    --? key_first
    AND a.key >= $key_first::text
    --.
    --? key_last
    AND a.key < $key_last::text
    --.
    --? key_contains
    AND position(lower($key_contains::text COLLATE "C") IN lower(a.key COLLATE "C")) > 0
    --.
    --? name
    AND a.name = $name::text
    --.
    --? name_first
    AND a.name >= $name_first::text
    --.
    --? name_last
    AND a.name < $name_last::text
    --.
ORDER BY a.due_at, -a.priority, a.seq
LIMIT $limit::bigint
