SELECT number, cls, key, name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload,
    run_id, parked_at, attempts, reason, error, traceback
FROM wakeful.parked
WHERE number > $after::bigint
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
ORDER BY number
LIMIT $limit::bigint
