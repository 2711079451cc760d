-- One index probe per class instead of one row per object.
WITH RECURSIVE known AS (
    (SELECT cls FROM wakeful.objects ORDER BY cls LIMIT 1)
    UNION ALL
    SELECT (SELECT o.cls FROM wakeful.objects AS o WHERE o.cls > k.cls ORDER BY o.cls LIMIT 1)
    FROM known AS k
    WHERE k.cls IS NOT NULL
)
SELECT cls FROM known WHERE cls IS NOT NULL
