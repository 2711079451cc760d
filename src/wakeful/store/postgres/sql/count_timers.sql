SELECT count(*) AS n
FROM wakeful.timers
--? cls
WHERE cls = $cls::text
--.
