SELECT count(*) AS n
FROM wakeful.objects
--? cls
WHERE cls = $cls::text
--.
