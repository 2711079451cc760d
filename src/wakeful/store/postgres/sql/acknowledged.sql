-- The last statement of the writer that this server has.
SELECT number FROM wakeful.receipts WHERE id = $writer::text
