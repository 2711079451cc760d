-- The objects that timers from outside wait for; those that are there stay as they are.
INSERT INTO wakeful.objects (cls, key, created_at, active_at, rows, bytes)
SELECT a.cls, a.key, $now::bigint, $now::bigint, 0, 0
FROM unnest($cls::text[], $key::text[]) AS a (cls, key)
ON CONFLICT (cls, key) DO NOTHING
