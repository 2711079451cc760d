SELECT shard, owner, epoch FROM wakeful.shards ORDER BY shard
