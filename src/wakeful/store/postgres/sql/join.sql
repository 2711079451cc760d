INSERT INTO wakeful.nodes (node, address, joined_at, lease_until, about)
VALUES ($node::text, $address::text, $joined_at::bigint, $lease_until::bigint, $about::text)
ON CONFLICT (node) DO UPDATE
    SET address = EXCLUDED.address, lease_until = EXCLUDED.lease_until, about = EXCLUDED.about
