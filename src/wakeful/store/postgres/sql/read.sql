SELECT s.name, s.value
FROM unnest($names::bytea[]) AS n (name)
JOIN wakeful.storage AS s
    ON s.cls = $cls::text AND s.key = $key::text AND s.space = $space::smallint AND s.name = n.name
