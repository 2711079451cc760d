-- Every static statement of the SQLite store, by name. Statements of many rows are made in statements.py.

-- name: begin
BEGIN IMMEDIATE

-- name: data_version
-- Changes only when another connection committed, so our own commits don't make us read the shards again.
PRAGMA data_version

-- name: all_shards
SELECT shard, owner, epoch FROM shards ORDER BY shard

-- name: claim
UPDATE shards SET owner = ?, epoch = epoch + 1 WHERE shard = ? AND epoch = coalesce(?, epoch)

-- name: release
UPDATE shards SET owner = NULL WHERE shard = ? AND owner = ? AND epoch = ?

-- name: join
INSERT INTO nodes (node, address, joined_at, lease_until, about, cluster, version, lease_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (node) DO UPDATE
SET address = excluded.address, lease_until = excluded.lease_until, about = excluded.about, cluster = excluded.cluster,
    version = excluded.version, lease_ms = excluded.lease_ms

-- name: leave
DELETE FROM nodes WHERE node = ?

-- name: all_nodes
SELECT node, address, joined_at, lease_until, about, cluster, version, is_draining, lease_ms FROM nodes ORDER BY node

-- name: drain
UPDATE nodes SET is_draining = ? WHERE node = ?

-- name: find_timer
SELECT class, key, name, due_at, nominal_at, seq, attempt, crashes, started, rank, payload FROM timers
 WHERE class = ? AND key = ? AND name = ?

-- name: last_timer
-- Of those whose names begin so, the last that fires.
SELECT class, key, name, due_at, nominal_at, seq, attempt, crashes, started, rank, payload FROM timers
 WHERE class = ? AND key = ? AND name >= ? AND name < ? ORDER BY due_at DESC, rank DESC, seq DESC LIMIT 1

-- name: last_parked
SELECT number, class, key, name, due_at, nominal_at, seq, attempt, crashes, started, rank, payload,
       run_id, parked_at, attempts, reason, error, traceback
  FROM parked WHERE class = ? AND key = ? AND name = ? ORDER BY number DESC LIMIT 1

-- name: find_receipt
SELECT number, answer FROM receipts WHERE id = ?

-- name: keep_receipt
REPLACE INTO receipts (id, number, answer, expires_at) VALUES (?, ?, ?, ?)

-- name: keep_newer_receipt
INSERT INTO receipts (id, number, answer, expires_at) VALUES (?, ?, NULL, ?)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, answer = NULL, expires_at = excluded.expires_at
WHERE excluded.number > number

-- name: forget_receipt
UPDATE receipts SET expires_at = ? WHERE id = ?

-- name: prune_receipts
DELETE FROM receipts WHERE expires_at <= ?

-- name: find_mark
SELECT 1 FROM kv WHERE class = ? AND key = ? AND space = 1 AND name = 'forgotten'

-- name: erase_rows
-- Of a statement that takes some of many rows it is said which: a bucket's log does it again elsewhere, with the same effect.
DELETE FROM kv WHERE (class, key, space, name) IN
 (SELECT class, key, space, name FROM kv
   WHERE class = ? AND key = ? AND NOT (space = 1 AND name = 'forgotten') ORDER BY class, key, space, name LIMIT ?)

-- name: erase_ledger
DELETE FROM ledger WHERE number IN
 (SELECT number FROM ledger WHERE class = ? AND key = ? ORDER BY class, key, name, number LIMIT ?)

-- name: erase_parked
DELETE FROM parked WHERE number IN
 (SELECT number FROM parked WHERE class = ? AND key = ? ORDER BY class, key, name, number LIMIT ?)

-- name: erase_requests
DELETE FROM requests WHERE (class, key, request) IN
 (SELECT class, key, request FROM requests WHERE class = ? AND key = ? ORDER BY class, key, request LIMIT ?)

-- name: erase_mark
DELETE FROM kv WHERE class = ? AND key = ? AND space = 1 AND name = 'forgotten'

-- name: erase_timer
DELETE FROM timers WHERE class = ? AND key = ? AND name = 'forget'

-- name: erase_object
DELETE FROM objects WHERE class = ? AND key = ?
   AND NOT EXISTS (SELECT 1 FROM timers AS t WHERE t.class = objects.class AND t.key = objects.key)

-- name: remake_object
UPDATE objects SET created_at = ?, active_at = ? WHERE class = ? AND key = ?

-- name: load_object
-- One row for each of the object's rows when they are few. The CASE makes the key of the search NULL for
-- a large object, so that none of its rows is looked at. (ROWS_MAX, BYTES_MAX, and of many objects: statements.py.)
-- The numbers of the alarm are one text: each column is described to Python whenever this is asked, and most have no alarm.
SELECT k.space, k.name, k.value, o.created_at, o.active_at, o.rows, o.bytes,
       t.due_at || ' ' || t.nominal_at || ' ' || t.seq || ' ' || t.attempt || ' ' || t.crashes || ' ' || t.started || ' ' || t.rank,
       t.payload
  FROM objects AS o
  LEFT JOIN timers AS t ON t.class = o.class AND t.key = o.key AND t.name = 'alarm'
  LEFT JOIN kv AS k ON k.class = CASE WHEN o.rows <= ROWS_MAX AND o.bytes <= BYTES_MAX THEN o.class END AND k.key = o.key
 WHERE o.class = ? AND o.key = ?

-- name: load_large
-- Of a large object: its state, how many migrations it has had, whether it is to be forgotten, where its history begins,
-- and the first pages of its database.
SELECT space, name, value FROM kv
 WHERE class = ? AND key = ? AND space = 1 AND name IN ('state', 'migrations', 'forgotten', 'history')
UNION ALL
SELECT space, name, value FROM kv WHERE class = ? AND key = ? AND space = 2 AND name <= ?

-- name: scan
SELECT name, value FROM kv
 WHERE class = ? AND key = ? AND space = ? AND name >= ?
 ORDER BY name LIMIT ?

-- name: scan_reverse
SELECT name, value FROM kv
 WHERE class = ? AND key = ? AND space = ? AND name >= ?
 ORDER BY name DESC LIMIT ?

-- name: scan_until
SELECT name, value FROM kv
 WHERE class = ? AND key = ? AND space = ? AND name >= ? AND name < ?
 ORDER BY name LIMIT ?

-- name: scan_until_reverse
SELECT name, value FROM kv
 WHERE class = ? AND key = ? AND space = ? AND name >= ? AND name < ?
 ORDER BY name DESC LIMIT ?

-- name: recall
SELECT request, fingerprint, answer, expires_at FROM requests
 WHERE class = ? AND key = ? AND request = ? AND expires_at > ?

-- name: known_classes
-- Jumps from class to class in the primary key instead of reading every object.
WITH RECURSIVE known (class) AS (
  SELECT min(class) FROM objects
  UNION ALL
  SELECT (SELECT min(class) FROM objects WHERE class > known.class) FROM known WHERE known.class IS NOT NULL
)
SELECT class FROM known WHERE class IS NOT NULL

-- name: prune_requests
DELETE FROM requests WHERE (class, key, request) IN
 (SELECT class, key, request FROM requests WHERE expires_at <= ? ORDER BY expires_at, class, key, request LIMIT ?)

-- name: prune_crowded
DELETE FROM ledger WHERE number IN
 (SELECT number FROM ledger WHERE class = ? AND key = ? AND name = ? ORDER BY number DESC LIMIT -1 OFFSET ?)

-- name: prune_end
-- The last number of so many rows, or of all that there are.
SELECT max(number) FROM (SELECT number FROM ledger WHERE number > ? ORDER BY number LIMIT ?)

-- name: ledger_end
SELECT max(number) FROM ledger

-- name: prune_young
SELECT min(number) FROM ledger WHERE number > ? AND number <= ? AND finished_at >= ?

-- name: prune_ledger
-- Numbers are given in the order of finishing, near enough, so the old ones are among the first: an
-- index on finished_at would cost every commit more than it saves here. What stays: the newest verdict, and its
-- attempts, of a name that lasts (see `Store.prune`).
DELETE FROM ledger WHERE number IN
 (SELECT r.number FROM ledger AS r
   WHERE r.number > ? AND r.number <= ? AND r.finished_at < ?
     AND (r.name GLOB 'job*'
       OR EXISTS (SELECT 1 FROM ledger AS n INDEXED BY ledger_timer
                   WHERE n.class = r.class AND n.key = r.key AND n.name = r.name AND n.number > r.number
                     AND n.run_id <> r.run_id
                     AND (n.verdict <> 'failed'
                       OR EXISTS (SELECT 1 FROM ledger AS m INDEXED BY ledger_timer
                                   WHERE m.class = r.class AND m.key = r.key AND m.name = r.name AND m.number > n.number
                                     AND m.run_id <> r.run_id AND m.run_id <> n.run_id)))
       OR NOT (EXISTS (SELECT 1 FROM timers AS t WHERE t.class = r.class AND t.key = r.key AND t.name = r.name)
         OR EXISTS (SELECT 1 FROM kv WHERE kv.class = r.class AND kv.key = r.key AND kv.space = 1 AND kv.name = r.name)
         OR (r.name = 'alarm'
           AND EXISTS (SELECT 1 FROM objects AS o WHERE o.class = r.class AND o.key = r.key AND o.rows > 0))))
   ORDER BY r.number LIMIT ?)
