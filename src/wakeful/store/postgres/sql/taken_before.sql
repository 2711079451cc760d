-- Whether an insert of that number, or a later one, was taken from whoever sent it.
SELECT 1 FROM wakeful.receipts WHERE id = $receipt::text AND number >= $number::bigint
