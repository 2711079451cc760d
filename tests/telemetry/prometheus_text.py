"""A strict reader of Prometheus' text format 0.0.4: whatever is not exactly that is an error."""

import re
from typing import NamedTuple

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Inf)|NaN")
_SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}

Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """What a page says of one name."""

    help: str
    kind: str
    samples: dict[tuple[str, Labels], float]  # by suffix and labels


class BadPage(AssertionError):
    """The page is not in the format."""


def parse(text: str) -> dict[str, Metric]:
    """Every metric of a page."""
    if not text.endswith("\n"):
        raise BadPage("the last line does not end")
    found: dict[str, Metric] = {}
    helped: str | None = None
    current = ""
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            _want(bool(_NAME.fullmatch(name)) and bool(words) and name not in found, line)
            _want(not re.search(r"\\(?![\\n])", words), line)
            helped, current = words, name
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            _want(name == current and helped is not None and kind in _SUFFIXES, line)
            found[name] = Metric(helped or "", kind, {})
            helped = None
        else:
            _want(helped is None and current in found, line)
            _sample(found[current], current, line)
    for name, metric in found.items():
        _check(name, metric)
    return found


def _sample(metric: Metric, name: str, line: str) -> None:
    match = _NAME.match(line)
    _want(match is not None, line)
    assert match is not None
    suffix = match.group().removeprefix(name) if match.group().startswith(name) else None
    _want(suffix in _SUFFIXES[metric.kind], line)
    rest, labels = line[match.end() :], []
    if rest.startswith("{"):
        rest = rest[1:]
        while True:
            label = _LABEL.match(rest)
            _want(label is not None, line)
            assert label is not None
            labels.append((label[1], re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), label[2])))
            rest = rest[label.end() :]
            if rest.startswith("}"):
                rest = rest[1:]
                break
            _want(rest.startswith(","), line)
            rest = rest[1:]
    _want(rest.startswith(" ") and bool(_NUMBER.fullmatch(rest[1:])), line)
    key = (suffix or "", tuple(labels))
    _want(key not in metric.samples and len(dict(labels)) == len(labels), line)
    metric.samples[key] = float(rest[1:])


def _check(name: str, metric: Metric) -> None:
    _want(bool(metric.samples), f"{name} has no samples")
    if metric.kind == "counter":
        _want(name.endswith("_total") and all(value >= 0 for value in metric.samples.values()), name)
    if metric.kind != "histogram":
        return
    series: dict[Labels, list[tuple[float, float]]] = {}
    for (suffix, labels), value in metric.samples.items():
        if suffix == "_bucket":
            bound = dict(labels)["le"]
            rest = tuple(label for label in labels if label[0] != "le")
            series.setdefault(rest, []).append((float(bound), value))
    for labels, buckets in series.items():
        _want([bound for bound, _ in buckets] == sorted({bound for bound, _ in buckets}), f"{name}: bounds must rise")
        counts = [count for _, count in buckets]
        _want(counts == sorted(counts), f"{name}: buckets must hold those below")
        _want(buckets[-1][0] == float("inf"), f"{name}: no +Inf")
        _want(metric.samples.get(("_count", labels)) == counts[-1], f"{name}: _count is not +Inf")
        _want(("_sum", labels) in metric.samples, f"{name}: no _sum")


def _want(is_so: bool, line: str) -> None:
    if not is_so:
        raise BadPage(line)
