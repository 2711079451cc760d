SELECT cls, key, created_at, active_at, rows, bytes
FROM wakeful.objects
WHERE (cls, key) > ($after_cls::text, $after_key::text)
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
ORDER BY cls, key
LIMIT $limit::bigint
