"""What is done to an object on both sides, one list of steps for each name.

run: one event, a program of operations · together: several at once · plan: what the alarm's handler does on its first,
second, … run, and the constructor · wait: so many milliseconds · restart: the process is killed and started again ·
plain: an object without a handler.
"""

from typing import Any

Step = tuple[Any, ...]
FAR_MS = 3_600_000


def run(*program: list[Any]) -> Step:
    return ("run", list(program))


def wait(ms: int) -> Step:
    return ("wait", ms)


def plan(*alarm: list[list[Any]], constructor: list[list[Any]] | None = None) -> Step:
    return ("plan", {"alarm": list(alarm), "constructor": [constructor] if constructor else []})


GET = ["get alarm"]
DELETE = ["delete alarm"]
ALL = ["list"]


def soon(label: str, ms: int = 200) -> list[Any]:
    return ["set alarm", label, ms]


ALARMS: dict[str, list[Step]] = {
    "no alarm is set at first": [run(GET)],
    "an alarm is what was set": [run(soon("a", FAR_MS), GET), run(GET)],
    "a date will do": [run(["set date alarm", "a", FAR_MS], GET)],
    "an alarm that is not awaited is set": [run(["set alarm unawaited", "a", 200], GET), wait(1500), run(GET)],
    "a later alarm replaces an earlier one": [run(soon("a"), soon("b", FAR_MS)), wait(1500), run(GET)],
    "an earlier alarm replaces a later one": [run(soon("a", FAR_MS), soon("b")), wait(1500), run(GET)],
    "deleted is deleted": [run(soon("a"), DELETE, GET), wait(1200), run(GET, DELETE, GET)],
    "the past is now": [run(["set past alarm", 1]), wait(1500), run(GET)],
    "what is no time is refused": [
        run(soon("a", FAR_MS)),
        *(
            run(["set raw alarm", what], GET)
            for what in ("nan", "infinite", "zero", "negative", "half", "text", "nothing", "truth", "list", "object")
        ),
        run(["set raw alarm", "far"], GET),
        run(["set raw alarm", "bad date"], GET),
    ],
    "a class without a handler can't set one": [("plain", "set"), ("plain", "get"), ("plain", "delete")],
    "inside the handler none is set": [plan([GET]), run(soon("a")), wait(1500), run(GET)],
    "set in the handler it comes again": [
        plan([soon("b"), GET], [GET]),
        run(soon("a")),
        wait(2500),
        run(GET),
    ],
    "set to the past in the handler it comes at once": [
        plan([["sleep", 20], ["set past alarm", 1]], [["sleep", 20], ["set past alarm", 1]], []),
        run(soon("a")),
        wait(2500),
        run(GET),
    ],
    "set and deleted in the handler nothing comes": [
        plan([soon("b"), DELETE, GET]),
        run(soon("a")),
        wait(2000),
        run(GET),
    ],
    "deleted in the handler it is still done": [plan([DELETE, GET]), run(soon("a")), wait(1500), run(GET)],
    "writes of the handler are kept": [plan([["put", "k", 1]]), run(soon("a")), wait(1500), run(ALL)],
    "what is not awaited in the handler is kept": [
        plan([["put unawaited", "k", 1]]),
        run(soon("a")),
        wait(1500),
        run(ALL),
    ],
    "set again to the same time it fires once": [
        run(soon("a", 400), ["set alarm again", 0], GET),
        wait(1800),
        run(GET),
    ],
    "options of an alarm": [
        run(["set alarm with", "a", FAR_MS, {"allowConcurrency": True, "allowUnconfirmed": True, "other": 1}], GET),
        run(["set alarm with", "b", FAR_MS + 1, None], GET),
        run(["set alarm with", "c", FAR_MS + 2, 5], GET),
    ],
    "the constructor sees the alarm and can leave it": [
        plan([GET], constructor=[GET]),
        run(soon("a")),
        wait(1500),
        run(GET),
    ],
    "deleting everything deletes the alarm": [
        run(["put", "k", 1], soon("a"), ["delete all"], GET, ALL),
        wait(1200),
        run(GET),
    ],
    "deleting everything in the handler": [
        plan([["delete all"], GET, soon("b", FAR_MS), ["delete all"], GET]),
        run(["put", "k", 1], soon("a")),
        wait(1500),
        run(GET, ALL),
    ],
}

