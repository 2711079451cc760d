"""What is asked of KV, D1, R2, queues and workflows, on miniflare and on Wakeful: each scenario with bindings of its own."""

from typing import Any

from tests.workerd.workflow_scenarios import WORKFLOWS

Steps = list[list[Any]]
LONG = "x" * 513
FULL = "x" * 1025


def _table(*steps: list[Any]) -> Steps:
    made = ["exec", "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)"]
    return [made, ["run", "INSERT INTO t (a, b) VALUES (?, ?), ('two', NULL)", ["one", 1.5]], *steps]


def _sent(*bodies: Any, ms: int = 1500) -> Steps:
    return [["sendBatch", [{"body": body} for body in bodies]], ["wait", ms], ["log"]]


SCENARIOS: dict[str, tuple[str, Steps]] = {
    "kv: put and get": ("kv", [["get", "a"], ["put", "a", "1"], ["get", "a"], ["put", "a", "2"], ["get", "a"]]),
    "kv: types": ("kv", [
        ["put", "a", '{"b":[1]}'], ["get", "a", "json"], ["get", "a", {"type": "arrayBuffer"}], ["get", "a", "text"],
        ["get", "a", "xml"], ["get", "none", "json"],
    ]),
    "kv: what is no JSON": ("kv", [["put", "a", "x"], ["get", ["a"], "json"]]),
    "kv: metadata": ("kv", [
        ["put", "a", "1", {"metadata": {"n": [1, None]}}], ["getWithMetadata", "a"], ["put", "a", "2"],
        ["getWithMetadata", "a"], ["getWithMetadata", "none"], ["put", "b", "", {"metadata": "text"}], ["getWithMetadata", "b"],
    ]),
    "kv: metadata that is too long": ("kv", [
        ["put", "a", "1", {"metadata": "x" * 1022}], ["put", "b", "1", {"metadata": "x" * 1023}],
    ]),
    "kv: delete": ("kv", [["delete", "a"], ["put", "a", "1"], ["delete", "a"], ["get", "a"]]),
    "kv: several keys": ("kv", [
        ["put", "b", "2", {"metadata": 1}], ["put", "a", "1"], ["get", ["b", "none", "a"]], ["getWithMetadata", ["b", "a"]],
        ["get", []], ["get", ["a"] * 101], ["get", ["a"], "arrayBuffer"],
    ]),
    "kv: keys that can't be": ("kv", [
        ["get", ""], ["put", ".", "1"], ["delete", ".."], ["get", LONG], ["put", LONG, "1"], ["delete", LONG],
        ["put", "x" * 512, "1"], ["get", "x" * 512],
    ]),
    "kv: keys of all kinds": ("kv", [
        *(["put", key, key] for key in ("a b", "é", "%2F", "/", "a/b?c#d", "...", "\u0001", "\U0001f600")),
        *(["get", key] for key in ("a b", "é", "%2F", "/", "a/b?c#d", "...", "\u0001", "\U0001f600")),
        ["list"],
    ]),
    "kv: lives that are too short": ("kv", [
        *(["put", "a", "1", {"expirationTtl": ttl}] for ttl in (59, 0, -1, 60)),
        ["put", "a", "1", {"expiration": 5}], ["get", "a"],
    ]),
    "kv: lists": ("kv", [
        *(["put", key, "1"] for key in ("b", "a2", "a1", "a3", "Z")), ["list"], ["list", {"prefix": "a"}],
        ["list", {"prefix": "a", "limit": 2}], ["list", {"prefix": "a", "limit": 2, "cursor": "$"}], ["list", {"prefix": "no"}],
        ["list", {"limit": 3}], ["put", "a0", "1"], ["delete", "b"], ["list", {"cursor": "$"}],
    ]),
    "kv: metadata in lists": ("kv", [
        ["put", "a", "1", {"metadata": {"n": 1}, "expiration": 2_000_000_000}], ["put", "b", "1"], ["list"],
    ]),
    "kv: limits of lists": ("kv", [["list", {"limit": 0}], ["list", {"limit": 1001}], ["list", {"limit": 1000}]]),
    "kv: times of caches": ("kv", [["put", "a", "1"], ["get", "a", {"cacheTtl": 10}], ["get", "a", {"cacheTtl": 60}]]),
    "kv: values that can't be": ("kv", [["put", "a", {"b": 1}], ["put", "a", 5], ["get", "a"], ["put", "b", ""], ["get", "b"]]),
    "d1: all": ("d1", _table(["all", "SELECT * FROM t ORDER BY id"], ["all", "SELECT * FROM t WHERE a = 'none'"])),
    "d1: run": ("d1", _table(
        ["run", "INSERT INTO t (a) VALUES ('c')"], ["run", "UPDATE t SET b = 2"], ["run", "DELETE FROM t WHERE id > 1"],
        ["run", "SELECT count(*) AS n FROM t"], ["run", "INSERT INTO t (a) VALUES ('d') RETURNING id, a"],
    )),
    "d1: first": ("d1", _table(
        ["first", "SELECT a, b FROM t ORDER BY id"], ["first", "SELECT a, b FROM t ORDER BY id", [], "b"],
        ["first", "SELECT * FROM t WHERE id = 9"], ["first", "SELECT * FROM t", [], "none"],
        ["first", "SELECT a FROM t WHERE id = 9", [], "a"],
    )),
    "d1: raw": ("d1", _table(
        ["raw", "SELECT id, a, a FROM t ORDER BY id"], ["raw", "SELECT id, a FROM t WHERE id = 9", [], {"columnNames": True}],
        ["raw", "SELECT id, a FROM t ORDER BY id", [], {"columnNames": True}],
    )),
    "d1: parameters": ("d1", [
        ["first", "SELECT ? AS a, ? AS b, ? AS c, ? AS d", [1.5, "x", None, True]],
        ["first", "SELECT ?2 AS a, ?1 AS b", ["x", "y"]], ["first", "SELECT ? AS a", []], ["first", "SELECT ? AS a", [1, 2]],
        ["first", "SELECT typeof(?) AS a, typeof(?) AS b", ["1", True]],
    ]),
    "d1: batch": ("d1", _table(
        ["batch", [["INSERT INTO t (a) VALUES (?)", ["c"]], ["SELECT count(*) AS n FROM t", []]]],
    )),
    "d1: a batch that fails": ("d1", _table(
        ["batch", [["INSERT INTO t (a) VALUES (?)", ["c"]], ["INSERT INTO t (a) VALUES (?)", ["one"]]]],
        ["first", "SELECT count(*) AS n FROM t", [], "n"], ["batch", []],
    )),
    "d1: errors": ("d1", _table(
        ["all", "SELECT * FROM absent"], ["all", "SELEC 1"], ["run", "INSERT INTO t (a) VALUES ('one')"],
        ["run", "INSERT INTO t (id, a) VALUES ('no', 'z')"], ["all", "SELECT nothing FROM t"], ["all", ""], ["all", "-- only words"],
    )),
    "d1: several statements": ("d1", _table(["all", "SELECT 1; SELECT 2"], ["all", "SELECT 1 AS a;"])),
    "d1: transactions by hand": ("d1", _table(["run", "BEGIN TRANSACTION"], ["run", "SAVEPOINT a"], ["run", "COMMIT"])),
    "d1: exec": ("d1", _table(
        ["exec", "INSERT INTO t (a) VALUES ('c')\nINSERT INTO t (a) VALUES ('d')"], ["exec", "SELEC 1"],
        ["first", "SELECT count(*) AS n FROM t", [], "n"],
    )),
    "d1: values": ("d1", [
        ["raw", "SELECT 1, 1.0, 2.5, 'x', NULL, x'00ff', 9007199254740991, -1"], ["first", "SELECT json_extract('{\"a\":[1]}', '$.a') AS j"],
        ["raw", "SELECT 1 AS a, 2 AS a"],
    ]),
    "d1: pragmas": ("d1", _table(
        ["all", "PRAGMA table_info(t)"], ["all", "PRAGMA journal_mode"], ["all", "PRAGMA foreign_keys"],
    )),
    "r2: put and get": ("r2", [
        ["get", "a"], ["head", "a"], ["put", "a", "text"], ["get", "a"], ["head", "a"], ["put", "a", ""], ["get", "a"],
    ]),
    "r2: metadata": ("r2", [
        ["put", "a", "1", {"httpMetadata": {"contentType": "a/b", "cacheControl": "no-store"}, "customMetadata": {"k": "v"}}],
        ["head", "a"], ["put", "a", "2"], ["head", "a"],
    ]),
    "r2: delete": ("r2", [
        ["put", "a", "1"], ["put", "b", "1"], ["put", "c", "1"], ["delete", "a"], ["delete", ["b", "none"]], ["list"], ["delete", "a"],
    ]),
    "r2: ranges": ("r2", [
        ["put", "a", "abcdefghij"],
        *(["get", "a", {"range": given}] for given in (
            {"offset": 2}, {"offset": 2, "length": 3}, {"length": 4}, {"suffix": 3}, {"offset": 8, "length": 9}, {"suffix": 99},
        )),
    ]),
    "r2: ranges that can't be": ("r2", [
        ["put", "a", "abc"], ["get", "a", {"range": {"offset": 3}}], ["get", "a", {"range": {"suffix": 0}}],
        ["get", "a", {"range": {"length": 0}}],
    ]),
    "r2: conditions of a get": ("r2", [
        ["put", "a", "1"],
        *(["get", "a", {"onlyIf": given}] for given in (
            {"etagMatches": "c4ca4238a0b923820dcc509a6f75849b"}, {"etagMatches": "x"},
            {"etagDoesNotMatch": "c4ca4238a0b923820dcc509a6f75849b"}, {"etagDoesNotMatch": "x"},
        )),
        ["get", "none", {"onlyIf": {"etagMatches": "x"}}],
    ]),
    "r2: conditions of a put": ("r2", [
        ["put", "a", "1"], ["put", "a", "2", {"onlyIf": {"etagMatches": "x"}}], ["get", "a"],
        ["put", "a", "2", {"onlyIf": {"etagMatches": "c4ca4238a0b923820dcc509a6f75849b"}}], ["get", "a"],
        ["put", "b", "1", {"onlyIf": {"etagMatches": "x"}}], ["put", "b", "1", {"onlyIf": {"etagDoesNotMatch": "x"}}],
    ]),
    "r2: lists": ("r2", [
        *(["put", key, "1"] for key in ("b", "a/1", "a/2", "c")), ["list"], ["list", {"prefix": "a/"}], ["list", {"limit": 2}],
        ["list", {"limit": 2, "cursor": "$"}], ["list", {"startAfter": "a/1"}], ["list", {"prefix": "none"}],
    ]),
    "r2: folders": ("r2", [
        *(["put", key, "1"] for key in ("b", "a/1", "a/x/1", "a/x/2", "c/1")), ["list", {"delimiter": "/"}],
        ["list", {"delimiter": "/", "prefix": "a/"}], ["list", {"delimiter": "/", "limit": 2}],
        ["list", {"delimiter": "/", "limit": 2, "cursor": "$"}],
    ]),
    "r2: limits of lists": ("r2", [["list", {"limit": 0}], ["list", {"limit": 1001}]]),
    "r2: checksums": ("r2", [
        ["put", "a", "1", {"md5": "c4ca4238a0b923820dcc509a6f75849b"}], ["put", "a", "1", {"md5": "0" * 32}],
        ["put", "a", "1", {"sha1": "0" * 40}], ["get", "a"],
    ]),
    "r2: keys that can't be": ("r2", [["put", FULL, "1"], ["get", FULL], ["put", "x" * 1024, "1"]]),
    "r2: metadata that is too long": ("r2", [["put", "a", "1", {"customMetadata": {"k": "x" * 8192}}], ["get", "a"]]),
    "queue: a batch that is full": ("queue", _sent("a", "b", "c", ms=800)),
    "queue: a batch that waits": ("queue", [["send", "a"], ["wait", 500], ["log"], ["wait", 1000], ["log"]]),
    "queue: more than one batch": ("queue", [
        ["sendBatch", [{"body": n} for n in range(7)]], ["wait", 2500], ["log"],
    ]),
    "queue: bodies": ("queue", _sent({"a": [1, None]}, "text", 5)),
    "queue: one retried": ("queue", _sent({"do": "retry once"}, "b", ms=2800)),
    "queue: a retry that waits": ("queue", [
        ["send", {"do": "retry once", "options": {"delaySeconds": 2}}], ["wait", 2500], ["log"], ["wait", 2500], ["log"],
    ]),
    "queue: retried until it is given up": ("queue", _sent({"do": "retry"}, ms=6000)),
    "queue: a batch that raises": ("queue", _sent({"do": "raise once"}, "b", ms=2800)),
    "queue: acked and raised": ("queue", _sent({"do": "ack"}, {"do": "raise once"}, ms=2800)),
    "queue: acked, then retried": ("queue", _sent({"do": "ack, retry"}, ms=2800)),
    "queue: retried, then acked": ("queue", _sent({"do": "retry, ack"}, ms=2400)),
    "queue: all again": ("queue", _sent({"do": "all again"}, "b", ms=2800)),
    "queue: all done, then all again": ("queue", _sent({"do": "all done"}, "b", ms=2800)),
    "queue: delays": ("queue", [
        ["send", "later", {"delaySeconds": 2}], ["send", "now"], ["wait", 1500], ["log"], ["wait", 2200], ["log"],
    ]),
    "queue: what can't be sent": ("queue", [
        ["sendBatch", []], ["send", "x" * 130_000], ["send", "x", {"contentType": "xml"}], ["send", 1, {"contentType": "text"}],
        ["sendBatch", [{"body": 1}] * 101], ["send", "x", {"delaySeconds": 90_000}], ["wait", 1500], ["log"],
    ]),
}  # fmt: skip
SCENARIOS |= {f"workflow: {name}": ("workflow", steps) for name, steps in WORKFLOWS.items()}
