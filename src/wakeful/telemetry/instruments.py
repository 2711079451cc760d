"""Layer 5. How do the metrics of the catalogue become those of OpenTelemetry?

Nothing is recorded twice: callbacks read what was counted when it is time to send it. OpenTelemetry has no callback
for histograms, so an exporter of ours puts them beside the rest; into a program's own provider they go as counters.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.sdk.metrics import Histogram as SdkHistogram
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.metrics.export import Metric as SdkMetric

import wakeful
from wakeful.telemetry.catalogue import CATALOGUE, Labels, Metric, Number, read
from wakeful.values.metrics import Histogram

if TYPE_CHECKING:
    from wakeful.deployment import Deployment

SCOPE = "wakeful"


def values(deployment: "Deployment", metric: Metric) -> list[tuple[Labels, "Number | Histogram"]]:
    """What a metric has now; read in the exporter's thread, while the program goes on."""
    return list(read(metric, [] if deployment.latest is None else deployment.latest.all_homes).items())


def attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))


def instrument(deployment: "Deployment", provider: MeterProvider, *, with_buckets: bool) -> None:
    """Make an instrument for each metric; `with_buckets` also three counters for each histogram."""
    meter = provider.get_meter(SCOPE, wakeful.__version__)
    for metric in CATALOGUE:
        about = {"unit": metric.unit, "description": metric.help}
        if metric.kind == "counter":
            meter.create_observable_counter(metric.name, callbacks=[_numbers(deployment, metric)], **about)
        elif metric.kind == "gauge":
            meter.create_observable_gauge(metric.name, callbacks=[_numbers(deployment, metric)], **about)
        elif with_buckets:
            counted = {"unit": "1", "description": metric.help}
            meter.create_observable_counter(
                f"{metric.name}.bucket", callbacks=[_buckets(deployment, metric)], **counted
            )
            meter.create_observable_counter(f"{metric.name}.count", callbacks=[_counts(deployment, metric)], **counted)
            meter.create_observable_counter(f"{metric.name}.sum", callbacks=[_sums(deployment, metric)], **about)


Observe = Callable[[CallbackOptions], Iterable[Observation]]


def _numbers(deployment: "Deployment", metric: Metric) -> Observe:
    def observe(options: CallbackOptions) -> Iterable[Observation]:
        for labels, value in values(deployment, metric):
            if not isinstance(value, Histogram):
                scaled = value if metric.scale == 1 else value * metric.scale
                yield Observation(scaled, attributes(metric, labels))

    return observe


def _histograms(deployment: "Deployment", metric: Metric) -> Iterable[tuple[dict[str, str], Histogram]]:
    for labels, value in values(deployment, metric):
        if isinstance(value, Histogram):
            yield attributes(metric, labels), value


def _buckets(deployment: "Deployment", metric: Metric) -> Observe:
    def observe(options: CallbackOptions) -> Iterable[Observation]:
        for labels, value in _histograms(deployment, metric):
            total = 0
            bounds = [f"{bound * metric.scale:.12g}" for bound in value.bounds]
            for bound, count in zip([*bounds, "+Inf"], value.counts, strict=True):
                total += count
                yield Observation(total, {**labels, "le": bound})

    return observe


def _counts(deployment: "Deployment", metric: Metric) -> Observe:
    return lambda options: [Observation(value.count, labels) for labels, value in _histograms(deployment, metric)]


def _sums(deployment: "Deployment", metric: Metric) -> Observe:
    return lambda options: [
        Observation(value.sum * metric.scale, labels) for labels, value in _histograms(deployment, metric)
    ]


def _with(scope: ScopeMetrics, ours: list[SdkMetric]) -> ScopeMetrics:
    """In our own scope what is ours beside the rest: a second one of the same name would hide the first."""
    if scope.scope.name != SCOPE:
        return scope
    return ScopeMetrics(scope.scope, [*scope.metrics, *ours], scope.schema_url)


class HistogramExporter(MetricExporter):
    """Another exporter, with the program's histograms beside what it is given."""

    def __init__(self, deployment: "Deployment", exporter: MetricExporter) -> None:
        temporality: dict[type, AggregationTemporality] = getattr(exporter, "_preferred_temporality", None) or {}
        super().__init__(preferred_temporality=temporality)
        self._deployment = deployment
        self._exporter = exporter
        self._is_delta = temporality.get(SdkHistogram) == AggregationTemporality.DELTA
        self._began_ns = time.time_ns()
        self._last: dict[tuple[str, Labels], Histogram] = {}  # what was sent, when only differences are wanted

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> MetricExportResult:
        now_ns = time.time_ns()
        found = [self._metric(metric, now_ns) for metric in CATALOGUE if metric.kind == "histogram"]
        if self._is_delta:
            self._began_ns = now_ns
        ours = [one for one in found if one is not None]
        resources = [
            ResourceMetrics(one.resource, [_with(scope, ours) for scope in one.scope_metrics], one.schema_url)
            for one in metrics_data.resource_metrics
        ]
        return self._exporter.export(MetricsData(resources), timeout_millis=timeout_millis, **more)

    def _metric(self, metric: Metric, now_ns: int) -> SdkMetric | None:
        points = [self._point(metric, labels, value, now_ns) for labels, value in values(self._deployment, metric)]
        if not points:
            return None
        temporality = AggregationTemporality.DELTA if self._is_delta else AggregationTemporality.CUMULATIVE
        return SdkMetric(metric.name, metric.help, metric.unit, HistogramData(points, temporality))

    def _point(self, metric: Metric, labels: Labels, value: Any, now_ns: int) -> HistogramDataPoint:
        counts, total = list(value.counts), value.sum
        if self._is_delta:
            last = self._last.get((metric.name, labels))
            if last is not None:
                counts = [one - before for one, before in zip(counts, last.counts, strict=True)]
                total -= last.sum
            self._last[metric.name, labels] = value
        return HistogramDataPoint(
            attributes=attributes(metric, labels),
            start_time_unix_nano=self._began_ns,
            time_unix_nano=now_ns,
            count=sum(counts),
            sum=total * metric.scale,
            bucket_counts=counts,
            explicit_bounds=[bound * metric.scale for bound in value.bounds],
            min=None,  # type: ignore[arg-type]  # buckets don't say; left out of what is sent
            max=None,  # type: ignore[arg-type]
        )

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        self._exporter.shutdown(timeout_millis=timeout_millis, **more)
