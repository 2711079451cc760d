SELECT count(*) AS n
FROM wakeful.ledger
--? cls
WHERE cls = $cls::text
--.
