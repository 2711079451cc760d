"""What does a run leave behind, and how are its numbers looked up?"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.measures import Measure, is_better_when_more, median


class Number(Struct):
    """One measure of one subject on one store, with every repeat."""

    name: str
    subject: str  # wakeful, raw, or a peer
    store: str  # sqlite, postgres, memory
    unit: str
    values: list[float]
    note: str = ""
    cpu_us: list[float] = []  # our process's time for each, 0 where it means nothing

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def cpu_each_us(self) -> float:
        return median(self.cpu_us) if self.cpu_us else 0.0


class Failure(Struct):
    """Something that was to be measured and was not."""

    subject: str
    work: str
    store: str
    reason: str


class Results(Struct):
    """Everything about one run, as it is written to bench/results/."""

    at: str
    sha: str
    form: str
    machine: dict[str, str]
    versions: dict[str, str]
    durability: dict[str, str]  # by "subject store"
    seconds: float = 0.0
    numbers: list[Number] = []
    failures: list[Failure] = []

    def find(self, subject: str, name: str, store: str) -> Number | None:
        for number in self.numbers:
            if (number.subject, number.name, number.store) == (subject, name, store):
                return number
        return None

    def add(self, subject: str, store: str, measure: Measure) -> None:
        """One more repeat of a number."""
        found = self.find(subject, measure.name, store)
        if found is None:
            found = Number(measure.name, subject, store, measure.unit, [])
            self.numbers.append(found)
        found.values.append(measure.value)
        found.cpu_us.append(measure.cpu_us)
        found.note = measure.note

    def best_peer(self, names: Sequence[str], store: str) -> Number | None:
        """The peer that did this work best: on the same store if any did, else on another."""
        others = [n for n in self.numbers if n.subject not in ("wakeful", "raw") and n.name in names]
        same = [n for n in others if n.store == store] or others
        if not same:
            return None
        best = max if is_better_when_more(same[0].unit) else min
        return best(same, key=lambda number: number.median)


def write(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def read(path: Path) -> Results:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except (OSError, msgspec.MsgspecError) as error:
        raise SystemExit(f"{path} is not a result of python -m bench: {error}") from None
