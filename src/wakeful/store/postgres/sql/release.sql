WITH mine AS MATERIALIZED (
    SELECT s.shard
    FROM wakeful.shards AS s, unnest($shards::smallint[], $epochs::bigint[]) AS w (shard, epoch)
    WHERE s.shard = w.shard AND s.epoch = w.epoch AND s.owner = $node::text
    ORDER BY s.shard
    FOR UPDATE OF s
)
UPDATE wakeful.shards AS s SET owner = NULL FROM mine AS m WHERE s.shard = m.shard
