-- Whether that statement of the writer was written. Nothing of it is under way: it would hold a shard that was taken.
SELECT 1 FROM wakeful.receipts WHERE id = $writer::text AND number = $number::bigint
