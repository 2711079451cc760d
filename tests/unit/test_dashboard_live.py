"""Staying fresh: the stream says when something happened, the charts remember the last minutes."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request

from tests.unit.dashboard_stage import staged
from wakeful.dashboard import words
from wakeful.dashboard.due import group_of, place
from wakeful.dashboard.history import History, Sums, between, samples_before, share
from wakeful.dashboard.live import stream
from wakeful.dashboard.nodes import strip
from wakeful.dashboard.visits import Desk, Visit
from wakeful.security.scopes import LOCAL, Caller

NOW = 1_774_612_800_000


async def told(visit: Visit, enough: int) -> list[tuple[str, Any]]:
    """The first events of the stream."""
    found: list[tuple[str, Any]] = []
    async for chunk in stream(visit):
        text = chunk.decode()
        if text.startswith("event: "):
            name, _, data = text.removeprefix("event: ").strip().partition("\ndata: ")
            found.append((name, json.loads(data)))
        if len(found) >= enough:
            break
    return found


def visitor(stage: Any, caller: Caller = LOCAL) -> Visit:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/live",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
    }
    return Visit(Desk(stage.app.deployment, stage.gate), Request(scope), caller, stage.world.node, {})


async def test_a_page_hears_that_something_happened() -> None:
    async with staged() as stage:
        visit = visitor(stage)
        listening = asyncio.ensure_future(told(visit, 1))
        await asyncio.sleep(0)
        await stage.world.advance(minutes=10)
        assert (await listening)[0][0] == "fresh"


async def test_a_tenant_hears_only_of_its_own() -> None:
    async with staged() as stage:
        foreign = asyncio.ensure_future(told(visitor(stage, Caller("us", frozenset({"read"}), "us/")), 1))
        own = asyncio.ensure_future(told(visitor(stage, Caller("eu", frozenset({"read"}), "eu/")), 1))
        await asyncio.sleep(0)
        await stage.world.advance(seconds=10)
        assert not foreign.done()
        assert not own.done()
        await stage.app.get(stage.app.deployment.registry.by_name("Note").cls, "eu/bob").write("every 7m")
        await stage.world.advance(seconds=1)
        assert own.done()
        assert not foreign.done()
        foreign.cancel()


async def test_a_stream_ends_with_the_right_to_read() -> None:
    async with staged() as stage:
        listening = asyncio.ensure_future(told(visitor(stage), 1_000))
        await asyncio.sleep(0)
        await stage.token("boss", "admin")  # from now on everybody needs one
        await stage.world.advance(seconds=40)
        assert listening.done()
        assert listening.result()[-1][0] == "gone"


async def test_charts_begin_with_what_the_ledger_remembers_and_go_on() -> None:
    async with staged() as stage:
        history = History()
        history.follow(stage.world.node)
        await stage.world.advance(seconds=1)
        assert sum(sample["fired"] * 2 for sample in history.samples) == 4  # every 10 and 7 minutes, for 20 minutes
        began = stage.now / 1_000
        await stage.world.advance(minutes=11)
        fresh = [sample for sample in history.samples if sample["t"] > began]
        assert sum(round(sample["fired"] * 2) for sample in fresh) == 3  # at 13:03, and two at 13:10
        assert [sample["p99"] for sample in fresh if sample["fired"]] == [pytest.approx(0.5, abs=0.5)] * 2
        assert len(history.samples) == history.samples.maxlen
        assert json.loads(await stage.text("/history")) == []  # the desk's own begins with its first page


async def test_what_the_ledger_has_dropped_is_not_drawn_as_silence() -> None:
    async with staged(is_seeded=False) as stage:
        note = stage.app.deployment.registry.by_name("Note").cls
        await stage.app.get(note, "busy").write("every 4s")
        await stage.app.get(note, "calm").write("every 7m")
        await stage.world.advance(minutes=18)
        samples = await samples_before(stage.world.node, stage.now)
        keep = stage.world.node.limits.ledger_keep
        assert keep * 2 - 2 <= len(samples) <= keep * 2  # every 4 seconds, in samples of two
        rates = [sum(sample["fired"] * 2 for sample in samples[place : place + 10]) for place in range(0, keep, 10)]
        assert min(rates) >= 4


async def test_charts_say_of_which_node_they_are_where_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged() as stage:
        assert "of this node" not in await stage.text("/")
        monkeypatch.setattr(stage.world.node.store, "shared", True)
        assert f"of this node, {stage.world.node.name}" in await stage.text("/")
        monkeypatch.undo()


def test_rates_and_lateness_come_from_two_looks() -> None:
    none = [0] * 18
    some = [0, 0, 10, *none[3:]]
    found = between(Sums(NOW, 5, 7, 0, none), Sums(NOW + 2_000, 15, 27, 1, some))
    assert found == {"t": (NOW + 2_000) / 1_000, "fired": 5.0, "turns": 10.0, "failed": 0.5, "p50": 3.5, "p99": 4.97}
    assert between(Sums(NOW, 5, 7, 0, none), Sums(NOW + 2_000, 5, 7, 0, none))["p50"] is None


def test_a_share_lies_within_its_bucket() -> None:
    assert share((1, 2, 5), (0, 0, 0, 0), 0.5) is None
    assert share((1, 2, 5), (10, 0, 0, 0), 0.5) == 0.5
    assert share((1, 2, 5), (0, 0, 0, 3), 0.5) == 5.0
    assert share((1, 2, 5), (99, 0, 1, 0), 0.99) == 1.0


def test_the_strip_has_room_for_seconds_and_for_a_week() -> None:
    places = [place(ms) for ms in (-5, 0, 10_000, 60_000, 3_600_000, 604_800_000, 10**12)]
    assert places[0] == places[1] == 2.0
    assert places[-1] == places[-2] == 98.0
    assert places[1:-1] == sorted(set(places[1:-1]))
    assert places[2] > 10


@pytest.mark.parametrize(
    ("ms", "name"),
    [(-5_000, "Overdue"), (0, "Within a minute"), (90_000, "Within the hour"), (7 * 86_400_000, "Later"), (10**15, "")],
)
def test_groups_say_how_soon(ms: int, name: str) -> None:
    at = NOW + ms if ms < 10**14 else 253_370_764_800_000 + 86_400_000
    assert group_of({"due_at": at, "is_running": False}, NOW) == (name or "Once others have run")
    assert group_of({"due_at": at, "is_running": True}, NOW) == "Running"


def test_shards_that_stand_together_are_one_bar() -> None:
    rows = [{"hue": "hue-a", "shards": [0, 1, 2, 9]}, {"hue": "hue-b", "shards": list(range(3, 9))}]
    assert strip(rows) == [(0, 3, "hue-a"), (3, 6, "hue-b"), (9, 1, "hue-a")]
    assert strip([]) == []


@pytest.mark.parametrize(
    ("ms", "words_of"),
    [
        (0, "now"),
        (999, "now"),
        (4_000, "in 4 s"),
        (-61_000, "61 s ago"),
        (-600_000, "10 min ago"),
        (259_200_000, "in 3 days"),
    ],
)
def test_times_are_relative(ms: int, words_of: str) -> None:
    assert words.relative(NOW + ms, NOW) == words_of
    tag = words.when(NOW + ms, NOW)
    assert f'data-at="{NOW + ms}"' in tag
    assert "UTC" in tag


def test_every_verdict_has_a_shape_beside_its_colour() -> None:
    verdicts = ["run", "failed", "skipped", "too_late", "coalesced", "overlap", "paused", "gap"]
    shapes = {word: words.MARKS[word].split()[-1] for word in verdicts}
    assert len(set(shapes.values())) >= len(verdicts) - 1  # skipped and gap both are a ring: neither was due to run
    assert "too late" in words.mark("too_late")
    assert "&lt;b&gt;" in words.mark("<b>")
