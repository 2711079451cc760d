"""`wakeful run` and `dev` with `--log json --telemetry otlp`: what a collector gets of a real process, and what it logs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.telemetry.collector import collecting
from wakeful.cli.exit_codes import CommandError
from wakeful.cli.terminal_log import LOGS, _choose

PROGRAM = """
from wakeful import App, DurableObject

app = App()

@app.object
class Bell(DurableObject):
    async def arm(self) -> None:
        await self.ctx.set_alarm(1)

    async def alarm(self) -> None:
        self.ctx.log.warning("rang")

async def on_start(app: App) -> None:
    await app.get(Bell, "door").arm()
"""


@pytest.mark.parametrize("command", ["run", "dev --http off"])
def test_a_real_process_sends_and_logs(command: str, tmp_path: Path) -> None:
    (tmp_path / "bell.py").write_text(PROGRAM)
    started = [sys.executable, "-m", "wakeful.cli", *command.split(), "bell.py", "--store", "memory:"]
    with collecting() as (url, got):
        process = subprocess.Popen(
            [*started, "--telemetry", "otlp", "--log", "json", "--json"],
            cwd=tmp_path,
            env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "bells"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            line = json.loads(process.stderr.readline())  # it rang, so there is something to send
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["event"] == "stopped"
    assert (line["message"], line["object"], line["timer"], line["level"]) == ("rang", "Bell/door", "alarm", "warning")
    spans = [
        (resource.resource, span)
        for path, body in got
        if path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {"call Bell.arm", "turn Bell.arm", "commit", "fire Bell.alarm"} <= {span.name for _, span in spans}
    assert {span.trace_id.hex() for _, span in spans} == {line["trace_id"]}
    names = {pair.key: pair.value.string_value for pair in spans[0][0].attributes}
    assert names["service.name"] == "bells"
    _, body = next(found for found in reversed(got) if found[0] == "/v1/metrics")
    (scope,) = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    assert found["wakeful.timers.fired"].sum.data_points[0].as_int == 1
    assert found["wakeful.timers.lateness"].histogram.data_points[0].count == 1


def test_the_environment_chooses_where_no_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAKEFUL_LOG", raising=False)
    assert _choose(None, "WAKEFUL_LOG", LOGS) == "text"
    monkeypatch.setenv("WAKEFUL_LOG", "json")
    assert (_choose(None, "WAKEFUL_LOG", LOGS), _choose("text", "WAKEFUL_LOG", LOGS)) == ("json", "text")
    monkeypatch.setenv("WAKEFUL_LOG", "xml")
    with pytest.raises(CommandError, match="use text or json"):
        _choose(None, "WAKEFUL_LOG", LOGS)
