UPDATE wakeful.requests
SET fingerprint = $new_fingerprint::bytea, answer = $new_answer::bytea
WHERE cls = $cls::text AND key = $key::text AND request = $request::bytea
    AND fingerprint = $old_fingerprint::bytea AND answer = $old_answer::bytea
RETURNING 1
