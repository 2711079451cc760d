"""What scenarios are made of.

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
