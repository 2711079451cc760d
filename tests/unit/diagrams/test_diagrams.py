"""Pictures of charts: nothing lies on anything else, and what is active and pending can be seen."""

import random
import re
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from tests.unit.diagrams import charts, diagram_stage
from wakeful.diagrams.chart_scene import read
from wakeful.diagrams.diagram import draw
from wakeful.diagrams.layout import lay_out
from wakeful.values.errors import BadChart, BadOption

SVG = "{http://www.w3.org/2000/svg}"
AFTER = "xstate.after.24h.order.placed"


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in drawn(svg).iter(f"{SVG}text")]


def states(svg: str, wanted: str) -> set[str]:
    found = [one for one in drawn(svg).iter(f"{SVG}g") if wanted in one.get("class", "").split()]
    return {str(one.get("data-state")) for one in found}


@pytest.mark.parametrize("name", charts.ALL)
def test_nothing_lies_on_anything_else(name: str) -> None:
    scene = read(charts.ALL[name])
    assert diagram_stage.faults(scene, lay_out(scene)) == []


def test_random_charts_have_no_faults() -> None:
    seen, blurred = 0, []
    for seed in range(70):
        try:
            scene = read(diagram_stage.random_chart(random.Random(seed)))
        except BadChart:
            continue
        seen += 1
        faults = diagram_stage.faults(scene, lay_out(scene))
        serious = [fault for fault in faults if "lie on each other" not in fault]
        assert serious == [], f"seed {seed}"
        blurred += [seed] if faults else []
    assert seen > 50
    # Two links that swap their places in one gap can share a few points of a line; seldom.
    assert len(blurred) <= 2, blurred


def test_the_check_for_faults_can_fail() -> None:
    scene = read(charts.ORDER)
    layout = lay_out(scene)
    boxes = {box.id: box for box in layout.boxes}
    layout.boxes[boxes["order.expired"]] = layout.boxes[boxes["order.placed"]]
    faults = "\n".join(diagram_stage.faults(scene, layout))
    assert "order.placed and order.expired are on each other" in faults
    assert "order.placed→order.expired does not end on the border of order.expired" in faults


@pytest.mark.parametrize("name", charts.ALL)
def test_the_same_chart_gives_the_same_picture(name: str) -> None:
    assert draw(charts.ALL[name]) == draw(charts.ALL[name])


def test_each_state_and_each_way_is_there() -> None:
    svg = draw(charts.ORDER)
    assert states(svg, "wk-state") == {"order", "order.placed", "order.paid"}
    assert states(svg, "wk-final") == {"order.shipped", "order.expired", "order.cancelled"}
    said = texts(svg)
    for text in (
        "PAY [enough]",
        "after 24h",
        "REFUND / refund, notify",
        "error: ship / again",
        "done: ship",
        "entry / thank",
        "invoke ship",
        "NOTE / keepNote",
        "SPAM ignored",
    ):
        assert text in said, text
    ways = [one for one in drawn(svg).iter(f"{SVG}g") if "wk-way" in one.get("class", "")]
    assert len(ways) == 1 + 3 + 3  # the initial one; from placed; from paid, with its loop
    assert svg.count('class="wk-head"') == len(ways)


def test_regions_and_histories_look_like_what_they_are() -> None:
    assert states(draw(charts.PLAYER), "wk-region") == {"player.on.video", "player.on.volume", "player.on.captions"}
    wash = draw(charts.WASH)
    assert states(wash, "wk-history") == {"wash.running.where"}
    assert "H*" in texts(wash)
    assert 'class="wk-way wk-default"' in wash  # where it leads when nothing is kept


def test_regions_of_one_row_are_equally_high() -> None:
    layout = lay_out(read(charts.PLAYER))
    regions = [rect for box, rect in layout.boxes.items() if box.is_region]
    assert len({(rect.y, rect.h) for rect in regions}) == 1


def test_active_states_and_their_ways_are_marked() -> None:
    value = {"on": {"video": "paused", "volume": "normal", "captions": "shown"}}
    svg = draw(charts.PLAYER, charts.snapshot(value))
    regions = {"player.on.video", "player.on.volume", "player.on.captions"}
    leaves = {"player.on.video.paused", "player.on.volume.normal", "player.on.captions.shown"}
    assert states(svg, "wk-active") == {"player.on"} | regions | leaves
    assert svg.count("wk-live") > draw(charts.PLAYER).count("wk-live")


