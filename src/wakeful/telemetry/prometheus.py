"""Layer 5. How does Prometheus read the metrics?

Version 0.0.4 of its text format. Reading touches no store and no lock, and takes well under a millisecond a class.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wakeful.telemetry.catalogue import CATALOGUE, Metric, read
from wakeful.values.metrics import Histogram

if TYPE_CHECKING:
    from wakeful.app import App

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def page(app: "App") -> str:
    """What this process has counted; of a program that is not running only that."""
    nodes = [] if app.deployment.node is None else app.deployment.node.all_homes
    lines: list[str] = []
    for metric in CATALOGUE:
        values = read(metric, nodes)
        if not values:
            continue
        name = metric.prometheus
        lines.append(f"# HELP {name} {metric.help.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}")
        lines.append(f"# TYPE {name} {metric.kind}")
        for labels, value in sorted(values.items()):
            pairs = [f'{label}="{_escape(text)}"' for label, text in zip(metric.labels, labels, strict=True)]
            if isinstance(value, Histogram):
                lines += _histogram(metric, name, pairs, value)
            else:
                lines.append(f"{name}{_braces(pairs)} {_number(value * metric.scale)}")
    return "\n".join([*lines, ""])


def _histogram(metric: Metric, name: str, pairs: list[str], value: Histogram) -> Iterator[str]:
    total = 0
    for bound, count in zip(value.bounds, value.counts, strict=False):
        total += count
        le = 'le="' + _number(bound * metric.scale) + '"'
        yield f"{name}_bucket{_braces([*pairs, le])} {total}"
    total += value.counts[-1]
    infinite = 'le="+Inf"'
    yield f"{name}_bucket{_braces([*pairs, infinite])} {total}"
    yield f"{name}_sum{_braces(pairs)} {_number(value.sum * metric.scale)}"
    yield f"{name}_count{_braces(pairs)} {total}"


def _braces(pairs: list[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """Short, exact for what was counted, and the same on every scrape."""
    return str(value) if isinstance(value, int) else f"{value:.12g}"
