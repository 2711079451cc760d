-- A lease need not be on disk: it would not outlive its server, and a full queue of commits must not hold it up.
INSERT INTO wakeful.nodes (node, address, joined_at, lease_until, about, cluster, version, has_session, lease_ms)
VALUES (
    $node::text, $address::text, $joined_at::bigint, $lease_until::bigint, $about::text, $cluster::text,
    $version::integer, $has_session::boolean, $lease_ms::integer
)
ON CONFLICT (node) DO UPDATE
    SET address = EXCLUDED.address, lease_until = EXCLUDED.lease_until, about = EXCLUDED.about,
        cluster = EXCLUDED.cluster, version = EXCLUDED.version, has_session = EXCLUDED.has_session,
        lease_ms = EXCLUDED.lease_ms
--? lazy
RETURNING set_config('synchronous_commit', 'off', true)
--.