def test_a_machine_that_is_done_offers_no_way() -> None:
    done = {**charts.snapshot("shipped"), "status": "done"}
    svg = draw(charts.ORDER, done, now=charts.NOW)
    assert 'wk-live"' not in svg
    assert "done · as of 2026-03-28 12:13:20 UTC" in texts(svg)


@pytest.mark.parametrize(
    ("ms", "zone", "said"),
    [
        (19 * 3_600_000, "UTC", "in 19 h · 2026-03-29 07:13:20 UTC"),
        (5 * 3_600_000 + 60_000 * 7, "UTC", "in 5 h 7 min · 17:20:20 UTC"),
        (5 * 3_600_000, "Europe/Berlin", "in 5 h · 18:13:20 CET"),
        (1_500, "UTC", "in 1 s · 12:13:21 UTC"),
        (-5_000, "UTC", "5 s late · 12:13:15 UTC"),
        (0, "UTC", "due now · 12:13:20 UTC"),
    ],
)
def test_a_pending_delay_says_when_it_is_due_and_how_long_that_is(ms: int, zone: str, said: str) -> None:
    svg = draw(charts.ORDER, charts.snapshot("placed", (AFTER, ms)), now=charts.NOW, zone=ZoneInfo(zone))
    assert said in texts(svg)
    assert "wk-pending" in svg.split("</style>")[1]


def test_a_pending_delay_that_no_arrow_stands_for_is_under_the_chart() -> None:
    svg = draw(charts.ORDER, charts.snapshot("placed", (AFTER, 1_000), ("REMIND:1", 60_000)), now=charts.NOW)
    assert any(text.startswith("REMIND (REMIND:1)") and "in 1 min" in text for text in texts(svg))


def test_text_from_anywhere_stays_text() -> None:
    nasty = "</text><script>alert('x')</script>&\x00\x1b"
    config = {"id": "c", "initial": nasty, "states": {nasty: {"on": {nasty: {"target": nasty, "guard": nasty}}}}}
    svg = draw(config, heading=nasty)
    assert "<script" not in svg
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", svg)
    assert {one.tag for one in drawn(svg).iter()} <= {f"{SVG}{tag}" for tag in _TAGS}


_TAGS = ("svg", "title", "style", "rect", "g", "text", "tspan", "path", "circle")


def test_long_words_are_broken_and_cut_with_the_whole_to_point_at() -> None:
    word = "E" * 200_000  # which takes for ever, unless each letter is looked at a few times only
    config: dict[str, Any] = {"id": "c", "initial": "a", "states": {"a": {"on": {word: "b"}}, "b": {}}}
    svg = draw(config)
    assert any(text.endswith("…") for text in texts(svg))
    assert word in [one.text for one in drawn(svg).iter(f"{SVG}title")]
    layout = lay_out(read(config))
    assert layout.w < 500


def test_day_and_night() -> None:
    assert "prefers-color-scheme: dark" in draw(charts.ORDER)
    assert "prefers-color-scheme" not in draw(charts.ORDER, theme="light")
    assert draw(charts.ORDER, theme="dark") != draw(charts.ORDER, theme="light")
    with pytest.raises(BadOption, match="theme must be one of auto, light, dark"):
        draw(charts.ORDER, theme="pink")


def test_a_bad_chart_and_a_snapshot_of_another_are_refused() -> None:
    with pytest.raises(BadChart, match=r"states\.a\.on\.X"):
        draw({"initial": "a", "states": {"a": {"on": {"X": "nowhere"}}}})
    with pytest.raises(BadChart, match="paused"):
        draw(charts.ORDER, charts.snapshot("paused"))


def test_charts_of_one_state_and_of_none_inside() -> None:
    for config in ({"id": "one"}, {"id": "p", "type": "parallel", "states": {"a": {}, "b": {}}}):
        assert drawn(draw(config)).tag == f"{SVG}svg"
