-- In the order of the primary key until the page is full. IS TRUE keeps the planner from going by expiry instead.
SELECT cls, key, request, fingerprint, answer, expires_at
FROM wakeful.requests
WHERE (cls, key, request) > ($after_cls::text, $after_key::text, $after_request::bytea)
    AND (expires_at > $now::bigint) IS TRUE
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
    AND request = $name::bytea
    --.
    --? name_first
    AND request >= $name_first::bytea
    --.
    --? name_last
    AND request < $name_last::bytea
    --.
ORDER BY cls, key, request
LIMIT $limit::bigint
