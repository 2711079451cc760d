UPDATE wakeful.timers
SET payload = $new_payload::bytea
WHERE cls = $cls::text AND key = $key::text AND name = $name::text AND payload = $old_payload::bytea
RETURNING 1
