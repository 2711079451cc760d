-- Who holds a table of ours, or waits for it in front of us, so that a write must wait, or even a read. Takes no lock on
-- any of them. The server's own processes, which have no role, let go as soon as somebody waits.
SELECT c.relname::text AS "table", l.pid, l.virtualtransaction AS transaction,
    bool_and(l.mode <> 'AccessExclusiveLock') AS is_readable
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
-- The table of migrations is needed by nobody but a node that starts.
WHERE l.locktype = 'relation' AND n.nspname = $schema::text AND c.relkind = 'r' AND c.relname <> 'migrations'
    AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = l.pid AND a.usesysid IS NULL)
GROUP BY 1, 2, 3, l.granted
ORDER BY l.granted DESC, 1
LIMIT 20
