-- What each object needs to wake: its row, its alarm, and its storage when that is small, else its state, how many
-- migrations it has had, whether it is to be forgotten, where its history begins, and the first pages of its database.
-- Names come in one text: in an array each of them would cost a connection that also reads arrays a microsecond.
SELECT i.n, o.created_at, o.active_at, o.rows, o.bytes,
    t.due_at, t.nominal_at, t.seq, t.attempt, t.crashes, t.started, t.priority, t.payload,
    s.spaces, s.names, s.vals
FROM unnest(string_to_array($cls::text, $between::text), string_to_array($key::text, $between::text)) WITH ORDINALITY AS i (cls, key, n)
JOIN wakeful.objects AS o ON o.cls = i.cls AND o.key = i.key
LEFT JOIN wakeful.timers AS t ON t.cls = i.cls AND t.key = i.key AND t.name = $alarm::text
CROSS JOIN LATERAL (
    SELECT array_agg(r.space) AS spaces, array_agg(r.name) AS names, array_agg(r.value) AS vals
    FROM (
        SELECT a.space, a.name, a.value
        FROM wakeful.storage AS a
        WHERE o.rows <= $rows_max::integer AND o.bytes <= $bytes_max::bigint AND a.cls = i.cls AND a.key = i.key
        UNION ALL
        SELECT b.space, b.name, b.value
        FROM wakeful.storage AS b
        WHERE (o.rows > $rows_max::integer OR o.bytes > $bytes_max::bigint)
            AND b.cls = i.cls AND b.key = i.key AND b.space = 1
            AND b.name IN (  -- state, migrations, forgotten, history
                '\x7374617465', '\x6d6967726174696f6e73', '\x666f72676f7474656e', '\x686973746f7279')
        UNION ALL
        SELECT p.space, p.name, p.value
        FROM wakeful.storage AS p
        WHERE (o.rows > $rows_max::integer OR o.bytes > $bytes_max::bigint)
            AND p.cls = i.cls AND p.key = i.key AND p.space = 2 AND p.name <= $last_page::bytea
    ) AS r
) AS s
