-- The shard's row keeps commits of its objects out meanwhile, as a claim does: what an object has in bytes is kept with it.
WITH fence AS MATERIALIZED (
    SELECT shard FROM wakeful.shards WHERE shard = $shard::smallint FOR UPDATE
),
changed AS (
    UPDATE wakeful.storage AS s
    SET value = $new_value::bytea
    FROM fence
    WHERE s.cls = $cls::text AND s.key = $key::text AND s.space = $space::smallint AND s.name = $name::bytea
        AND s.value = $old_value::bytea
    RETURNING 1
),
counted AS (
    UPDATE wakeful.objects AS o
    SET bytes = o.bytes + octet_length($new_value::bytea) - octet_length($old_value::bytea)
    FROM changed
    WHERE o.cls = $cls::text AND o.key = $key::text
        AND octet_length($new_value::bytea) <> octet_length($old_value::bytea)
)
SELECT 1 FROM changed
