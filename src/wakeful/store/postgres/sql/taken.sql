-- The timers that have these names already.
SELECT t.cls, t.key, t.name, t.due_at, t.nominal_at, t.seq, t.attempt, t.crashes, t.started, t.priority, t.payload
FROM unnest($cls::text[], $key::text[], $name::text[]) WITH ORDINALITY AS w (cls, key, name, n)
JOIN wakeful.timers AS t ON t.cls = w.cls AND t.key = w.key AND t.name = w.name
ORDER BY w.n
