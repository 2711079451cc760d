"""What leaves the process by OpenTelemetry: what was counted, in its own form, by what the environment says."""

import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)

from tests.telemetry.collector import collecting
from tests.yardstick import PATIENCE_S
from wakeful import App, DurableObject
from wakeful.telemetry import otel
from wakeful.telemetry.catalogue import CATALOGUE
from wakeful.telemetry.instruments import HistogramExporter, instrument
from wakeful.values.errors import BadOption


def program() -> tuple[App, Any]:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def work(self) -> None:
            await self.storage.put("n", 1)

    return app, Cell


class Kept(MetricExporter):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.data: list[MetricsData] = []

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> MetricExportResult:
        self.data.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        pass


def metrics_of(data: MetricsData) -> dict[str, Any]:
    """Every metric by its name; a name that comes twice is an error."""
    found: dict[str, Any] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                assert metric.name not in found
                found[metric.name] = metric
    return found


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    made: list[Any] = []
    yield made
    for provider in made:
        provider.shutdown()


async def test_counters_gauges_and_histograms_are_sent_as_what_they_are(closing: list[Any]) -> None:
    app, cls = program()
    kept = Kept()
    reader = PeriodicExportingMetricReader(HistogramExporter(app.deployment, kept), export_interval_millis=3_600_000)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    closing.append(provider)
    instrument(app.deployment, provider, with_buckets=False)
    async with app.world() as world:
        for _ in range(3):
            await world.get(cls, "a").work()
        reader.collect()
    found = metrics_of(kept.data[-1])
    known = {metric.name: metric for metric in CATALOGUE}
    assert set(found) <= set(known)
    for name, metric in found.items():
        assert (metric.unit, metric.description) == (known[name].unit, known[name].help)
        form = {"counter": "Sum", "gauge": "Gauge", "histogram": "Histogram"}[known[name].kind]
        assert type(metric.data).__name__ == form
    assert found["wakeful.commits"].data.is_monotonic
    (point,) = found["wakeful.objects.wakes"].data.data_points
    assert point.value == 1
    turns = {tuple(point.attributes.items()): point for point in found["wakeful.turns.duration"].data.data_points}
    calls = turns[("class", "Cell"), ("kind", "call")]
    assert (calls.count, sum(calls.bucket_counts), len(calls.bucket_counts)) == (3, 3, len(calls.explicit_bounds) + 1)


async def test_only_differences_are_sent_to_those_who_want_them(closing: list[Any]) -> None:
    from opentelemetry.sdk.metrics import Histogram
    from opentelemetry.sdk.metrics.export import AggregationTemporality

    app, cls = program()
    kept = Kept(preferred_temporality={Histogram: AggregationTemporality.DELTA})
    reader = PeriodicExportingMetricReader(HistogramExporter(app.deployment, kept), export_interval_millis=3_600_000)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    closing.append(provider)
    instrument(app.deployment, provider, with_buckets=False)
    counts = []
    async with app.world() as world:
        for number in (1, 2, 3):
            for _ in range(number):
                await world.get(cls, "a").work()
            reader.collect()
            data = metrics_of(kept.data[-1])["wakeful.turns.duration"].data
            assert data.aggregation_temporality == AggregationTemporality.DELTA
            counts.append(sum(point.count for point in data.data_points))
    assert counts == [1, 2, 3]


async def test_a_program_s_own_provider_gets_histograms_as_counters(closing: list[Any]) -> None:
    app, cls = program()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    closing.append(provider)
    otel.setup(app, meter_provider=provider, traces=False)
    async with app.world() as world:
        await world.get(cls, "a").work()
        data = reader.get_metrics_data()
    assert data is not None
    found = metrics_of(data)
    buckets = {
        point.attributes["le"]: point.value
        for point in found["wakeful.turns.duration.bucket"].data.data_points
        if point.attributes["kind"] == "call"
    }
    assert buckets["+Inf"] == 1
    assert list(buckets.values()) == sorted(buckets.values())


