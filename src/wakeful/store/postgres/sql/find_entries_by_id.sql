-- All of some objects, then sorted: for when they are few. `+ 0` keeps the planner from walking by number instead.
SELECT number, cls, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed, is_backfill,
    covers, first_at
FROM wakeful.ledger
WHERE cls = ANY ($classes::text[]) AND number + 0 < $before::bigint
    --? key
    AND key = $key::text
    --.
    --? key_first
    AND key >= $key_first::text
    --.
    --? key_last
    AND key < $key_last::text
    --.
    --? key_contains
    AND position(lower($key_contains::text COLLATE "C") IN lower(key COLLATE "C")) > 0
    --.
    --? name
    AND name = $name::text
    --.
    --? name_first
    AND name >= $name_first::text
    --.
    --? name_last
    AND name < $name_last::text
    --.
ORDER BY number + 0 DESC
LIMIT $limit::bigint
