SELECT name, value
FROM wakeful.storage
WHERE cls = $cls::text AND key = $key::text AND space = $space::smallint AND name >= $first::bytea
    --? last
    AND name < $last::bytea
    --.
ORDER BY name
--? reverse
    DESC
--.
--? limit
LIMIT $limit::bigint
--.