RETRIES: dict[str, list[Step]] = {
    "a handler that throws comes again": [
        plan([["throw", "no"]], [GET]),
        run(soon("a")),
        wait(1000),
        run(GET),
        wait(3500),
        run(GET),
    ],
    "a handler that throws keeps what it wrote": [
        plan([["put", "k", 1], ["put unawaited", "l", 2], ["throw", "no"]], [["get", "k"]]),
        run(soon("a")),
        wait(1000),
        run(ALL),
        wait(3500),
        run(ALL),
    ],
    "memory lives between retries": [
        plan([["count"], ["throw", "no"]], [["count"]]),
        run(["count"], soon("a")),
        wait(4500),
        run(["count"]),
    ],
    "an alarm set before the throw stands instead of a retry": [
        plan([soon("b", 500), ["throw", "no"]], []),
        run(soon("a")),
        wait(5000),
        run(GET),
    ],
    "an alarm deleted before the throw does not come again": [
        plan([DELETE, ["throw", "no"]], []),
        run(soon("a")),
        wait(4500),
        run(GET),
    ],
    "deleted between retries it does not come again": [
        plan([["throw", "no"]]),
        run(soon("a")),
        wait(1000),
        run(GET, DELETE, GET),
        wait(4000),
        run(GET),
    ],
    "set between retries": [
        plan([["throw", "no"]], []),
        run(soon("a")),
        wait(1000),
        run(soon("b", 100), GET),
        wait(6000),
        run(GET),
    ],
    "set far ahead between retries": [
        plan([["throw", "no"]], []),
        run(soon("a")),
        wait(1000),
        run(soon("b", FAR_MS), GET),
        wait(4500),
        run(GET),
    ],
    "the second failure waits longer": [
        plan([["throw", "no"]], [["throw", "no"]], [["say", "third"]]),
        run(soon("a")),
        wait(4200),
        run(GET),
        wait(6000),
        run(GET),
    ],
    "a handler that aborts comes again, without its writes": [
        plan([["put unawaited", "k", 1], ["abort", "over"]], []),
        run(soon("a")),
        wait(4500),
        run(GET, ALL),
    ],
    "a handler that aborts for good does not come again": [
        plan([["put unawaited", "k", 1], ["abort for good", "over"]], []),
        run(soon("a")),
        wait(4500),
        run(GET, ALL),
    ],
    "what is not awaited and fails in the handler is no failure": [
        plan([["wait until", 50, True]]),
        run(soon("a")),
        wait(4000),
        run(GET, ALL),
    ],
    "after six retries it is given up": [plan([["throw", "no"]]), run(soon("a")), wait(175_000), run(GET)],
}

TRANSACTIONS: dict[str, list[Step]] = {
    "a transaction that ends well is kept": [
        run(["transaction", [["put", "k", 1], soon("a", FAR_MS), GET], None], ALL, GET),
    ],
    "one that throws has not happened": [
        run(["put", "k", 0], soon("a", FAR_MS)),
        run(["transaction", [["put", "k", 1], ["put", "l", 1], DELETE, GET], "throw"], ALL, GET),
        run(["transaction", [soon("b", FAR_MS), GET], "throw"], GET),
    ],
    "one that is rolled back has not happened": [
        run(["put", "k", 0], soon("a", FAR_MS)),
        run(["transaction", [["put", "k", 1], ["delete", "k"], soon("b", FAR_MS)], "rollback"], ALL, GET),
        run(["transaction", [["put", "k", 1]], "rollback twice"], ALL),
    ],
    "one inside another": [
        run(["transaction", [["put", "o", 1], ["transaction", [["put", "i", 1]], "throw"], ["get", "i"]], None], ALL),
        run(["transaction", [["put", "p", 1], ["transaction", [["put", "q", 1]], None]], "throw"], ALL),
        run(["transaction", [["transaction", [["put", "r", 1]], "rollback"], ["put", "s", 1]], None], ALL),
    ],
    "a transaction that is over can't be used": [run(["late transaction", False]), run(["late transaction", True])],
    "deleting everything is no part of one": [run(["transaction", [["delete all"]], None])],
    "an alarm set and rolled back in the handler": [
        plan([["transaction", [soon("b"), GET], "rollback"], GET]),
        run(soon("a")),
        wait(2000),
        run(GET),
    ],
    "an alarm set, rolled back, and then a throw": [
        plan([["transaction", [soon("b")], "throw"], ["throw", "no"]], []),
        run(soon("a")),
        wait(4500),
        run(GET),
    ],
}

EVENTS: dict[str, list[Step]] = {
    "a method that throws keeps what it wrote": [
        run(["put", "k", 1], ["put unawaited", "l", 2], ["count"], ["throw", "no"]),
        run(ALL, ["count"]),
    ],
    "abort loses what is not stored": [
        run(["put", "a", 1], ["sync"], ["count"]),
        run(["put unawaited", "b", 1], ["abort", "over"]),
        run(["count"], ALL),
    ],
    "a callback that throws in blockConcurrencyWhile resets the object": [
        run(["count"], ["put", "a", 1], ["sync"]),
        run(["count"], ["block", [["put", "b", 1]], "broken"]),
        run(["count"], ALL),
    ],
    "blockConcurrencyWhile gives the callback's answer": [run(["block", [["put", "b", 1], ["get", "b"]], None])],
    "fifty that read and write at once": [
        ("together", [[["increment", "n"]]] * 50),
        run(["get", "n"]),
    ],
    "two that wait between reading and writing": [
        ("together", [[["increment", "n", 50]]] * 2),
        run(["get", "n"]),
    ],
    "a call during the handler": [
        plan([["say", "begin"], ["sleep", 600], ["say", "end"]]),
        run(soon("a", 100)),
        wait(400),
        run(["say", "call"], GET),
        wait(1500),
    ],
    "work that goes on after the answer": [
        run(["wait until", 300, False], ["get", "afterwards"]),
        wait(1200),
        run(["get", "afterwards"]),
    ],
    "work that fails after the answer": [
        run(["wait until", 100, True], ["count"]),
        wait(1000),
        run(["get", "afterwards"], ["count"]),
    ],
    "idle for a while": [
        run(["count"], ["put", "k", 1]),
        wait(7500),
        run(["count"]),
        wait(13_000),
        run(["count"], ["get", "k"]),
    ],
    "one object calls another": [
        run(["call", "other of one object calls another", [["put", "k", 1], ["get", "k"]]], ["get", "k"]),
    ],
    "an unknown method": [run(["call unknown", "another"])],
    "a constructor that throws": [
        plan(constructor=[["throw", "can't be"]]),
        run(["count"]),
        run(["count"]),
    ],
    "its name": [run(["name"])],
    "a name that is long, with ümlauts and emoji 😀, and more than the twenty-three bytes that fit an id": [
        run(["name"])
    ],
    "ids": [run(["ids"]), run(["bad id", "xyz"], ["bad id", "ab" * 32], ["id of another class"])],
}

