-- The slots of an insert: in share mode, so that a move, which changes the row, waits until it is written.
SELECT shard, state NOT IN (0, 3) AS is_away
FROM wakeful.shards
WHERE shard = ANY ($shards::smallint[])
ORDER BY shard  -- as commits and claims do
FOR SHARE
