UPDATE wakeful.parked
SET payload = $new_payload::bytea, error = $new_error::text, traceback = $new_traceback::text
WHERE number = $number::bigint
RETURNING 1
