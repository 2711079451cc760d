"""What is done to an object on both sides, one list of steps for each name."""

from tests.workerd.sql_scenarios import BOOKMARKS, ITEMS, KV, NAMES, SQL, items
from tests.workerd.steps import ALL, DELETE, FAR_MS, GET, Step, plan, run, soon, wait
from tests.workerd.talk_scenarios import RPC, SOCKETS

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
    "events run beside each other": [
        (
            "together",
            [
                [["sleep", 100], ["say", "a"], ["sleep", 800], ["say", "a again"]],
                [["sleep", 500], ["say", "b"]],
            ],
        ),
    ],
    "blockConcurrencyWhile holds up what goes on": [
        (
            "together",
            [
                [["sleep", 100], ["block", [["sleep", 800], ["say", "end"]], None]],
                [["sleep", 400], ["say", "other"]],
            ],
        ),
    ],
    "a transaction holds up what goes on": [
        (
            "together",
            [
                [["sleep", 100], ["transaction", [["put", "k", 1], ["sleep", 800], ["get", "k"]], "throw"]],
                [["sleep", 400], ["get", "k"], ["put", "k", 2]],
            ],
        ),
        run(ALL),
    ],
    "a circle of calls": [
        run(["count"], ["call", "other of a circle of calls", [["call", "a circle of calls", [["count"]]]]]),
    ],
    "what was written before a wait stays when it throws": [
        run(["put", "k", 1], ["sleep", 50], ["put unawaited", "l", 2], ["throw", "no"]),
        run(ALL),
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

STREAMS: dict[str, list[Step]] = {
    f"streams: {name}": [run(["stream", name])]
    for name in (
        *("steered", "pulled to its end", "enqueued over time", "tee", "transform", "decoder", "identity", "errors"),
        *("body", "of another object"),
    )
}

SCENARIOS = {
    **ALARMS,
    **RETRIES,
    **TRANSACTIONS,
    **EVENTS,
    **ROWS,
    **SQL,
    **KV,
    **BOOKMARKS,
    **STREAMS,
    **RPC,
    **SOCKETS,
    **RESTARTS,
}
