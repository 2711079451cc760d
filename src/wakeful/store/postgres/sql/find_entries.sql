SELECT number, cls, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed, is_backfill
FROM wakeful.ledger
WHERE number < $before::bigint
    --? cls
    AND cls = $cls::text
    --.
    --? key
    AND key = $key::text
    --.
    --? key_contains
    AND position($key_contains::text IN key) > 0
    --.
    --? name
    AND name = $name::text
    --.
ORDER BY number DESC
LIMIT $limit::bigint
