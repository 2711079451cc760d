-- How many rows some objects have, counted no further than to know that they are not few.
SELECT count(*) AS n
FROM (
    SELECT FROM wakeful.ledger
    WHERE cls = ANY ($classes::text[])
        --? key
        AND key = $key::text
        --? name
        AND name = $name::text
        --.
        --? name_first
        AND name >= $name_first::text
        --.
        --? name_last
        AND name < $name_last::text
        --.
        --.
        --? key_first
        AND key >= $key_first::text
        --.
        --? key_last
        AND key < $key_last::text
        --.
    LIMIT $most::bigint
) AS found
