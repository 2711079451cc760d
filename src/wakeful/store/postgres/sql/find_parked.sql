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
ORDER BY number
LIMIT $limit::bigint
