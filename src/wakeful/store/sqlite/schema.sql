-- The database as a reader reads it: what the migrations add up to (a test proves the two equal).
-- Times are milliseconds UTC. Text compares byte by byte in UTF-8, which is the order of keys everywhere.

-- Every object that ever wrote something or was given a timer.
-- `rows` and `bytes` (UTF-8 length of the storage key plus length of the value, of all spaces) are kept
-- by the triggers on `kv` below, so no path into `kv` can get them wrong.
CREATE TABLE objects (
  class      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  shard      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  active_at  INTEGER NOT NULL,
  rows       INTEGER NOT NULL DEFAULT 0,
  bytes      INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (class, key)
) WITHOUT ROWID;

-- An object's storage. space 0: what its own code stores; 1: what Wakeful keeps beside it;
-- 2: the pages of its database; 3: the undo images of its commits.
CREATE TABLE kv (
  class TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  space INTEGER NOT NULL,
  name  TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (class, key, space, name)
) WITHOUT ROWID;

-- length() of text stops at a NUL, of a blob it does not: hence the CAST.
CREATE TRIGGER kv_added AFTER INSERT ON kv BEGIN
  UPDATE objects
     SET rows = rows + 1, bytes = bytes + length(CAST(new.name AS BLOB)) + length(new.value)
   WHERE class = new.class AND key = new.key;
END;

CREATE TRIGGER kv_changed AFTER UPDATE ON kv WHEN length(new.value) <> length(old.value) BEGIN
  UPDATE objects
     SET bytes = bytes + length(new.value) - length(old.value)
   WHERE class = new.class AND key = new.key;
END;

CREATE TRIGGER kv_removed AFTER DELETE ON kv BEGIN
  UPDATE objects
     SET rows = rows - 1, bytes = bytes - length(CAST(old.name AS BLOB)) - length(old.value)
   WHERE class = old.class AND key = old.key;
END;

-- Everything that waits, kept in the order of firing, so that a page of what is due next lies together
-- (an index instead costs a jump per timer). `rank` is minus the priority: (due_at, rank, seq) ascending
-- is that order, and one row-value comparison finds the next page.
CREATE TABLE timers (
  due_at     INTEGER NOT NULL,
  rank       INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  class      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  shard      INTEGER NOT NULL,
  nominal_at INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  crashes    INTEGER NOT NULL,
  started    INTEGER NOT NULL,
  payload    BLOB,
  PRIMARY KEY (due_at, rank, seq, class, key, name)
) WITHOUT ROWID;

CREATE UNIQUE INDEX timers_name ON timers (class, key, name);

-- What happened to every attempt of every timer. A row may stand for several occurrences (`covers`), of
-- which `first_at` is the first and `nominal_at` the last; `first_at` 0 says that the two are the same.
CREATE TABLE ledger (
  number      INTEGER PRIMARY KEY,
  class       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  run_id      TEXT    NOT NULL,
  nominal_at  INTEGER NOT NULL,
  fired_at    INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  verdict     TEXT    NOT NULL,
  node        TEXT    NOT NULL,
  error       TEXT,
  missed      INTEGER NOT NULL,
  is_backfill INTEGER NOT NULL,
  covers      INTEGER NOT NULL DEFAULT 1,
  first_at    INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX ledger_timer ON ledger (class, key, name);

-- Timers that failed for good, until a person redrives or drops them.
-- AUTOINCREMENT: a number that was dropped never comes back meaning another row.
CREATE TABLE parked (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  class      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  due_at     INTEGER NOT NULL,
  nominal_at INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  crashes    INTEGER NOT NULL,
  started    INTEGER NOT NULL,
  rank       INTEGER NOT NULL,
  payload    BLOB,
  run_id     TEXT    NOT NULL,
  parked_at  INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  reason     TEXT    NOT NULL,
  error      TEXT    NOT NULL,
  traceback  TEXT    NOT NULL
);

CREATE INDEX parked_timer ON parked (class, key, name);

-- What was taken from those who may ask again because an answer was lost: of each the last number, and what was said.
CREATE TABLE receipts (
  id         TEXT    NOT NULL PRIMARY KEY,
  number     INTEGER NOT NULL,
  answer     BLOB,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

-- First answers to request keys.
CREATE TABLE requests (
  class       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  request     TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL,
  answer      BLOB    NOT NULL,
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY (class, key, request)
) WITHOUT ROWID;

CREATE INDEX requests_expiry ON requests (expires_at);

-- Who is there. One process at a time owns a file, so this says who it is, or was.
CREATE TABLE nodes (
  node        TEXT    NOT NULL PRIMARY KEY,
  address     TEXT    NOT NULL,
  joined_at   INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  about       TEXT    NOT NULL,
  cluster     TEXT    NOT NULL DEFAULT '',
  version     INTEGER NOT NULL DEFAULT 1,
  is_draining INTEGER NOT NULL DEFAULT 0,
  lease_ms    INTEGER NOT NULL DEFAULT 5000
) WITHOUT ROWID;

-- Who may write: 256 rows. The epoch is raised at every change of owner and checked inside every commit.
CREATE TABLE shards (
  shard INTEGER PRIMARY KEY,
  owner TEXT,
  epoch INTEGER NOT NULL
);

-- Which migrations this database was given; PRAGMA user_version is the number of the last.
CREATE TABLE migrations (
  name       TEXT    NOT NULL PRIMARY KEY,
  applied_at INTEGER NOT NULL
) WITHOUT ROWID;
