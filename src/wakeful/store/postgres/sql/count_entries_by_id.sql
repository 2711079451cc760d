SELECT cls, key, count(*) AS n
FROM wakeful.ledger
WHERE true
    --? cls
    AND cls = $cls::text
    --.
    --? key_first
    AND key >= $key_first::text
    --.
    --? key_last
    AND key < $key_last::text
    --.
GROUP BY cls, key
