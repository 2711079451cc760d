-- Note that what was sent under this number is taken; nothing comes back when it was before.
INSERT INTO wakeful.receipts AS r (id, number, expires_at)
VALUES ($receipt::text, $number::bigint, $expires_at::bigint)
ON CONFLICT (id) DO UPDATE SET number = EXCLUDED.number, expires_at = EXCLUDED.expires_at WHERE r.number < EXCLUDED.number
RETURNING 1
