-- What was taken from those who may ask again because an answer was lost.
CREATE TABLE wakeful.receipts (
    number     bigint NOT NULL,
    expires_at bigint NOT NULL,
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    answer     bytea
) WITH (fillfactor = 50);
