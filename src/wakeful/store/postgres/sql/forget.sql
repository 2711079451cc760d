UPDATE wakeful.receipts SET expires_at = $at::bigint WHERE id = ANY ($ids::text[])
