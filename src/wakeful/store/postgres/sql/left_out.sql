-- Which places of what was sent under this number were left out when it was taken.
SELECT answer FROM wakeful.receipts WHERE id = $receipt::text AND number = $number::bigint AND answer IS NOT NULL
