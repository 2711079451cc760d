-- What was taken from those who may ask again because an answer was lost.
CREATE TABLE receipts (
  id         TEXT    NOT NULL PRIMARY KEY,
  number     INTEGER NOT NULL,
  answer     BLOB,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX parked_timer ON parked (class, key, name);
