SELECT count(*) AS n
FROM wakeful.parked
--? cls
WHERE cls = $cls::text
--.
