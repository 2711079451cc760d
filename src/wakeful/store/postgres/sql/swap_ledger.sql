UPDATE wakeful.ledger SET error = $new_error::text WHERE number = $number::bigint RETURNING 1