KEYS = ["10", "9", "Z", "a", "b", "ba", "b\xff", "я", "\ufffe", "\U0001f600", ""]

ROWS: dict[str, list[Step]] = {
    "options of a write": [
        run(["put with", "k", 1, {"allowConcurrency": True, "allowUnconfirmed": True, "noCache": True}], ALL),
        run(["put with", "k", 2, 5], ALL),
    ],
    "reading and writing": [
        run(["get", "k"], ["put", "k", {"a": [1, 2.5, None, "x"]}], ["get", "k"]),
        run(["get", "k"], ["delete", "k"], ["delete", "k"], ["get", "k"]),
        run(["put all", {"a": 1, "b": 2, "c": 3}], ["get", ["c", "a", "x", "a"]], ["delete", ["a", "b", "x"]], ALL),
    ],
    "kinds of values": [
        *(
            run(["put special", "k", kind], ["get", "k"])
            for kind in ("date", "bytes", "set", "nan", "big", "nested", "empty", "null", "function")
        ),
        run(ALL),
    ],
    "keys that are no text": [run(["put", 1, "one"], ["get", "1"], ["put", 1.5, "x"], ALL)],
    "the order of keys": [run(["put all", dict.fromkeys(KEYS, 1)], ALL, ["list", {"reverse": True}])],
    "ranges": [
        run(["put all", dict.fromkeys(("a", "b", "ba", "bb", "c", "d"), 1)]),
        *(
            run(["list", options])
            for options in (
                {"prefix": "b"},
                {"start": "b"},
                {"end": "c"},
                {"startAfter": "b"},
                {"start": "b", "end": "c"},
                {"prefix": "b", "start": "ba"},
                {"prefix": "b", "end": "bb"},
                {"prefix": "b", "start": "c"},
                {"start": "c", "end": "b"},
                {"limit": 2},
                {"limit": 2, "reverse": True},
                {"start": "b", "end": "d", "reverse": True, "limit": 2},
                {"start": "", "end": ""},
                {"start": "a", "startAfter": "a"},
                {"limit": 0},
                {"limit": -1},
                {"limit": 1.9},
                {"limit": "2"},
                {"limit": None},
            )
        ),
        run(["list nan"]),
    ],
    "listing sees what is not stored yet": [
        run(["put all", {"a": 1, "b": 1, "c": 1}]),
        run(
            ["delete", "b"], ["put unawaited", "aa", 2], ["list", {"limit": 2}], ["list", {"reverse": True, "limit": 2}]
        ),
    ],
}

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

RESTARTS: dict[str, list[Step]] = {
    "an alarm fires after a restart": [run(soon("a", 1500), ["put", "k", 1]), ("restart",), wait(3000), run(GET, ALL)],
    "an overdue alarm fires at once": [
        run(["put", "k", 1], soon("a", 300), ["sync"]),
        ("restart", 1000),
        wait(1500),
        run(GET, ALL),
    ],
    "memory is gone after a restart": [run(["count"], ["count"], ["sync"]), ("restart",), run(["count"])],
    "a handler that was running runs again": [
        plan([["put", "k", 1], ["sync"], ["say", "begin"], ["sleep", 3000], ["say", "end"]], [["get", "k"]]),
        run(soon("a", 200)),
        wait(1200),
        ("restart",),
        wait(2500),
        run(GET),
    ],
    "retries after a restart": [
        plan([["throw", "no"]], [["throw", "no"]], []),
        run(soon("a", 100)),
        wait(1000),
        ("restart",),
        wait(9000),
        run(GET),
    ],
    "sql: rows and tables after a restart": [
        run(ITEMS, items("a"), ["kv put", "k", 1], ["sync"]),
        ("restart",),
        run(NAMES, ["kv get", "k"], items("b"), NAMES),
    ],
}

SCENARIOS = {**ALARMS, **RETRIES, **TRANSACTIONS, **EVENTS, **ROWS, **SQL, **KV, **BOOKMARKS, **RESTARTS}
