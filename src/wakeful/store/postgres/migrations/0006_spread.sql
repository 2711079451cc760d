-- A class on several servers: which of its shards are here, and which server of which spread this is.
ALTER TABLE wakeful.shards ADD COLUMN state smallint NOT NULL DEFAULT 0;
ALTER TABLE wakeful.shards ADD COLUMN term bigint NOT NULL DEFAULT 0;

CREATE TABLE wakeful.spread (
    one     smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    version bigint   NOT NULL,
    spread  text     NOT NULL,
    server  text     NOT NULL,
    map     bytea
);
