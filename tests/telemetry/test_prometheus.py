"""The page for Prometheus: in its format, complete, and true."""

from typing import Any

import pytest

from tests.telemetry.prometheus_text import BadPage, parse
from wakeful import App, DurableObject
from wakeful.telemetry.catalogue import CATALOGUE
from wakeful.telemetry.prometheus import CONTENT_TYPE, page
from wakeful.telemetry.samples import count_rows


def program(name: str = "Cell") -> tuple[App, Any]:
    app = App()

    @app.object(name=name)
    class Cell(DurableObject):
        async def arm(self, after: int) -> None:
            await self.ctx.set_alarm(self.ctx.now().timestamp() * 1000 + after)

        async def alarm(self) -> None:
            if self.ctx.key == "bad":
                raise ValueError("on purpose")
            await self.storage.put("rang", True)

        async def fail(self) -> None:
            raise ValueError("on purpose")

    return app, Cell


def value(text: str, name: str, suffix: str = "", **labels: str) -> float:
    return parse(text)[name].samples[suffix, tuple(labels.items())]


async def test_a_page_has_everything_that_has_a_value_under_the_name_of_the_catalogue() -> None:
    app, cls = program()
    async with app.world() as world:
        await world.get(cls, "a").arm(1_000)
        await world.advance(seconds=5)
        await count_rows(app.deployment.node)  # type: ignore[arg-type]
        found = parse(page(app))
    known = {metric.prometheus: metric for metric in CATALOGUE}
    assert set(found) <= set(known)
    for name, metric in found.items():
        assert (metric.kind, metric.help) == (known[name].kind, known[name].help)
        for _, labels in metric.samples:
            assert tuple(label for label, _ in labels if label != "le") == known[name].labels
    # What has labels has none before something happened, and traces need a tracer.
    without = {name for name, metric in known.items() if metric.labels} | {"wakeful_traces_total"}
    assert set(known) - set(found) <= without


async def test_what_a_page_says_is_what_happened() -> None:
    app, cls = program()
    async with app.world() as world:
        for key in ("a", "b"):
            await world.get(cls, key).arm(1_000)
        await world.get(cls, "bad").arm(1_000)
        with pytest.raises(ValueError, match="on purpose"):
            await world.get(cls, "a").fail()
        await world.advance(days=2)  # until the bad one is parked
        await count_rows(app.deployment.node)  # type: ignore[arg-type]
        text = page(app)
    assert value(text, "wakeful_runs_total", kind="alarm", verdict="run") == 2
    failed = value(text, "wakeful_runs_total", kind="alarm", verdict="failed")
    assert failed > 1
    assert value(text, "wakeful_retries_total") == failed - 1
    assert value(text, "wakeful_timers_parked_total") == 1
    assert value(text, "wakeful_store_rows", what="parked") == 1
    assert value(text, "wakeful_store_rows", what="objects") >= 3
    assert value(text, "wakeful_timers_fired_total") == failed + 2
    assert value(text, "wakeful_timers_lateness_seconds", "_count", kind="alarm") == failed + 2
    assert value(text, "wakeful_turns_duration_seconds", "_count", **{"class": "Cell", "kind": "call"}) == 4
    assert value(text, "wakeful_turns_failures_total", **{"class": "Cell", "kind": "call"}) == 1
    assert value(text, "wakeful_turns_failures_total", **{"class": "Cell", "kind": "timer"}) == failed
    assert value(text, "wakeful_objects_wakes_total") > 3
    assert value(text, "wakeful_node_down") == 0
    assert value(text, "wakeful_shards_owned") == 256


async def test_lateness_is_from_when_the_timer_was_due() -> None:
    app, cls = program()
    async with app.world() as world:
        await world.get(cls, "a").arm(1_000)
        await world.crash()
        await world.restart(after="31s")
        await world.advance(seconds=1)
        text = page(app)
    assert value(text, "wakeful_timers_lateness_seconds", "_sum", kind="alarm") == 30
    assert value(text, "wakeful_timers_lateness_seconds", "_bucket", kind="alarm", le="60") == 1
    assert value(text, "wakeful_timers_lateness_seconds", "_bucket", kind="alarm", le="10") == 0


async def test_a_retry_is_late_by_its_own_time() -> None:
    app, cls = program()
    async with app.world() as world:
        await world.get(cls, "bad").arm(1_000)
        await world.advance(seconds=30)
        text = page(app)
    assert value(text, "wakeful_timers_lateness_seconds", "_count", kind="alarm") > 2
    assert value(text, "wakeful_timers_lateness_seconds", "_sum", kind="alarm") < 0.5


async def test_a_node_without_its_store_is_down() -> None:
    app, cls = program()
    async with app.world() as world:
        await world.get(cls, "a").arm(1)
        assert app.deployment.node is not None
        from wakeful.values.errors import StoreDown

        app.deployment.node.store_failed(StoreDown("on purpose"))
        text = page(app)
        assert value(text, "wakeful_node_down") == 1
        assert value(text, "wakeful_store_outages_total") == 1
        await world.advance(seconds=60)
        assert value(page(app), "wakeful_node_down") == 0


async def test_names_that_need_it_are_escaped() -> None:
    app, cls = program()
    async with app.world() as world:
        await world.get(cls, "a").arm(1)
        assert app.deployment.node is not None
        app.deployment.node.meter.denied.of('a"b\\c\nd').add(3)
        text = page(app)
    assert 'code="a\\"b\\\\c\\nd"' in text
    assert value(text, "wakeful_denied_total", code='a"b\\c\nd') == 3


def test_a_program_that_does_not_run_has_a_page_too() -> None:
    app, _ = program()
    assert page(app) == ""


def test_the_content_type_is_prometheus_own() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    "text",
    [
        "a 1",
        "a 1\n",
        "# TYPE a counter\na 1\n",
        "# HELP a x\n# TYPE a counter\na 1\n",  # a counter must end with _total
        "# HELP a x\n# TYPE a gauge\n",
        "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
        '# HELP a x\n# TYPE a gauge\na{b="c} 1\n',
        '# HELP a x\n# TYPE a gauge\na{b="\\c"} 1\n',
        "# HELP a x\n# TYPE a gauge\na one\n",
        "# HELP a x\n# TYPE a gauge\na 1\n\n",
        '# HELP a x\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
        '# HELP a x\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    ],
)
def test_the_reader_is_strict(text: str) -> None:
    with pytest.raises(BadPage):
        parse(text)
