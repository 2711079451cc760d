"""Which numbers must a run reach, and did it?"""

import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bench.results import Results

TABLE = Path(__file__).with_name("bars.md")
_CONDITION = re.compile(r"(?P<sign>[≥≤]) (?P<factor>[\d,.]+)(?: × (?P<subject>\w+)(?: (?P<name>[\w.]+))?)?")

Verdict = Literal["pass", "FAIL", "?"]


class Condition(Struct, frozen=True):
    """`≥ 5 × pgqueuer schedule.1`: a factor alone is the bound itself."""

    text: str
    at_least: bool
    factor: float
    subject: str | None  # "self" is Wakeful
    name: str | None

    def judge(self, results: Results, measure: str, store: str) -> Verdict:
        """`?` when this or the other number is missing from the run."""
        own = results.find("wakeful", measure, store)
        bound = self._bound(results, measure, store)
        if own is None or bound is None:
            return "?"
        return "pass" if (own.median >= bound if self.at_least else own.median <= bound) else "FAIL"

    def _bound(self, results: Results, measure: str, store: str) -> float | None:
        if self.subject is None:
            return self.factor
        subject = "wakeful" if self.subject == "self" else self.subject
        other = results.find(subject, self.name or measure, store)
        return None if other is None else self.factor * other.median


class Bar(Struct, frozen=True):
    measure: str
    store: str  # or "any"
    conditions: list[Condition]


def parse(table: str) -> list[Bar]:
    """The bars of a Markdown table whose columns are measure, store and bar."""
    bars = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] == "measure" or set(cells[0]) <= set("-: "):
            continue
        bars.append(Bar(cells[0], cells[1], [_condition(part.strip()) for part in cells[2].split(";")]))
    return bars


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a condition; write ≥ 15,000 or ≥ 0.6 × raw or ≤ 1.3 × self other.measure")
    factor = float(found["factor"].replace(",", ""))
    return Condition(text, found["sign"] == "≥", factor, found["subject"], found["name"])


def load() -> list[Bar]:
    return parse(TABLE.read_text())


def verdicts(bars: list[Bar], results: Results, measure: str, store: str) -> list[tuple[Condition, Verdict]]:
    """Every condition on this number, judged."""
    return [
        (condition, condition.judge(results, measure, store))
        for bar in bars
        if bar.measure == measure and bar.store in ("any", store)
        for condition in bar.conditions
    ]
