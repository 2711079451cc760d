SELECT n.node, n.address, n.joined_at, n.lease_until, n.about, n.cluster, n.version, n.is_draining,
    n.lease_ms, n.has_session
    --? held
    -- With the first row alone: beside each of a thousand they would be a million numbers.
    , CASE WHEN row_number() OVER (ORDER BY n.node) = 1 THEN h.held END AS held
    --.
FROM wakeful.nodes AS n
--? held
-- Read once, after the nodes: who has joined since has its lock already.
CROSS JOIN (
    SELECT array_agg(l.objid::bigint) AS held
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = $lock_class::bigint::oid
        AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
) AS h
--.
ORDER BY n.node
