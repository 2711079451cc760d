"""How much CPU does one text from outside cost? Grammar-based texts, mutated and blown up; fails above 100 ms.

python tests/fuzz/cost.py --cases 2000 --from 0
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from wakeful.compat.workers.config import uncommented
from wakeful.http.arguments import converter
from wakeful.http.asks import read_json, read_msgpack
from wakeful.http.problems import Problem
from wakeful.logic.specs.text import to_spec
from wakeful.values.codec import encode
from wakeful.values.errors import BadInput
from wakeful.values.times import duration_ms

MOST_S = 0.1
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
    spec = to_spec(text).bound(added_at=NOW, seed="x", zone="Europe/Paris")
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
    for convert in HINTS:
        if convert is not None:
            with suppress(ValueError, TypeError):
                convert(read)
    with suppress(BadInput, Problem):
        read_msgpack(encode(read))


TARGETS: dict[str, tuple[Callable[[random.Random], Any], Callable[[Any], object]]] = {
    "spec": (lambda chance: blown_up(chance, a_spec(chance)), look),
    "rule": (lambda chance: blown_up(chance, a_rule(chance)), look),
    "phrase": (lambda chance: blown_up(chance, " ".join(chance.choices(WORDS, k=8))), look),
    "length": (lambda chance: blown_up(chance, a_length(chance)), duration_ms),
    "wrangler": (lambda chance: blown_up(chance, a_file(chance))[:20_000], uncommented),
    "value": (a_value, value),
}


def measured(seed: int) -> tuple[float, str, Any]:
    """The CPU seconds of one case, its target and what was given."""
    chance = random.Random(seed)
    name = list(TARGETS)[seed % len(TARGETS)]
    make, act = TARGETS[name]
    given = make(chance)
    took = 9.9
    for _ in range(2):  # the better of two: another process may have had the caches
        begun = time.process_time()
        with suppress(BadInput, Problem):
            act(given)
        took = min(took, time.process_time() - begun)
        if took < MOST_S:
            break
    return took, name, given


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--cases", type=int, default=2_000)
    asked.add_argument("--from", type=int, default=0, dest="first")
    given = asked.parse_args()
    worst = sorted((measured(seed)[0], seed) for seed in range(given.first, given.first + given.cases))[-5:]
    for took, seed in reversed(worst):
        _, name, text = measured(seed)
        print(f"{took * 1000:8.1f} ms  seed {seed}  {name}  {str(text)[:150]!r}")
    return int(worst[-1][0] > MOST_S)


if __name__ == "__main__":
    raise SystemExit(main())
