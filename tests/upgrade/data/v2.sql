-- A database of schema 2, with ledger rows that stand for several occurrences. Never change it: it stands for the files people have.
PRAGMA application_id = 1463896901;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE kv (
  class TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  space INTEGER NOT NULL,
  name  TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (class, key, space, name)
) WITHOUT ROWID;
INSERT INTO "kv" VALUES('Order','a',0,'x',X'016F6E65');
INSERT INTO "kv" VALUES('Order','a',1,'state',X'01');
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
INSERT INTO "ledger" VALUES(1,'Order','a','alarm','0a1b2c',1759999999990,1759999999995,1760000000000,1,'failed','node-a','ValueError: é',0,0);
CREATE TABLE migrations (
  name       TEXT    NOT NULL PRIMARY KEY,
  applied_at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "migrations" VALUES('0001_core',1760000000000);
CREATE TABLE nodes (
  node        TEXT    NOT NULL PRIMARY KEY,
  address     TEXT    NOT NULL,
  joined_at   INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  about       TEXT    NOT NULL
) WITHOUT ROWID;
INSERT INTO "nodes" VALUES('node-a','127.0.0.1:7000',1760000000000,1760000005000,'worker.py on host');
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
INSERT INTO "objects" VALUES('Order','a',104,1760000000000,1760000000000,2,11);
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
INSERT INTO "parked" VALUES(1,'Order','a','job:1',1760000000000,1760000000000,5,6,0,0,0,NULL,'ff00',1760000000000,7,'failed','boom','Traceback …');
CREATE TABLE requests (
  class       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  request     TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL,
  answer      BLOB    NOT NULL,
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY (class, key, request)
) WITHOUT ROWID;
INSERT INTO "requests" VALUES('Order','a','request-1',X'0102',X'016F6B',1760086400000);
CREATE TABLE shards (
  shard INTEGER PRIMARY KEY,
  owner TEXT,
  epoch INTEGER NOT NULL
);
INSERT INTO "shards" VALUES(0,'node-a',1);
INSERT INTO "shards" VALUES(1,'node-a',1);
INSERT INTO "shards" VALUES(2,'node-a',1);
INSERT INTO "shards" VALUES(3,'node-a',1);
INSERT INTO "shards" VALUES(4,'node-a',1);
INSERT INTO "shards" VALUES(5,'node-a',1);
INSERT INTO "shards" VALUES(6,'node-a',1);
INSERT INTO "shards" VALUES(7,'node-a',1);
INSERT INTO "shards" VALUES(8,'node-a',1);
INSERT INTO "shards" VALUES(9,'node-a',1);
INSERT INTO "shards" VALUES(10,'node-a',1);
INSERT INTO "shards" VALUES(11,'node-a',1);
INSERT INTO "shards" VALUES(12,'node-a',1);
INSERT INTO "shards" VALUES(13,'node-a',1);
INSERT INTO "shards" VALUES(14,'node-a',1);
INSERT INTO "shards" VALUES(15,'node-a',1);
INSERT INTO "shards" VALUES(16,'node-a',1);
INSERT INTO "shards" VALUES(17,'node-a',1);
INSERT INTO "shards" VALUES(18,'node-a',1);
INSERT INTO "shards" VALUES(19,'node-a',1);
INSERT INTO "shards" VALUES(20,'node-a',1);
INSERT INTO "shards" VALUES(21,'node-a',1);
INSERT INTO "shards" VALUES(22,'node-a',1);
INSERT INTO "shards" VALUES(23,'node-a',1);
INSERT INTO "shards" VALUES(24,'node-a',1);
INSERT INTO "shards" VALUES(25,'node-a',1);
INSERT INTO "shards" VALUES(26,'node-a',1);
INSERT INTO "shards" VALUES(27,'node-a',1);
INSERT INTO "shards" VALUES(28,'node-a',1);
INSERT INTO "shards" VALUES(29,'node-a',1);
INSERT INTO "shards" VALUES(30,'node-a',1);
INSERT INTO "shards" VALUES(31,'node-a',1);
INSERT INTO "shards" VALUES(32,'node-a',1);
INSERT INTO "shards" VALUES(33,'node-a',1);
INSERT INTO "shards" VALUES(34,'node-a',1);
INSERT INTO "shards" VALUES(35,'node-a',1);
INSERT INTO "shards" VALUES(36,'node-a',1);
INSERT INTO "shards" VALUES(37,'node-a',1);
INSERT INTO "shards" VALUES(38,'node-a',1);
INSERT INTO "shards" VALUES(39,'node-a',1);
INSERT INTO "shards" VALUES(40,'node-a',1);
INSERT INTO "shards" VALUES(41,'node-a',1);
INSERT INTO "shards" VALUES(42,'node-a',1);
INSERT INTO "shards" VALUES(43,'node-a',1);
INSERT INTO "shards" VALUES(44,'node-a',1);
INSERT INTO "shards" VALUES(45,'node-a',1);
INSERT INTO "shards" VALUES(46,'node-a',1);
INSERT INTO "shards" VALUES(47,'node-a',1);
INSERT INTO "shards" VALUES(48,'node-a',1);
INSERT INTO "shards" VALUES(49,'node-a',1);
INSERT INTO "shards" VALUES(50,'node-a',1);
INSERT INTO "shards" VALUES(51,'node-a',1);
INSERT INTO "shards" VALUES(52,'node-a',1);
INSERT INTO "shards" VALUES(53,'node-a',1);
INSERT INTO "shards" VALUES(54,'node-a',1);
INSERT INTO "shards" VALUES(55,'node-a',1);
INSERT INTO "shards" VALUES(56,'node-a',1);
INSERT INTO "shards" VALUES(57,'node-a',1);
INSERT INTO "shards" VALUES(58,'node-a',1);
INSERT INTO "shards" VALUES(59,'node-a',1);
INSERT INTO "shards" VALUES(60,'node-a',1);
INSERT INTO "shards" VALUES(61,'node-a',1);
INSERT INTO "shards" VALUES(62,'node-a',1);
INSERT INTO "shards" VALUES(63,'node-a',1);
INSERT INTO "shards" VALUES(64,'node-a',1);
INSERT INTO "shards" VALUES(65,'node-a',1);
INSERT INTO "shards" VALUES(66,'node-a',1);
INSERT INTO "shards" VALUES(67,'node-a',1);
INSERT INTO "shards" VALUES(68,'node-a',1);
INSERT INTO "shards" VALUES(69,'node-a',1);
INSERT INTO "shards" VALUES(70,'node-a',1);
INSERT INTO "shards" VALUES(71,'node-a',1);
INSERT INTO "shards" VALUES(72,'node-a',1);
INSERT INTO "shards" VALUES(73,'node-a',1);
INSERT INTO "shards" VALUES(74,'node-a',1);
INSERT INTO "shards" VALUES(75,'node-a',1);
INSERT INTO "shards" VALUES(76,'node-a',1);
INSERT INTO "shards" VALUES(77,'node-a',1);
INSERT INTO "shards" VALUES(78,'node-a',1);
INSERT INTO "shards" VALUES(79,'node-a',1);
INSERT INTO "shards" VALUES(80,'node-a',1);
INSERT INTO "shards" VALUES(81,'node-a',1);
INSERT INTO "shards" VALUES(82,'node-a',1);
INSERT INTO "shards" VALUES(83,'node-a',1);
INSERT INTO "shards" VALUES(84,'node-a',1);
INSERT INTO "shards" VALUES(85,'node-a',1);
INSERT INTO "shards" VALUES(86,'node-a',1);
INSERT INTO "shards" VALUES(87,'node-a',1);
INSERT INTO "shards" VALUES(88,'node-a',1);
INSERT INTO "shards" VALUES(89,'node-a',1);
INSERT INTO "shards" VALUES(90,'node-a',1);
INSERT INTO "shards" VALUES(91,'node-a',1);
INSERT INTO "shards" VALUES(92,'node-a',1);
INSERT INTO "shards" VALUES(93,'node-a',1);
INSERT INTO "shards" VALUES(94,'node-a',1);
INSERT INTO "shards" VALUES(95,'node-a',1);
INSERT INTO "shards" VALUES(96,'node-a',1);
INSERT INTO "shards" VALUES(97,'node-a',1);
INSERT INTO "shards" VALUES(98,'node-a',1);
INSERT INTO "shards" VALUES(99,'node-a',1);
INSERT INTO "shards" VALUES(100,'node-a',1);
INSERT INTO "shards" VALUES(101,'node-a',1);
INSERT INTO "shards" VALUES(102,'node-a',1);
INSERT INTO "shards" VALUES(103,'node-a',1);
INSERT INTO "shards" VALUES(104,'node-a',1);
INSERT INTO "shards" VALUES(105,'node-a',1);
INSERT INTO "shards" VALUES(106,'node-a',1);
INSERT INTO "shards" VALUES(107,'node-a',1);
INSERT INTO "shards" VALUES(108,'node-a',1);
INSERT INTO "shards" VALUES(109,'node-a',1);
INSERT INTO "shards" VALUES(110,'node-a',1);
INSERT INTO "shards" VALUES(111,'node-a',1);
INSERT INTO "shards" VALUES(112,'node-a',1);
INSERT INTO "shards" VALUES(113,'node-a',1);
INSERT INTO "shards" VALUES(114,'node-a',1);
INSERT INTO "shards" VALUES(115,'node-a',1);
INSERT INTO "shards" VALUES(116,'node-a',1);
INSERT INTO "shards" VALUES(117,'node-a',1);
INSERT INTO "shards" VALUES(118,'node-a',1);
INSERT INTO "shards" VALUES(119,'node-a',1);
INSERT INTO "shards" VALUES(120,'node-a',1);
INSERT INTO "shards" VALUES(121,'node-a',1);
INSERT INTO "shards" VALUES(122,'node-a',1);
INSERT INTO "shards" VALUES(123,'node-a',1);
INSERT INTO "shards" VALUES(124,'node-a',1);
INSERT INTO "shards" VALUES(125,'node-a',1);
INSERT INTO "shards" VALUES(126,'node-a',1);
INSERT INTO "shards" VALUES(127,'node-a',1);
INSERT INTO "shards" VALUES(128,'node-a',1);
INSERT INTO "shards" VALUES(129,'node-a',1);
INSERT INTO "shards" VALUES(130,'node-a',1);
INSERT INTO "shards" VALUES(131,'node-a',1);
INSERT INTO "shards" VALUES(132,'node-a',1);
INSERT INTO "shards" VALUES(133,'node-a',1);
INSERT INTO "shards" VALUES(134,'node-a',1);
INSERT INTO "shards" VALUES(135,'node-a',1);
INSERT INTO "shards" VALUES(136,'node-a',1);
INSERT INTO "shards" VALUES(137,'node-a',1);
INSERT INTO "shards" VALUES(138,'node-a',1);
INSERT INTO "shards" VALUES(139,'node-a',1);
INSERT INTO "shards" VALUES(140,'node-a',1);
INSERT INTO "shards" VALUES(141,'node-a',1);
INSERT INTO "shards" VALUES(142,'node-a',1);
INSERT INTO "shards" VALUES(143,'node-a',1);
INSERT INTO "shards" VALUES(144,'node-a',1);
INSERT INTO "shards" VALUES(145,'node-a',1);
INSERT INTO "shards" VALUES(146,'node-a',1);
INSERT INTO "shards" VALUES(147,'node-a',1);
INSERT INTO "shards" VALUES(148,'node-a',1);
INSERT INTO "shards" VALUES(149,'node-a',1);
INSERT INTO "shards" VALUES(150,'node-a',1);
INSERT INTO "shards" VALUES(151,'node-a',1);
INSERT INTO "shards" VALUES(152,'node-a',1);
INSERT INTO "shards" VALUES(153,'node-a',1);
INSERT INTO "shards" VALUES(154,'node-a',1);
INSERT INTO "shards" VALUES(155,'node-a',1);
INSERT INTO "shards" VALUES(156,'node-a',1);
INSERT INTO "shards" VALUES(157,'node-a',1);
INSERT INTO "shards" VALUES(158,'node-a',1);
INSERT INTO "shards" VALUES(159,'node-a',1);
INSERT INTO "shards" VALUES(160,'node-a',1);
INSERT INTO "shards" VALUES(161,'node-a',1);
INSERT INTO "shards" VALUES(162,'node-a',1);
INSERT INTO "shards" VALUES(163,'node-a',1);
INSERT INTO "shards" VALUES(164,'node-a',1);
INSERT INTO "shards" VALUES(165,'node-a',1);
INSERT INTO "shards" VALUES(166,'node-a',1);
INSERT INTO "shards" VALUES(167,'node-a',1);
INSERT INTO "shards" VALUES(168,'node-a',1);
INSERT INTO "shards" VALUES(169,'node-a',1);
INSERT INTO "shards" VALUES(170,'node-a',1);
INSERT INTO "shards" VALUES(171,'node-a',1);
INSERT INTO "shards" VALUES(172,'node-a',1);
INSERT INTO "shards" VALUES(173,'node-a',1);
INSERT INTO "shards" VALUES(174,'node-a',1);
INSERT INTO "shards" VALUES(175,'node-a',1);
INSERT INTO "shards" VALUES(176,'node-a',1);
INSERT INTO "shards" VALUES(177,'node-a',1);
INSERT INTO "shards" VALUES(178,'node-a',1);
INSERT INTO "shards" VALUES(179,'node-a',1);
INSERT INTO "shards" VALUES(180,'node-a',1);
INSERT INTO "shards" VALUES(181,'node-a',1);
INSERT INTO "shards" VALUES(182,'node-a',1);
INSERT INTO "shards" VALUES(183,'node-a',1);
INSERT INTO "shards" VALUES(184,'node-a',1);
INSERT INTO "shards" VALUES(185,'node-a',1);
INSERT INTO "shards" VALUES(186,'node-a',1);
INSERT INTO "shards" VALUES(187,'node-a',1);
INSERT INTO "shards" VALUES(188,'node-a',1);
INSERT INTO "shards" VALUES(189,'node-a',1);
INSERT INTO "shards" VALUES(190,'node-a',1);
INSERT INTO "shards" VALUES(191,'node-a',1);
INSERT INTO "shards" VALUES(192,'node-a',1);
INSERT INTO "shards" VALUES(193,'node-a',1);
INSERT INTO "shards" VALUES(194,'node-a',1);
INSERT INTO "shards" VALUES(195,'node-a',1);
INSERT INTO "shards" VALUES(196,'node-a',1);
INSERT INTO "shards" VALUES(197,'node-a',1);
INSERT INTO "shards" VALUES(198,'node-a',1);
INSERT INTO "shards" VALUES(199,'node-a',1);
INSERT INTO "shards" VALUES(200,'node-a',1);
INSERT INTO "shards" VALUES(201,'node-a',1);
INSERT INTO "shards" VALUES(202,'node-a',1);
INSERT INTO "shards" VALUES(203,'node-a',1);
INSERT INTO "shards" VALUES(204,'node-a',1);
INSERT INTO "shards" VALUES(205,'node-a',1);
INSERT INTO "shards" VALUES(206,'node-a',1);
INSERT INTO "shards" VALUES(207,'node-a',1);
INSERT INTO "shards" VALUES(208,'node-a',1);
INSERT INTO "shards" VALUES(209,'node-a',1);
INSERT INTO "shards" VALUES(210,'node-a',1);
INSERT INTO "shards" VALUES(211,'node-a',1);
INSERT INTO "shards" VALUES(212,'node-a',1);
INSERT INTO "shards" VALUES(213,'node-a',1);
INSERT INTO "shards" VALUES(214,'node-a',1);
INSERT INTO "shards" VALUES(215,'node-a',1);
INSERT INTO "shards" VALUES(216,'node-a',1);
INSERT INTO "shards" VALUES(217,'node-a',1);
INSERT INTO "shards" VALUES(218,'node-a',1);
INSERT INTO "shards" VALUES(219,'node-a',1);
INSERT INTO "shards" VALUES(220,'node-a',1);
INSERT INTO "shards" VALUES(221,'node-a',1);
INSERT INTO "shards" VALUES(222,'node-a',1);
INSERT INTO "shards" VALUES(223,'node-a',1);
INSERT INTO "shards" VALUES(224,'node-a',1);
INSERT INTO "shards" VALUES(225,'node-a',1);
INSERT INTO "shards" VALUES(226,'node-a',1);
INSERT INTO "shards" VALUES(227,'node-a',1);
INSERT INTO "shards" VALUES(228,'node-a',1);
INSERT INTO "shards" VALUES(229,'node-a',1);
INSERT INTO "shards" VALUES(230,'node-a',1);
INSERT INTO "shards" VALUES(231,'node-a',1);
INSERT INTO "shards" VALUES(232,'node-a',1);
INSERT INTO "shards" VALUES(233,'node-a',1);
INSERT INTO "shards" VALUES(234,'node-a',1);
INSERT INTO "shards" VALUES(235,'node-a',1);
INSERT INTO "shards" VALUES(236,'node-a',1);
INSERT INTO "shards" VALUES(237,'node-a',1);
INSERT INTO "shards" VALUES(238,'node-a',1);
INSERT INTO "shards" VALUES(239,'node-a',1);
INSERT INTO "shards" VALUES(240,'node-a',1);
INSERT INTO "shards" VALUES(241,'node-a',1);
INSERT INTO "shards" VALUES(242,'node-a',1);
INSERT INTO "shards" VALUES(243,'node-a',1);
INSERT INTO "shards" VALUES(244,'node-a',1);
INSERT INTO "shards" VALUES(245,'node-a',1);
INSERT INTO "shards" VALUES(246,'node-a',1);
INSERT INTO "shards" VALUES(247,'node-a',1);
INSERT INTO "shards" VALUES(248,'node-a',1);
INSERT INTO "shards" VALUES(249,'node-a',1);
INSERT INTO "shards" VALUES(250,'node-a',1);
INSERT INTO "shards" VALUES(251,'node-a',1);
INSERT INTO "shards" VALUES(252,'node-a',1);
INSERT INTO "shards" VALUES(253,'node-a',1);
INSERT INTO "shards" VALUES(254,'node-a',1);
INSERT INTO "shards" VALUES(255,'node-a',1);
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
INSERT INTO "timers" VALUES(1760000060000,-3,7,'Order','a','alarm',104,1760000060000,1,0,0,X'70');
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
CREATE UNIQUE INDEX timers_name ON timers (class, key, name);
CREATE INDEX ledger_timer ON ledger (class, key, name);
CREATE INDEX requests_expiry ON requests (expires_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('parked',1);
ALTER TABLE ledger ADD COLUMN covers INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ledger ADD COLUMN first_at INTEGER NOT NULL DEFAULT 0;
INSERT INTO "migrations" VALUES('0002_covers',1760000000000);
COMMIT;
