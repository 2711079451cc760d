-- Waits for commits in flight, which hold these rows in share mode; locks in order, so that claims and
-- commits can't deadlock.
WITH mine AS MATERIALIZED (
    SELECT shard
    FROM wakeful.shards
    WHERE shard = ANY ($shards::smallint[])
        AND state = 0  -- else it lives on another server, and whoever had it would see nothing of what happens there
        --? seen
        AND epoch = ($seen::bigint[])[array_position($shards::smallint[], shard)]
        --.
    ORDER BY shard
    FOR UPDATE
)
UPDATE wakeful.shards AS s
SET owner = $node::text, epoch = s.epoch + 1, claimed_at = $now::bigint
FROM mine AS m
WHERE s.shard = m.shard
RETURNING s.shard, s.epoch
