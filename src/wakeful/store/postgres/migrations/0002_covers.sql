-- One ledger row may stand for several occurrences; those that are there stand for one each.
ALTER TABLE wakeful.ledger
    ADD COLUMN first_at bigint  NOT NULL DEFAULT 0,
    ADD COLUMN covers   integer NOT NULL DEFAULT 1;
