-- Slots with rows that are not to be looked at: they were copied here and have not arrived, or have left and are not removed.
SELECT shard FROM wakeful.shards WHERE state = 2
