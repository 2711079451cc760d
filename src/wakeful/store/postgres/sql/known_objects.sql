-- Those of these objects that are there.
SELECT o.cls, o.key
FROM unnest($cls::text[], $key::text[]) AS a (cls, key)
JOIN wakeful.objects AS o ON o.cls = a.cls AND o.key = a.key
