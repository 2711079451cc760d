-- A piece of what is kept of an object that is marked as forgotten: nothing without the mark, however late this arrives.
-- `end` is asked for when nothing else should be left, and looks for itself: a row that changed hands with `swap` while it
-- was to be deleted is there still.
WITH locked AS MATERIALIZED (
    SELECT shard
    FROM wakeful.shards
    WHERE shard = $shard::smallint AND owner = $node::text AND epoch = $epoch::bigint
    FOR SHARE
),
marked AS MATERIALIZED (
    SELECT FROM wakeful.storage
    WHERE cls = $cls::text AND key = $key::text AND space = 1 AND name = '\x666f72676f7474656e'  -- forgotten
        AND EXISTS (SELECT FROM locked)
        --? end
        AND NOT EXISTS (
            SELECT FROM wakeful.storage
            WHERE cls = $cls::text AND key = $key::text AND NOT (space = 1 AND name = '\x666f72676f7474656e')
        )
        AND NOT EXISTS (SELECT FROM wakeful.ledger WHERE cls = $cls::text AND key = $key::text)
        AND NOT EXISTS (SELECT FROM wakeful.parked WHERE cls = $cls::text AND key = $key::text)
        AND NOT EXISTS (SELECT FROM wakeful.requests WHERE cls = $cls::text AND key = $key::text)
        --.
)
--? rows
, stored AS (
    DELETE FROM wakeful.storage
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM wakeful.storage
        WHERE cls = $cls::text AND key = $key::text AND NOT (space = 1 AND name = '\x666f72676f7474656e')
            AND EXISTS (SELECT FROM marked)
        LIMIT $limit::bigint
    ))
    RETURNING 1
),
entry AS (
    DELETE FROM wakeful.ledger
    WHERE number IN (
        SELECT number FROM wakeful.ledger
        WHERE cls = $cls::text AND key = $key::text AND EXISTS (SELECT FROM marked)
        LIMIT $limit::bigint
    )
    RETURNING 1
),
park AS (
    DELETE FROM wakeful.parked
    WHERE number IN (
        SELECT number FROM wakeful.parked
        WHERE cls = $cls::text AND key = $key::text AND EXISTS (SELECT FROM marked)
        LIMIT $limit::bigint
    )
    RETURNING 1
),
answer AS (
    DELETE FROM wakeful.requests
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM wakeful.requests
        WHERE cls = $cls::text AND key = $key::text AND EXISTS (SELECT FROM marked)
        LIMIT $limit::bigint
    ))
    RETURNING 1
)
--.
--? end
, mark AS (
    DELETE FROM wakeful.storage
    WHERE cls = $cls::text AND key = $key::text AND space = 1 AND name = '\x666f72676f7474656e'
        AND EXISTS (SELECT FROM marked)
),
timer AS (
    DELETE FROM wakeful.timers
    WHERE cls = $cls::text AND key = $key::text AND name = 'forget' AND EXISTS (SELECT FROM marked)
),
others AS MATERIALIZED (
    SELECT FROM wakeful.timers WHERE cls = $cls::text AND key = $key::text AND name <> 'forget' LIMIT 1
),
object AS (
    DELETE FROM wakeful.objects
    WHERE cls = $cls::text AND key = $key::text AND EXISTS (SELECT FROM marked) AND NOT EXISTS (SELECT FROM others)
),
remade AS (
    UPDATE wakeful.objects
    SET created_at = $now::bigint, active_at = $now::bigint, rows = 0, bytes = 0
    WHERE cls = $cls::text AND key = $key::text AND EXISTS (SELECT FROM marked) AND EXISTS (SELECT FROM others)
)
--.
SELECT
    EXISTS (SELECT FROM locked) AS is_ours,
    EXISTS (SELECT FROM marked) AS is_marked,
    --? rows
    (SELECT count(*) FROM stored) + (SELECT count(*) FROM entry) + (SELECT count(*) FROM park)
        + (SELECT count(*) FROM answer) AS gone
    --.
    --? end
    0 AS gone
    --.
