SELECT fingerprint, answer, expires_at
FROM wakeful.requests
WHERE cls = $cls::text AND key = $key::text AND request = $request::bytea AND expires_at > $now::bigint
