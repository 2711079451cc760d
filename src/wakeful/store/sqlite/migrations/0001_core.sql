-- The first schema: objects and their storage, timers, ledger, parked timers, requests, nodes, shards.
-- What each table is for is written in ../schema.sql. Never change a migration that was released.

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

CREATE TABLE kv (
  class TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  space INTEGER NOT NULL,
  name  TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (class, key, space, name)
) WITHOUT ROWID;

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
  is_backfill INTEGER NOT NULL
);

CREATE INDEX ledger_timer ON ledger (class, key, name);

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

CREATE TABLE nodes (
  node        TEXT    NOT NULL PRIMARY KEY,
  address     TEXT    NOT NULL,
  joined_at   INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  about       TEXT    NOT NULL
) WITHOUT ROWID;

CREATE TABLE shards (
  shard INTEGER PRIMARY KEY,
  owner TEXT,
  epoch INTEGER NOT NULL
);

CREATE TABLE migrations (
  name       TEXT    NOT NULL PRIMARY KEY,
  applied_at INTEGER NOT NULL
) WITHOUT ROWID;

WITH RECURSIVE n(shard) AS (VALUES (0) UNION ALL SELECT shard + 1 FROM n WHERE shard < 255)
INSERT INTO shards SELECT shard, NULL, 0 FROM n;
