-- One ledger row may stand for several occurrences; those that are there stand for one each.
ALTER TABLE ledger ADD COLUMN covers INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ledger ADD COLUMN first_at INTEGER NOT NULL DEFAULT 0;