async def test_what_the_exporter_sends_can_be_read_by_a_collector(closing: list[Any]) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    with collecting() as (url, got):
        app, cls = program()
        exporter = OTLPMetricExporter(endpoint=f"{url}/v1/metrics")
        reader = PeriodicExportingMetricReader(
            HistogramExporter(app.deployment, exporter), export_interval_millis=3_600_000
        )
        provider = MeterProvider([reader], shutdown_on_exit=False)
        instrument(app.deployment, provider, with_buckets=False)
        async with app.world() as world:
            await world.get(cls, "a").work()
        provider.shutdown()  # the program is over: what it counted is still sent
    path, body = got.pop()
    assert path == "/v1/metrics"
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    (scope,) = resource.scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    assert found["wakeful.commits"].sum.data_points[0].as_int == 1
    turns = found["wakeful.turns.duration"].histogram.data_points
    assert [point.count for point in turns if point.attributes[1].value.string_value == "call"] == [1]
    assert not turns[0].HasField("min")


# the environment


@pytest.mark.parametrize(
    ("name", "arg", "ratio", "follows"),
    [
        ("always_on", "", 1.0, False),
        ("always_off", "", 0.0, False),
        ("traceidratio", "0.25", 0.25, False),
        ("parentbased_always_on", "", 1.0, True),
        ("parentbased_always_off", "", 0.0, True),
        ("parentbased_traceidratio", "0.5", 0.5, True),
        ("parentbased_traceidratio", "", 1.0, True),
    ],
)
def test_the_environment_chooses_the_sampler(
    monkeypatch: pytest.MonkeyPatch, name: str, arg: str, ratio: float, follows: bool
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", arg)
    found = otel.sampler()
    assert (found.ratio, found.follows, found.budget) == (ratio, follows, 0)


def test_without_a_word_the_first_of_each_second_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_TRACES_SAMPLER", raising=False)
    assert (otel.sampler().ratio, otel.sampler().budget) == (0.001, 10)
    assert (otel.sampler(0.5).ratio, otel.sampler(0.5).budget) == (0.5, 0)


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "telemetry.sampler"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "telemetry.exporter"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "telemetry.protocol"),
        ("OTEL_METRICS_EXPORTER", "prometheus", "telemetry.exporter"),
    ],
)
def test_what_is_not_there_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, code: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadOption) as caught:
        otel.sampler() if "SAMPLER" in variable else otel._exporter("METRICS" if "METRICS" in variable else "TRACES")
    assert caught.value.code == code


@pytest.mark.parametrize("ratio", [-0.1, 1.1])
def test_a_ratio_is_from_0_to_1(ratio: float) -> None:
    with pytest.raises(BadOption):
        otel.sampler(ratio)


def test_telemetry_that_is_switched_off_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    app, _ = program()
    otel.setup(app).close()
    assert app.deployment.tracer is None


# what is not installed


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_counting_and_logging_need_nothing_that_is_not_installed() -> None:
    code = (
        "import sys, wakeful.app, wakeful.telemetry.prometheus, wakeful.telemetry.logs, wakeful.telemetry.samples\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert _python(code) == "[]"


def test_without_the_extra_setup_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['opentelemetry'] = None\nfrom wakeful.values.errors import MissingExtra\n"
        "try:\n    from wakeful.telemetry import setup\nexcept MissingExtra as error:\n    print(error)"
    )
    assert _python(code).endswith("pip install 'wakeful[telemetry]' [extra.telemetry]")


def test_a_collector_that_takes_nothing_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    never, ended = Event(), Event()

    class Stuck:
        def shutdown(self) -> None:
            never.wait(60)

    class Prompt:
        def shutdown(self) -> None:
            ended.set()

    monkeypatch.setattr(otel, "CLOSE_S", 0.05)
    telemetry = otel.Telemetry()
    telemetry._made = [Stuck(), Prompt()]
    began = time.monotonic()
    telemetry.close()
    assert time.monotonic() - began < 50, "it waited for the one that is stuck"
    assert ended.wait(PATIENCE_S)  # one does not wait for the other
    never.set()
    telemetry.close()
