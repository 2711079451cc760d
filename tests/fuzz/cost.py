"""How much CPU does one text from outside cost? Grammar-based texts, mutated and blown up; fails above 100 ms.

python -m tests.fuzz.cost --cases 2000 --from 0
"""

import argparse
import gc
import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from wakeful.compat.workers.config import strip_comments
from wakeful.diagrams.diagram import draw
from wakeful.http.asks import read_json, read_msgpack
from wakeful.http.problems import Problem
from wakeful.operations.arguments import converter
from wakeful.specs.build import to_spec
from wakeful.statechart.chart import Chart
from wakeful.values.codec import VERSION, encode
from wakeful.values.errors import BadInput
from wakeful.values.times import duration_ms

MOST_S = 0.1
BESIDE_S = 0.5  # of a picture: of the program's own chart, and drawn in a thread, so that it is in nobody's way
KEPT = type(lru_cache(int))
SIZE_MAX = 200_000
NOW = 1_790_000_000_000

FIELDS = ["*", "0", "*/7", "59", "1-5", "L", "15W", "fri#2", "29", "2", "0-59"]
ZONES = ["UTC", "Europe/Paris", "Australia/Lord_Howe", "nowhere", ""]
RULES = [
    "FREQ=SECONDLY",
    "FREQ=DAILY",
    "FREQ=YEARLY",
    "INTERVAL=86399",
    "COUNT=10000",
    "BYHOUR=0",
    "BYMINUTE=0",
    "BYSECOND=0",
]
RULES += ["BYDAY=-1FR", "BYMONTHDAY=31", "BYSETPOS=366", "BYMONTH=2", "BYWEEKNO=53", "UNTIL=20270101T000000Z"]
WORDS = ["every", "day", "monday", "at", "9am", "between", "and", "5", "minutes", "last", "of", "month", "1s", "week"]


def a_spec(chance: random.Random, depth: int = 0) -> str:
    """A text of the grammar, seldom sane."""
    kind = chance.randrange(4 if depth > 3 else 7)
    if kind == 0:
        return f"every {chance.choice(['1s', '7s', '1m', '90m', '3d'])}"
    if kind == 1:
        return "cron " + " ".join(chance.choice(FIELDS) for _ in range(chance.choice((5, 6))))
    if kind == 2:
        parts = ";".join(dict.fromkeys(chance.choice(RULES) for _ in range(chance.randrange(1, 6))))
        return f"rrule {parts} from 2026-01-01T00:00:00 in {chance.choice(ZONES)}"
    if kind == 3:
        return f"cron 30 2 * * {chance.choice(FIELDS)} in {chance.choice(ZONES)} gap=skip"
    inner, other = a_spec(chance, depth + 1), a_spec(chance, depth + 1)
    return (
        f"({inner}) {chance.choice(['or', 'except', 'spread 10m', 'within (hours mon-fri 09:00-17:00) or'])} ({other})"
    )


