-- One that lives on another server of a spread is nobody's here; its row may name who is moving it.
SELECT shard, CASE WHEN state IN (0, 3) THEN owner END AS owner, epoch, state NOT IN (0, 3) AS is_away, term, state = 3 AS is_leaving
FROM wakeful.shards
ORDER BY shard
