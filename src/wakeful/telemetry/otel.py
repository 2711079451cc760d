"""Layer 5. How do metrics and traces leave the process by OpenTelemetry?

One call, `setup(app)`, and the environment that OpenTelemetry has for it: `OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, … A program that has set up OpenTelemetry itself keeps its own.
"""

import os
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

import wakeful
from wakeful.values.errors import BadOption, MissingExtra

try:
    from opentelemetry import metrics as otel_metrics
    from opentelemetry import trace as otel_trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    from wakeful.telemetry.instruments import HistogramExporter, instrument
    from wakeful.telemetry.spans import Sampler, Tracing
except ImportError as error:
    raise MissingExtra(
        f"telemetry needs OpenTelemetry ({error.name} is missing); pip install 'wakeful[telemetry]'",
        code="extra.telemetry",
    ) from None

if TYPE_CHECKING:
    from wakeful.app import App

BUDGET = 10  # traces a second that are recorded before one in a thousand is
RATIO = 0.001
CLOSE_S = 5.0


class Telemetry:
    """What `setup` began; `close` sends what is left."""

    def __init__(self) -> None:
        self._made: list[Any] = []

    def close(self) -> None:
        """Send what is left and stop. Blocks while it does, but not for long: who does not take it holds up no end."""
        made, self._made = self._made, []
        # Daemons: with a collector that does not answer, OpenTelemetry tries for the better part of a minute.
        threads = [Thread(target=provider.shutdown, name="wakeful-telemetry", daemon=True) for provider in made]
        for thread in threads:
            thread.start()
        until = time.monotonic() + CLOSE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


def setup(
    app: "App",
    *,
    service: str = "wakeful",
    ratio: float | None = None,
    traces: bool = True,
    metrics: bool = True,
    tracer_provider: otel_trace.TracerProvider | None = None,
    meter_provider: otel_metrics.MeterProvider | None = None,
) -> Telemetry:
    """Send metrics and traces of this program from now on, by OTLP over HTTP unless the environment says otherwise.

    `ratio` of the traces that begin here are recorded; without it each second's first ten and one in a thousand of the
    others, or what `OTEL_TRACES_SAMPLER` says. Providers that are given, or that the program has made global, are used
    as they are and not shut down by `close`.
    """
    telemetry = Telemetry()
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return telemetry
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or service})
    if traces:
        provider = tracer_provider or _own_tracers(resource, telemetry)
        if provider is not None:
            app.deployment.tracer = Tracing(provider, sampler(ratio), version=wakeful.__version__)
            for node in [] if app.deployment.node is None else app.deployment.node.all_homes:
                node.tracer = app.deployment.tracer
    if metrics:
        if meter_provider is not None or isinstance(otel_metrics.get_meter_provider(), MeterProvider):
            instrument(app.deployment, meter_provider or otel_metrics.get_meter_provider(), with_buckets=True)
        else:
            _own_meters(app, resource, telemetry)
    return telemetry


def sampler(ratio: float | None = None) -> Sampler:
    """The sampler that was asked for, or that of the environment, or ours."""
    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if ratio is not None:
        return Sampler(ratio)
    if not name:
        return Sampler(RATIO, budget=BUDGET)
    kind = name.removeprefix("parentbased_")
    text = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "") or "1.0"
    try:
        known = {"always_on": 1.0, "always_off": 0.0, "traceidratio": float(text)}[kind]
    except (KeyError, ValueError):
        raise BadOption(
            f"OTEL_TRACES_SAMPLER={name} OTEL_TRACES_SAMPLER_ARG={text}: not a sampler; use parentbased_traceidratio and 0.1",
            code="telemetry.sampler",
        ) from None
    return Sampler(known, follows=name != kind)


def _own_tracers(resource: Resource, telemetry: Telemetry) -> otel_trace.TracerProvider | None:
    """The global provider of the program, or one of ours that becomes it; None: nobody wants traces."""
    there = otel_trace.get_tracer_provider()
    if isinstance(there, TracerProvider):
        return there
    exporter = _span_exporter(_exporter("TRACES"))
    if exporter is None:
        return None
    # What is recorded has been decided before a span is made; what is made is recorded.
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    otel_trace.set_tracer_provider(provider)
    telemetry._made.append(provider)
    return provider


def _own_meters(app: "App", resource: Resource, telemetry: Telemetry) -> None:
    exporter = _metric_exporter(_exporter("METRICS"))
    if exporter is None:
        return
    reader = PeriodicExportingMetricReader(HistogramExporter(app.deployment, exporter))
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    otel_metrics.set_meter_provider(provider)
    instrument(app.deployment, provider, with_buckets=False)
    telemetry._made.append(provider)


def _exporter(signal: str) -> str:
    """Which exporter the environment wants: otlp, console or none."""
    name = os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() or "otlp"
    if name not in ("otlp", "console", "none"):
        raise BadOption(
            f"OTEL_{signal}_EXPORTER={name}: use otlp, console or none (Prometheus reads /metrics without any of it)",
            code="telemetry.exporter",
        )
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(variable, "").strip().lower()
        if name == "otlp" and protocol:
            if protocol != "http/protobuf":
                raise BadOption(f"{variable}={protocol}: only http/protobuf is supported", code="telemetry.protocol")
            break
    return name


def _span_exporter(name: str) -> SpanExporter | None:
    if name == "none":
        return None
    if name == "console":
        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _metric_exporter(name: str) -> MetricExporter | None:
    if name == "none":
        return None
    if name == "console":
        return ConsoleMetricExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()