def blown_up(chance: random.Random, text: str) -> str:
    """The text, or with a part of it many times over, or within itself."""
    kind = chance.randrange(5)
    at = chance.randrange(len(text) + 1)
    part = text[at : at + chance.randrange(1, 20)]
    if kind == 0 and part:
        return (text[:at] + part * (SIZE_MAX // len(part)) + text[at:])[:SIZE_MAX]
    if kind == 1:
        return "(" * chance.choice((30, 5_000)) + text + ")" * chance.choice((30, 5_000))
    return text[:at] + text[at + 1 :] if kind == 2 else text


def look(text: str) -> None:
    spec = to_spec(text).bind(added_at=NOW, seed="x", zone="Europe/Paris")
    spec.next_ms(NOW)
    spec.previous_ms(NOW)


def a_rule(chance: random.Random) -> str:
    return "RRULE:" + ";".join(dict.fromkeys(chance.choice(RULES) for _ in range(chance.randrange(1, 7))))


def a_length(chance: random.Random) -> str:
    return "".join(chance.choice(["1", "9" * 50, ".", " ", "s", "ms", "h"]) for _ in range(chance.randrange(1, 30)))


def a_file(chance: random.Random) -> str:
    return "".join(chance.choice(['"', "\\", "//", "/*", "*/", ",", "}", "{", "\n", " "]) for _ in range(20))


def a_value(chance: random.Random) -> bytes:
    step = chance.choice([1, 2**61 - 1, 7])
    members: list[Any] = [step * number for number in range(chance.choice([5, 200, 10_000]))]
    value = chance.choice([members, {str(one): 1 for one in members}, [members], [[one] for one in members]])
    return json.dumps(value).encode()


HINTS = [converter(hint) for hint in (set[int], dict[int, int], frozenset[float], set[tuple[int, ...]], list[set[int]])]


def value(body: bytes) -> None:
    read = read_json(body)
    convert = HINTS[len(body) % len(HINTS)]  # one argument, as one request has it
    if convert is not None:
        with suppress(ValueError, TypeError):
            convert(read)
    with suppress(BadInput, Problem):
        read_msgpack(encode(read))


def a_chart(chance: random.Random, room: int) -> dict[str, Any]:
    """States within states, so many at most, with transitions between neighbours."""
    root: dict[str, Any] = {"id": "m"}
    level = [root]
    while room > 0:
        node = level.pop(chance.randrange(len(level)))
        states: dict[str, Any] = {f"s{number}": {} for number in range(min(room, chance.choice([1, 2, 5, 30])))}
        room -= len(states)
        node["states"] = states
        node |= {"type": "parallel"} if chance.random() < 0.3 else {"initial": chance.choice(list(states))}
        for state in states.values():
            targets = [chance.choice(list(states)) for _ in range(chance.randrange(4))]
            state["on"] = {f"E{number}": {"target": target} for number, target in enumerate(targets)}
            if chance.random() < 0.2:
                state["after"] = {"1000": {"target": chance.choice(list(states))}}
            if chance.random() < 0.1:
                state["always"] = {"target": chance.choice(list(states)), "guard": "g"}
        level += states.values()
    return root


def a_deep_chart(chance: random.Random) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for _ in range(chance.choice([20, 300, 5_000])):
        node = {"initial": "s", "states": {"s": node}, "on": {"E": ".s"}}
    return node


def a_packed(chance: random.Random, depth: int = 0) -> bytes:
    """Bytes of msgpack, with keys of every kind and extension types around anything."""
    kind = chance.randrange(5 if depth > 5 else 9)
    if kind < 5:
        step = chance.choice([1, 2**61 - 1])
        plain = [step * chance.randrange(8), "x" * chance.randrange(4), None, b"", 1.5][kind]
        return msgspec.msgpack.encode(plain)
    count = chance.choice([1, 3, 3, 2_000]) if depth < 2 else chance.randrange(1, 4)
    if kind == 5:
        same = [msgspec.msgpack.encode((2**61 - 1) * (number % 8)) for number in range(count)]
        parts = same if chance.random() < 0.3 else [a_packed(chance, depth + 1)] * count
        return b"\xdc" + count.to_bytes(2, "big") + b"".join(parts)
    if kind == 6:
        alike = [msgspec.msgpack.encode((2**61 - 1) * number) for number in range(8)]
        keys = [b"\x94" + b"".join(chance.choices(alike, k=4)) for _ in range(count)]
        if chance.random() < 0.5:
            keys = [a_packed(chance, depth + 4) for _ in range(count)]
        return b"\xde" + count.to_bytes(2, "big") + b"".join(key + b"\x01" for key in keys)
    inner = a_packed(chance, depth + 1)
    if len(inner) > 60_000:
        return inner
    return b"\xc8" + len(inner).to_bytes(2, "big") + bytes([chance.randrange(14)]) + inner


TARGETS: dict[str, tuple[Callable[[random.Random], Any], Callable[[Any], object]]] = {
    "spec": (lambda chance: blown_up(chance, a_spec(chance)), look),
    "rule": (lambda chance: blown_up(chance, a_rule(chance)), look),
    "phrase": (lambda chance: blown_up(chance, " ".join(chance.choices(WORDS, k=8))), look),
    "length": (lambda chance: blown_up(chance, a_length(chance)), duration_ms),
    "wrangler": (lambda chance: blown_up(chance, a_file(chance))[:20_000], strip_comments),
    "value": (a_value, value),
    "msgpack": (lambda chance: VERSION + a_packed(chance), read_msgpack),
    "chart": (
        lambda chance: a_deep_chart(chance) if chance.random() < 0.2 else a_chart(chance, chance.choice([5, 60, 400])),
        lambda config: Chart.of(config, is_sketch=True),
    ),
    # Of so many states as a person still reads.
    "picture": (lambda chance: a_chart(chance, chance.choice([5, 12, 20])), draw),
}


def forget() -> None:
    """Read everything anew, so that a second try costs what the first did."""
    for kept in (one for one in gc.get_objects() if type(one) is KEPT):
        if str(getattr(kept, "__module__", "")).startswith("wakeful.") or "wakeful" in repr(kept.__wrapped__):
            kept.cache_clear()


def slowness() -> float:
    """How many times slower this machine is, just now, than one that counts to a million in 20 ms."""
    begun = time.process_time()
    for _ in range(1_000_000):
        pass
    return max(1.0, (time.process_time() - begun) / 0.02)


def target_of(seed: int) -> str:
    """The target of that case."""
    return list(TARGETS)[seed % len(TARGETS)]


def most(name: str) -> float:
    """What it may cost."""
    return BESIDE_S if name == "picture" else MOST_S


def measured(seed: int) -> tuple[float, str, Any]:
    """The CPU seconds of one case, its target and what was given."""
    chance = random.Random(seed)
    name = target_of(seed)
    make, act = TARGETS[name]
    given = make(chance)
    took = 9.9
    for _ in range(2):  # the better of two: the machine may have been busy
        forget()
        begun = time.process_time()
        with suppress(BadInput, Problem):
            act(given)
        spent = time.process_time() - begun
        took = min(took, spent if spent < MOST_S else spent / slowness())
        if took < MOST_S:
            break
    return took, name, given


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--cases", type=int, default=2_000)
    asked.add_argument("--from", type=int, default=0, dest="first")
    given = asked.parse_args()
    found = [(measured(seed)[0], seed) for seed in range(given.first, given.first + given.cases)]
    for took, seed in sorted(found, key=lambda one: one[0] / most(target_of(one[1])), reverse=True)[:5]:
        _, name, text = measured(seed)
        print(f"{took * 1000:8.1f} ms  seed {seed}  {name}  {str(text)[:150]!r}")
    return int(any(took > most(target_of(seed)) for took, seed in found))


if __name__ == "__main__":
    raise SystemExit(main())
