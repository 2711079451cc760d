"""What do metrics and traces cost when they are sent, and what when they are not?

The fire benchmark with telemetry off and on in turns. Processor time of each run, because a busy machine moves the
rate by more than there is to see; the least of each, because what others do on the machine only adds.
"""

from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench import fire, program
from bench.measures import Measure
from bench.places import fresh_beside
from bench.sizes import Sizes
from wakeful import App
from wakeful.telemetry import setup
from wakeful.telemetry.instruments import HistogramExporter, instrument

ROUNDS = 5
EXPORT_MS = 10_000  # six times as often as is usual


class Spans(SpanExporter):
    """Takes spans and counts them; what a collector does with them is not our cost."""

    def __init__(self) -> None:
        self.count = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.count += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to do."""


class Metrics(MetricExporter):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: object) -> MetricExportResult:
        self.count += 1
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **more: object) -> None:
        """Nothing to do."""


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`telemetry.off`, `telemetry.on` (as `setup` does it) and `telemetry.all` (every trace recorded), CPU of one fire."""
    found: dict[str, list[float]] = {"off": [], "on": [], "all": []}
    notes = {"off": "counters only", "on": "", "all": ""}
    for number in range(ROUNDS):
        for mode, costs in found.items():
            measure, note = await _fire(fresh_beside(url, f"{mode}{number}"), sizes, mode)
            costs.append(measure.cpu_us)
            notes[mode] = note or notes[mode]
    off = min(found["off"])
    return [
        Measure(f"telemetry.{mode}", min(costs), "µs", f"{(min(costs) / off - 1) * 100:+.1f} %, {notes[mode]}")
        for mode, costs in found.items()
    ]


async def _fire(url: str, sizes: Sizes, mode: str) -> tuple[Measure, str]:
    if mode == "off":
        return (await fire.run(url, sizes))[0], ""
    spans, metrics, made = Spans(), Metrics(), []

    def prepare(app: App) -> None:
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(spans))
        reader = PeriodicExportingMetricReader(
            HistogramExporter(app.deployment, metrics), export_interval_millis=EXPORT_MS
        )
        meters = MeterProvider([reader], shutdown_on_exit=False)
        instrument(app.deployment, meters, with_buckets=False)
        setup(app, tracer_provider=tracers, metrics=False, ratio=1.0 if mode == "all" else None)
        made.extend([tracers, meters])

    program.PREPARE.append(prepare)
    try:
        measure = (await fire.run(url, sizes))[0]
    finally:
        program.PREPARE.clear()
        for provider in made:
            provider.shutdown()
    return measure, f"{spans.count:,} spans, metrics sent {metrics.count} times"
