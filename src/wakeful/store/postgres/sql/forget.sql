DELETE FROM wakeful.receipts WHERE id = ANY ($ids::text[])
