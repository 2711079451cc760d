"""How does a run look to people: as a table on the terminal, and as Markdown?"""

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench import bars
from bench.measures import is_better_when_more
from bench.results import Number, Results

COLUMNS = ("measure", "store", "wakeful", "CPU each", "raw", "of raw", "best peer", "× peer", "bar")
# Most peers gain nothing from many callers and are measured with one: ours is seen beside the best they do either way.
PEER_NAMES = {"schedule.64": ("schedule.1", "schedule.64"), "schedule.1000": ("schedule.1", "schedule.64")}
JOBS = "jobs."  # what Wakeful does by its jobs the peers and the bare store do as such


class Line(NamedTuple):
    cells: tuple[str, ...]  # all but the bar
    verdicts: list[tuple[str, bars.Verdict]]


def amount(value: float, unit: str) -> str:
    """12,345/s, 1.23 ms."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{'' if unit.startswith('/') else ' '}{unit}"


def lines(results: Results) -> Iterator[Line]:
    """One per number of Wakeful's own, with what it is seen beside."""
    table = bars.load()
    for number in results.numbers:
        if number.subject != "wakeful":
            continue
        name = number.name.removeprefix(JOBS)
        raw = results.find("raw", name, number.store)
        peer = results.best_peer(PEER_NAMES.get(name, (name,)), number.store)
        judged = bars.verdicts(table, results, number.name, number.store)
        yield Line(
            (
                number.name,
                number.store,
                amount(number.median, number.unit),
                f"{number.cpu_each_us:.0f} µs" if number.cpu_each_us else "",
                "" if raw is None else amount(raw.median, raw.unit),
                "" if raw is None else f"{number.median / raw.median:.0%}",
                "" if peer is None else f"{peer.subject} {_where(peer, number)}{amount(peer.median, peer.unit)}",
                "" if peer is None else f"{number.median / peer.median:.1f}",
            ),
            [(condition.text, verdict) for condition, verdict in judged],
        )


def _where(peer: Number, number: Number) -> str:
    """What differs from ours, if anything."""
    store = "" if peer.store == number.store else f"on {peer.store} "
    return f"{'' if peer.name == number.name.removeprefix(JOBS) else peer.name + ' '}{store}"


def show(results: Results, console: Console) -> None:
    """The table, the limits of the machine, the peers, and what was not measured."""
    colours = {"pass": "green", "FAIL": "bold red", "?": "dim"}
    table = Table(*COLUMNS, title=f"Wakeful {results.sha}, {results.form} form, {results.at}")
    for line in lines(results):
        bar = "\n".join(f"[{colours[verdict]}]{verdict}[/] {text}" for text, verdict in line.verdicts)
        table.add_row(*line.cells, bar)
    console.print(table)
    others = Table("subject", "store", "measure", "value", "note", title="The machine and the peers")
    for number in _others(results):
        others.add_row(number.subject, number.store, number.name, amount(number.median, number.unit), number.note)
    console.print(others)
    for failure in results.failures:
        console.print(f"not measured: {failure.subject} {failure.work} on {failure.store}: {failure.reason}")
    console.print(summary(results))


def summary(results: Results) -> str:
    """One line: how many conditions hold."""
    found = [verdict for line in lines(results) for _, verdict in line.verdicts]
    return (
        f"{found.count('pass')} conditions hold, {found.count('FAIL')} don't, {found.count('?')} can't be judged; "
        f"{results.seconds:.0f} s in all"
    )


def _others(results: Results) -> list[Number]:
    return [n for n in results.numbers if n.store == "machine" or n.subject not in ("wakeful", "raw")]


def markdown(results: Results) -> str:
    """The same, for a repository page."""
    rows = [
        f"# Benchmark of {results.sha}, {results.form} form",
        "",
        f"{results.at}; " + "; ".join(f"{name} {value}" for name, value in results.machine.items()) + ".",
        "Medians of the repeats. " + summary(results) + ".",
        "",
        *_table(
            COLUMNS, ([*line.cells, "<br>".join(f"{v} {text}" for text, v in line.verdicts)] for line in lines(results))
        ),
        "",
        "## The machine and the peers",
        "",
        *_table(
            ("subject", "store", "measure", "value", "note"),
            ([n.subject, n.store, n.name, amount(n.median, n.unit), n.note] for n in _others(results)),
        ),
        "",
        "## Durability",
        "",
        *_table(("subject and store", "settings"), ([*item] for item in results.durability.items())),
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in results.versions.items()) + ".",
    ]
    if results.failures:
        rows += ["", "## Not measured", ""]
        rows += [f"- {f.subject} {f.work} on {f.store}: {f.reason}" for f in results.failures]
    return "\n".join(rows) + "\n"


def _table(columns: tuple[str, ...], rows: Iterator[list[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def compare(before: Results, after: Results) -> Table:
    """Before and after, with the ratio that is above 1 when it became better."""
    table = Table("measure", "subject", "store", "before", "after", "better by", title=f"{before.sha} → {after.sha}")
    for number in after.numbers:
        old = before.find(number.subject, number.name, number.store)
        if old is None:
            continue
        gain = improvement(old, number)
        colour = "green" if gain >= 1.1 else "red" if gain <= 0.9 else "dim"
        values = (amount(old.median, old.unit), amount(number.median, number.unit))
        table.add_row(number.name, number.subject, number.store, *values, f"[{colour}]× {gain:.2f}[/]")
    return table


def improvement(before: Number, after: Number) -> float:
    """How many times better it became; below 1 when it became worse."""
    old, new = before.median, after.median
    if not is_better_when_more(after.unit):
        old, new = new, old
    return new / old if old else float("inf")
