-- Newest first until the page is full. IS TRUE keeps the planner from collecting by class and sorting instead.
SELECT number, cls, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed, is_backfill,
    covers, first_at
FROM wakeful.ledger
WHERE number < $before::bigint
    --? cls
    AND (cls = $cls::text) IS TRUE
    --.
    --? key
    AND (key = $key::text) IS TRUE
    --.
    --? key_first
    AND (key >= $key_first::text) IS TRUE
    --.
    --? key_last
    AND (key < $key_last::text) IS TRUE
    --.
    --? key_contains
    AND position(lower($key_contains::text COLLATE "C") IN lower(key COLLATE "C")) > 0
    --.
    --? name
    AND (name = $name::text) IS TRUE
    --.
    --? name_first
    AND (name >= $name_first::text) IS TRUE
    --.
    --? name_last
    AND (name < $name_last::text) IS TRUE
    --.
ORDER BY number DESC
LIMIT $limit::bigint
