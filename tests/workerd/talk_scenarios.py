"""What is said to an object by RPC and over sockets; worker and object are those of talk.js and python/talk.py."""

from tests.workerd.steps import Step, wait

_RPC = (
    *("a property", "an attribute of the instance", "what is not there", "a property that is called"),
    *("a method that is not called", "a function that is called back", "a function as an answer"),
    *("a function that throws", "a function that calls the object", "a target", "an attribute of a target"),
    *("a target that throws", "an answer before it is there", "calls on an answer in order"),
    *("what is in an answer before it is there", "an answer that never is there", "a stub as an argument"),
    *("a stub as an answer", "given back", "a duplicate of what is given back", "a target after a reset"),
    *("what can't travel", "requests and headers within data", "arguments as they were", "an error's name and words"),
)
_KEPT: Step = ("rpc", "kept")


def _talk(*steps: list[object]) -> Step:
    """Each step is of one client, by its letter, which connects when it is first heard of, and hears `welcome`."""
    return ("talk", list(steps))


WELCOME = ["a", "hear"]

RPC: dict[str, list[Step]] = {f"rpc: {name}": [("rpc", name)] for name in _RPC}

SOCKETS: dict[str, list[Step]] = {
    "sockets: tags": [("rpc", "tags")],
    "sockets: a tag that is empty": [("rpc", "a tag that is empty")],
    "sockets: limits": [("rpc", "limits of sockets")],
    "sockets: text and bytes": [
        _talk(WELCOME, ["a", "say", "hello"], ["a", "hear"], ["a", "say", [0, 255]], ["a", "hear"])
    ],
    "sockets: a handler that throws": [
        _talk(WELCOME, ["a", "say", "raise"], ["a", "say", "still there"], ["a", "hear"]),
        wait(300),
        _KEPT,
    ],
    "sockets: closed by the object": [
        _talk(WELCOME, ["a", "say", "close 4001 reason"], ["a", "hear"], ["a", "wait", 300]),
        _KEPT,
    ],
    "sockets: after it was closed": [_talk(WELCOME, ["a", "say", "twice"], ["a", "hear"], ["a", "wait", 300]), _KEPT],
    "sockets: what can't be closed with": [_talk(WELCOME, ["a", "say", "bad"], ["a", "hear"])],
    "sockets: closed by the client": [_talk(WELCOME, ["a", "leave", 4002, "enough"], ["a", "wait", 300]), _KEPT],
    "sockets: found by tags": [_talk(WELCOME, ["b", "hear"], ["a", "say", "tags"], ["a", "hear"])],
    "sockets: an attachment": [
        _talk(
            WELCOME,
            ["a", "say", "attached"],
            ["a", "hear"],
            ["a", "say", "attach x y"],
            ["a", "say", "attached"],
            ["a", "hear"],
        )
    ],
    "sockets: the automatic answer and its time": [
        _talk(
            WELCOME,
            ["b", "hear"],
            ["a", "say", "answered"],
            ["a", "hear"],
            ["a", "say", "ping"],
            ["a", "hear"],
            ["a", "say", "answered"],
            ["a", "hear"],
            ["b", "say", "answered"],
            ["b", "hear"],
        )
    ],
    "sockets: the automatic answer is taken back": [
        _talk(WELCOME, ["a", "say", "silent"], ["a", "hear"], ["a", "say", "ping"], ["a", "hear"])
    ],
    "sockets: the automatic answer beside a handler": [
        _talk(WELCOME, ["a", "say", "slow 400"], ["a", "say", "ping"], ["a", "hear"], ["a", "hear"])
    ],
    "sockets: what is sent while a handler runs": [
        _talk(WELCOME, ["a", "say", "count"], ["a", "hear"], ["a", "hear"], ["a", "hear"])
    ],
    "sockets: handlers of two clients beside each other": [
        _talk(
            WELCOME,
            ["b", "hear"],
            ["a", "say", "slow 600"],
            ["b", "say", "fast"],
            ["b", "hear"],
            ["b", "say", "all heard"],
            ["a", "hear"],
            ["a", "hear"],
        )
    ],
    "sockets: messages of one client beside each other": [
        _talk(WELCOME, ["a", "say", "slow 400"], ["a", "say", "fast"], ["a", "hear"], ["a", "hear"])
    ],
    "sockets: all of them": [_talk(WELCOME, ["b", "hear"], ["b", "say", "all hello"], ["a", "hear"], ["b", "hear"])],
    "sockets: the same one each time": [_talk(WELCOME, ["a", "say", "same"], ["a", "hear"])],
    "sockets: a handler that takes too long": [
        _talk(
            WELCOME,
            ["a", "say", "limit 200"],
            ["a", "hear"],
            ["a", "say", "slow 1000"],
            ["a", "say", "after"],
            ["a", "wait", 1300],
            ["a", "hear"],
        )
    ],
}
