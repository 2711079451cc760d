"""What is done to an object's database and to its rows without waiting, on both sides, one list of steps for each name."""

from typing import Any

from tests.workerd.steps import ALL, Step, plan, run, soon, wait

ITEMS = ["sql", "CREATE TABLE items (name TEXT UNIQUE, qty INTEGER)"]
ADD = "INSERT INTO items VALUES (?, ?)"
NAMES = ["sql", "SELECT name FROM items ORDER BY name"]
THREE = "SELECT column1 AS a, column2 AS b FROM (VALUES (1, 'x'), (2, 'y'), (3, 'z'))"


def items(*names: str) -> list[Any]:
    return ["sql", "INSERT INTO items (name) VALUES " + ", ".join(f"('{name}')" for name in names)]


SQL: dict[str, list[Step]] = {
    "sql: what a query gives": [
        run(
            ["sql", "SELECT 123"],
            ["sql", "SELECT 'hello'"],
            ["sql", "SELECT x'00ff' AS b, NULL AS n, 1.5 AS f, 'x' || char(0) || 'y' AS t"],
            ["sql", "SELECT 1 AS a, 2 AS b, 3 AS a"],
            ["sql", "SELECT 1 WHERE 0"],
        ),
    ],
    "sql: what can be bound": [
        run(
            *(
                ["sql", "SELECT ? AS v, typeof(?1) AS t", value]
                for value in (
                    1,
                    1.5,
                    -7,
                    "text",
                    "",
                    "ümläut 😀",
                    None,
                    True,
                    False,
                    {"special": "bytes"},
                    {"special": "nan"},
                    {"special": "big"},
                )
            )
        ),
        run(["sql", "SELECT ? / 2 AS half, ? || '' AS text", 7, 7], ["sql", "SELECT 7 / 2 AS half, 7.0 AS whole"]),
        run(
            ["sql", "SELECT ?"],
            ["sql", "SELECT ?", 1, 2],
            ["sql", "SELECT 1", 1],
            ["sql", "SELECT ? AS a, ? AS b", 1, 2],
            ["sql", "SELECT ?2 AS a, ?1 AS b", 1, 2],
            ["sql", "SELECT :a AS a, @b AS b, $c AS c", 1, 2, 3],
            ["sql", "SELECT :a AS a, :a AS b", 1],
        ),
    ],
    "sql: numbers in columns": [
        run(
            ["sql", "CREATE TABLE t (i INTEGER, n, s TEXT, r REAL)"],
            ["sql", "INSERT INTO t VALUES (?, ?, ?, ?)", 5, 5, 5, 5],
            ["sql", "SELECT i, n, s, r, typeof(i) AS a, typeof(n) AS b, typeof(s) AS c, typeof(r) AS d FROM t"],
            ["sql", "SELECT n FROM t WHERE i = ? AND n = ? LIMIT ?", 5, 5, 1],
        ),
    ],
    "sql: what is no value of a column": [
        run(
            *(["sql", "SELECT ? AS v", value] for value in ({"special": "function"}, {"special": "set"}, [1], {"a": 1}))
        ),
    ],
    "sql: texts that are no statement": [
        run(
            *(
                ["sql", text]
                for text in ("", ";", "  -- nothing", "SELECT ;", "SELEKT 1", "SELECT * FROM nothing", "SELECT 'x")
            )
        ),
        run(["sql", 5], ["sql", None]),
    ],
    "sql: several statements": [
        run(
            ["sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT * FROM t"],
            ["sql", "INSERT INTO t VALUES (3); SELECT ? AS x;", 4],
            ["sql", "INSERT INTO t VALUES (?); SELECT 1", 4],
            ["sql", "INSERT INTO t VALUES (6); SELECT nothing"],
            ["sql", "SELECT a FROM t"],
        ),
        run(["sql", "SELECT a FROM t"]),
    ],
    "sql: a cursor is read once": [
        run(
            ["cursor", THREE, ["columns", "array", "array", "rest", "next", "columns"]],
            ["cursor", THREE, ["next", "rest", "next"]],
            ["cursor", THREE, ["next", "array", "next"]],
            ["cursor", THREE, ["raw", "raw", "rest"]],
            ["cursor", THREE, ["next", "raw array"]],
            ["cursor", THREE, ["next", "next", "next", "next", "next"]],
        ),
    ],
    "sql: one()": [
        run(
            ["cursor", "SELECT 1 AS a", ["one", "one"]],
            ["cursor", THREE, ["one", "rest"]],
            ["cursor", "SELECT 1 WHERE 0", ["one"]],
            ["cursor", THREE, ["next", "next", "one"]],
        ),
    ],
    "sql: raw() has columns of the same name": [
        run(["cursor", "SELECT 1 AS a, 2 AS a, x'01' AS b", ["columns", "raw"]]),
    ],
    "sql: a cursor without rows": [
        run(
            ["cursor", "CREATE TABLE t (a)", ["columns", "next", "array"]],
            ["cursor", "SELECT * FROM t", ["columns", "array", "one"]],
        ),
    ],
    "sql: returning": [
        run(
            ITEMS,
            ["sql", "INSERT INTO items VALUES ('a', 1), ('b', 2) RETURNING name, qty * 2 AS twice"],
            ["sql", "UPDATE items SET qty = qty + 1 RETURNING qty"],
            ["cursor", "DELETE FROM items RETURNING name", ["next", NAMES, "rest"]],
        ),
    ],
    "sql: rows written": [
        run(
            ["sql", "CREATE TABLE t (a)"],
            ["cursor", "INSERT INTO t VALUES (1), (2), (3)", ["written", "array", "written"]],
            ["cursor", "UPDATE t SET a = 4 WHERE a > 1", ["written"]],
            ["cursor", "DELETE FROM t", ["written"]],
            ["cursor", "SELECT * FROM t", ["written"]],
        ),
    ],
    "sql: rows read": [
        run(
            ["sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)"],
            ["cursor", "SELECT * FROM t", ["read", "next", "read", "array", "read"]],
            ["cursor", "SELECT * FROM t WHERE a > 2", ["array", "read"]],
            ["cursor", "SELECT count(*) FROM t", ["array", "read"]],
        ),
    ],
    "sql: a row that an index has too": [
        run(ITEMS, ["cursor", "INSERT INTO items VALUES ('a', 1)", ["written"]]),
    ],
    "sql: a write while a cursor is open": [
        run(ITEMS, items("a", "b")),
        run(["cursor", "SELECT name FROM items", ["next", items("c"), "rest"]]),
        run(["cursor", "SELECT name FROM items", [["sql", "DELETE FROM items"], "rest"]]),
    ],
    "sql: the same text twice at once": [
        run(["cursor", THREE, ["next", ["cursor", THREE, ["next", "next"]], "rest"]]),
    ],
    "sql: constraints": [
        run(ITEMS, items("a"), items("b", "a"), NAMES),
        run(["sql", "CREATE TABLE checked (a CHECK (a > 0) NOT NULL)"]),
        run(["sql", "INSERT INTO checked VALUES (0)"], ["sql", "INSERT INTO checked VALUES (NULL)"]),
    ],
    "sql: foreign keys are enforced": [
        run(
            ["sql", "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a REFERENCES a (id))"],
            ["sql", "INSERT INTO b VALUES (1)"],
            ["sql", "SELECT * FROM b"],
        ),
    ],
    "sql: foreign keys that are deferred and mended": [
        run(
            ["sql", "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a REFERENCES a (id))"],
            ["sql", "PRAGMA defer_foreign_keys = ON"],
            ["sql", "INSERT INTO b VALUES (1)"],
            ["sql", "INSERT INTO a VALUES (1)"],
        ),
        run(["sql", "SELECT * FROM b"]),
    ],
    "sql: foreign keys that are deferred and not mended": [
        run(["sql", "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a REFERENCES a (id))"], ["count"]),
        run(["sql", "PRAGMA defer_foreign_keys = ON"], ["sql", "INSERT INTO b VALUES (1)"], ["count"]),
        run(["sql", "SELECT * FROM b"], ["count"]),
    ],
    "sql: names of the runtime": [
        run(
            ["sql", "CREATE TABLE _cf_mine (a)"],
            ["sql", "CREATE TABLE mine (a)"],
            ["sql", "ALTER TABLE mine RENAME TO _cf_mine"],
            ["sql", "CREATE VIEW _cf_view AS SELECT 1"],
            ["sql", "SELECT * FROM _cf_KV"],
            ["sql", "DROP TABLE _cf_KV"],
            ["sql", "CREATE INDEX _cf_index ON mine (a)"],
        ),
    ],
    "sql: what is refused": [
        run(
            *(
                ["sql", text]
                for text in (
                    "BEGIN",
                    "BEGIN TRANSACTION; END TRANSACTION",
                    "COMMIT",
                    "ROLLBACK",
                    "SAVEPOINT a",
                    "RELEASE a",
                    "ATTACH 'x.db' AS x",
                    "DETACH main",
                    "VACUUM INTO 'x.db'",
                    "CREATE TEMP TABLE t (a)",
                    "SELECT load_extension('x')",
                )
            ),
            ["cursor", "EXPLAIN SELECT 1", ["columns"]],
        ),
    ],
    "sql: VACUUM": [run(["sql", "VACUUM"])],
    "sql: pragmas": [
        run(
            ITEMS,
            *(
                ["cursor", f"PRAGMA {text}", ["columns"]]
                for text in (
                    "data_version",
                    "page_size",
                    "case_sensitive_like = ON",
                    "foreign_keys",
                    "foreign_keys = ON",
                    "defer_foreign_keys = ON",
                    "ignore_check_constraints = ON",
                    "legacy_alter_table = ON",
                    "recursive_triggers = ON",
                    "reverse_unordered_selects = ON",
                    "foreign_key_check",
                    "foreign_key_list(items)",
                    "index_info(sqlite_autoindex_items_1)",
                    "index_list(items)",
                    "index_xinfo(sqlite_autoindex_items_1)",
                    "quick_check",
                    "quick_check(items)",
                    "optimize",
                    "table_list",
                    "table_info(items)",
                    "table_xinfo(items)",
                    "compile_options",
                    "freelist_count",
                    "function_list",
                    "integrity_check",
                    "page_count",
                    "journal_mode",
                    "journal_mode = DELETE",
                    "hard_heap_limit = 1024",
                    "user_version",
                    "user_version = 3",
                    "writable_schema = ON",
                    "cache_size",
                    "secure_delete",
                    "encoding",
                    "auto_vacuum",
                )
            ),
        ),
    ],
    "sql: functions": [
        run(
            ["sql", "SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]') AS j, round(sqrt(16)) AS m"],
            ["sql", "SELECT row_number() OVER (ORDER BY column1) AS n FROM (VALUES (3), (1))"],
            ["sql", "CREATE VIRTUAL TABLE texts USING fts5 (body); INSERT INTO texts VALUES ('one two'), ('three')"],
            ["sql", "SELECT body FROM texts WHERE texts MATCH 'two'"],
        ),
    ],
    "sql: its size": [run(["size", -1], ITEMS, ["size", 0])],
    "sql: what a method that throws has done is kept": [
        run(ITEMS, items("a"), ["throw", "no"]),
        run(NAMES),
    ],
    "sql: a transaction that throws": [
        run(ITEMS, items("a")),
        run(["transaction sync", [items("b"), ["kv put", "k", 1], NAMES], "throw"], NAMES, ALL),
        run(["transaction", [items("c"), ["put", "k", 1], NAMES], "throw"], NAMES, ALL),
        run(["transaction", [items("d"), NAMES], "rollback"], NAMES),
        run(["transaction sync", [["sql", "CREATE TABLE t (a)"]], "throw"], ["sql", "SELECT * FROM t"]),
    ],
    "sql: a transaction that ends well": [
        run(ITEMS, ["transaction sync", [items("a"), ["kv put", "k", 1]], None], NAMES, ALL),
        run(["transaction", [items("b")], None], NAMES),
    ],
    "sql: transactions inside others": [
        run(
            ITEMS,
            ["transaction sync", [items("a"), ["transaction sync", [items("b")], "throw"], items("c")], None],
            NAMES,
            ["transaction sync", [items("d"), ["transaction sync", [items("e")], None], items("f")], "throw"],
            NAMES,
        ),
    ],
    "sql: a cursor that outlives a transaction": [
        run(ITEMS, items("a", "b")),
        run(["cursor", "SELECT name FROM items", ["next", ["transaction sync", [items("c")], "throw"], "rest"]]),
    ],
    "sql: an error that ends the transaction": [
        run(ITEMS, items("a"), ["count"]),
        run(items("b"), ["sql", "INSERT OR ROLLBACK INTO items VALUES ('a', 1)"], ["count"], NAMES),
        run(NAMES, ["count"]),
    ],
    "sql: deleting everything": [
        run(ITEMS, items("a"), ["put", "k", 1], ["delete all"], ["sql", "SELECT name FROM sqlite_master"], NAMES, ALL),
        run(ITEMS, NAMES),
    ],
    "sql: in the handler of an alarm": [
        run(ITEMS),
        plan([items("a"), ["throw", "no"]], [items("b"), NAMES]),
        run(soon("a")),
        wait(4500),
        run(NAMES),
    ],
    "sql: work that goes on after the answer": [
        run(ITEMS, ["wait until sql", 300, "INSERT INTO items (name) VALUES ('late')"]),
        wait(1200),
        run(NAMES),
    ],
    "sql: abort loses what is not stored": [
        run(ITEMS, items("a"), ["sync"]),
        run(items("b"), ["abort", "over"]),
        run(NAMES),
    ],
}

