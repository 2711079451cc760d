"""The pages about metrics and logs, the alerts and the dashboard say what the code does."""

import ast
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from wakeful.policy.lease import LEASE_MAX_MS, LEASE_MIN_MS, LEASE_MS, Lease
from wakeful.telemetry.catalogue import CATALOGUE, Metric

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wakeful"
LEVELS = {"info", "warning", "error", "exception", "critical"}
# Words of the program itself, which has no codes of ours.
PROGRAMS_OWN = {"compat/workers/js_globals.py", "machines/node_machines.py"}
_NAME = re.compile(r"\b(?:wakeful|process)_[a-z0-9_]+")
_UNITS = {"1": "–", "s": "seconds", "By": "bytes"}


def row(metric: Metric) -> tuple[str, ...]:
    """What the page must say of a metric, but for when to look at it."""
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    unit = _UNITS.get(metric.unit) or metric.unit.strip("{}")
    return (f"`{metric.prometheus}`", metric.kind, unit, labels, metric.help)


def rows(page: str, first: str) -> list[tuple[str, ...]]:
    """The rows of a page's tables whose first cell is so."""
    lines = [line.strip("|").split(" | ") for line in page.splitlines() if re.match(first, line)]
    return [tuple(cell.strip() for cell in cells) for cells in lines]


def test_the_page_of_metrics_is_the_catalogue() -> None:
    page = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    found = rows(page, r"\| `[a-z]+_")
    assert [cells[:5] for cells in found] == [row(metric) for metric in CATALOGUE]
    assert all(len(cells) == 6 for cells in found)


def test_names_follow_the_rules() -> None:
    names = [metric.prometheus for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    assert len({metric.name for metric in CATALOGUE}) == len(names)
    for metric in CATALOGUE:
        assert re.fullmatch(r"(wakeful|process)(\.[a-z_]+)+", metric.name), metric.name
        assert metric.help.endswith(".")
        assert metric.kind != "histogram" or not metric.prometheus.endswith(("_total", "_count", "_sum", "_bucket"))


def series() -> set[str]:
    """Every name that a query may use."""
    found = set()
    for metric in CATALOGUE:
        if metric.kind == "histogram":
            found |= {f"{metric.prometheus}_{part}" for part in ("bucket", "sum", "count")}
        else:
            found.add(metric.prometheus)
    return found


def unknown(query: str) -> list[str]:
    return [name for name in _NAME.findall(query) if name not in series()]


def labels_of(query: str) -> set[str]:
    """The labels by which a query groups or chooses."""
    grouped = {word.strip() for part in re.findall(r"\bby \(([^)]*)\)", query) for word in part.split(",")}
    return grouped | set(re.findall(r"([a-z_]+)\s*=~?\"", query))


def known_labels(query: str) -> set[str]:
    found = {"job", "instance", "le"}
    for metric in CATALOGUE:
        if metric.prometheus in query:
            found |= set(metric.labels)
    return found


def queries(board: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_asks_only_for_what_there_is() -> None:
    board = json.loads((ROOT / "deploy" / "grafana" / "wakeful.json").read_text(encoding="utf-8"))
    asked = queries(board) + [one["definition"] for one in board["templating"]["list"] if "definition" in one]
    assert len(asked) > 40
    for query in asked:
        assert _NAME.search(query), query
        assert unknown(query) == [], query
        assert labels_of(query) <= known_labels(query), query
        assert query.count("(") == query.count(")")
        assert query.count("{") == query.count("}")


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    board = json.loads((ROOT / "deploy" / "grafana" / "wakeful.json").read_text(encoding="utf-8"))
    taken: dict[tuple[int, int], str] = {}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]


def test_the_alerts_ask_only_for_what_there_is_and_say_what_to_do() -> None:
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert unknown(rule["expr"]) == [], rule
        assert labels_of(rule["expr"]) <= known_labels(rule["expr"]), rule
        assert set(rule["annotations"]) == {"summary", "remedy"}
        # A label that the query does not keep would be empty in the message.
        kept = labels_of(rule["expr"]) if " by (" in rule["expr"] else known_labels(rule["expr"])
        assert set(re.findall(r"\$labels\.([a-z]+)", rule["annotations"]["summary"])) <= kept, rule


@pytest.mark.parametrize("lease_ms", [LEASE_MIN_MS, LEASE_MS, LEASE_MAX_MS])
def test_a_lease_that_was_nearly_lost_alerts_where_the_doctor_warns_however_long_it_is(lease_ms: int) -> None:
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    [query] = [rule["expr"] for group in groups for rule in group["rules"] if rule["alert"] == "WakefulLeaseNear"]
    share = re.fullmatch(
        r"min by \(job, instance\) \(wakeful_lease_slack_seconds / wakeful_lease_length_seconds\) < ([0-9.]+)", query
    )
    assert share is not None, query
    assert float(share[1]) * lease_ms == Lease(lease_ms).near_ms


@pytest.mark.parametrize(
    "query", ["rate(wakeful_timers_fired[5m])", "wakeful_nonsense_total > 0", "process_cpu_seconds"]
)
def test_a_query_for_nothing_is_found(query: str) -> None:
    assert unknown(query)


def test_a_label_that_is_not_there_is_found() -> None:
    query = "sum by (tenant) (rate(wakeful_runs_total[5m]))"
    assert not labels_of(query) <= known_labels(query)


# log lines


def logged(path: Path, text: str) -> list[tuple[str, str | None]]:
    """Where something is logged, and its code: a text, an expression in braces, or None."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id.endswith(("log", "logger"))):
            continue
        code = None
        for keyword in node.keywords:
            if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "code":
                        is_text = isinstance(value, ast.Constant)
                        code = str(value.value) if is_text else f"{{{ast.unparse(value)}}}"  # type: ignore[attr-defined]
        found.append((f"{path}:{node.lineno}", code))
    return found


@lru_cache(maxsize=1)
def all_logged() -> list[tuple[str, str | None]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if name not in PROGRAMS_OWN:
            found += logged(Path(name), path.read_text(encoding="utf-8"))
    return found


def test_every_line_has_a_code() -> None:
    assert [where for where, code in all_logged() if code is None] == []


def test_every_code_is_on_the_page() -> None:
    page = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    told = {cells[0].strip("`") for cells in rows(page, r"\| `[a-z]+\.[a-z]+` \| (info|warning|error)")}
    codes = {code for _, code in all_logged() if code is not None and not code.startswith("{")}
    made = {code for _, code in all_logged() if code is not None and code.startswith("{")}
    assert made <= {
        "{code}",
        "{error.code}",
        "{fenced.code}",
        "{Fenced.code}",
        "{f'upkeep.{chore}'}",
    }  # those of errors, and one chore
    codes |= {"upkeep.prune"}
    assert told == codes, (sorted(codes - told), sorted(told - codes))


def test_a_line_without_a_code_is_found() -> None:
    assert logged(Path("x.py"), "log.warning('x')") == [("x.py:1", None)]
    assert logged(Path("x.py"), "log.error('x', extra={'code': 'a.b'})") == [("x.py:1", "a.b")]
    assert logged(Path("x.py"), "log.debug('x')") == []
