"""Layer 5. What does a program tell those who watch over it?

`setup(app)` sends metrics and traces by OpenTelemetry (extra `telemetry`); `prometheus.page(app)` is the page that
Prometheus reads, which needs nothing. Every metric is in `catalogue.py`, and in docs/telemetry.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeful.telemetry.otel import setup

__all__ = ["setup"]


def __getattr__(name: str) -> Any:
    if name != "setup":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from wakeful.telemetry.otel import setup

    return setup
