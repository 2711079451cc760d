-- What there is in the way of timers that are to be inserted; of the guarded ones the answer, the parked timer and
-- another timer, too.
SELECT w.n - 1 AS place,
    t.cls, t.key, t.name, t.due_at, t.nominal_at, t.seq, t.attempt, t.crashes, t.started, t.priority, t.payload,
    r.request, r.fingerprint, r.answer, r.expires_at,
    p.number, p.cls, p.key, p.name, p.due_at, p.nominal_at, p.seq, p.attempt, p.crashes, p.started, p.priority, p.payload,
    p.run_id, p.parked_at, p.attempts, p.reason, p.error, p.traceback
FROM unnest($cls::text[], $key::text[], $name::text[], $request::bytea[], $first::text[], $last::text[])
    WITH ORDINALITY AS w (cls, key, name, request, first, last, n)
LEFT JOIN LATERAL (
    -- Two looks into the index: for one with OR all timers of the object may be read, for each of these.
    SELECT f.*
    FROM (
        SELECT e.*, true AS is_named FROM wakeful.timers AS e WHERE e.cls = w.cls AND e.key = w.key AND e.name = w.name
        UNION ALL
        SELECT e.*, false FROM wakeful.timers AS e
        WHERE e.cls = w.cls AND e.key = w.key AND e.name >= w.first AND e.name < w.last
    ) AS f
    ORDER BY f.is_named DESC, f.due_at DESC, f.priority, f.seq DESC
    LIMIT 1
) AS t ON true
LEFT JOIN wakeful.requests AS r
    ON r.cls = w.cls AND r.key = w.key AND r.request = w.request AND r.expires_at > $now::bigint
LEFT JOIN LATERAL (
    SELECT q.*
    FROM wakeful.parked AS q
    WHERE w.request IS NOT NULL AND q.cls = w.cls AND q.key = w.key AND q.name = w.name
    ORDER BY q.number DESC
    LIMIT 1
) AS p ON true
WHERE t.cls IS NOT NULL OR r.cls IS NOT NULL OR p.cls IS NOT NULL
ORDER BY w.n