KV: dict[str, list[Step]] = {
    "kv: reading and writing": [
        run(["kv get", "k"], ["kv put", "k", {"a": [1, 2.5, None, "x"]}], ["kv get", "k"], ["get", "k"]),
        run(["kv get", "k"], ["kv delete", "k"], ["kv delete", "k"], ["kv get", "k"], ALL),
        run(["put", "l", 1], ["kv get", "l"], ["kv list"]),
    ],
    "kv: kinds of values": [
        *(
            run(["kv put", "k", {"special": kind}], ["kv get", "k"])
            for kind in ("date", "bytes", "set", "nan", "big", "nested", "empty", "null", "function")
        ),
    ],
    "kv: ranges": [
        run(["put all", dict.fromkeys(("a", "b", "ba", "bb", "c", "d"), 1)]),
        *(
            run(["kv list", options])
            for options in (
                {},
                {"prefix": "b"},
                {"start": "b", "end": "c"},
                {"startAfter": "b"},
                {"prefix": "b", "start": "c"},
                {"limit": 2, "reverse": True},
                {"start": "a", "startAfter": "a"},
                {"limit": 0},
                {"limit": -1},
            )
        ),
    ],
    "kv: keys": [
        run(["kv put", 1, "one"], ["kv get", "1"], ["kv put", "", 1], ["kv list"]),
    ],
    "kv: listing sees what is not stored yet": [
        run(["put all", {"a": 1, "b": 1}]),
        run(["kv delete", "a"], ["kv put", "c", 2], ["kv list"], ["kv list", {"limit": 1}]),
    ],
    "kv: deleting everything": [run(["kv put", "k", 1], ["delete all"], ["kv get", "k"], ["kv list"])],
}

BOOKMARKS: dict[str, list[Step]] = {
    "bookmarks": [run(["bookmark"], ["bookmark for", 1], ["restore", "x"])],
}
