INSERT INTO wakeful.nodes (node, address, joined_at, lease_until, about, cluster, version, has_session)
VALUES (
    $node::text, $address::text, $joined_at::bigint, $lease_until::bigint, $about::text, $cluster::text,
    $version::integer, $has_session::boolean
)
ON CONFLICT (node) DO UPDATE
    SET address = EXCLUDED.address, lease_until = EXCLUDED.lease_until, about = EXCLUDED.about,
        cluster = EXCLUDED.cluster, version = EXCLUDED.version, has_session = EXCLUDED.has_session
