"""The parts that pictures are made of: words, widths, lines, and places that keep their order."""

import itertools
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.diagrams.chart_scene import action_words, delay_words, guard_words, read, remaining_words
from wakeful.diagrams.diagram import draw
from wakeful.diagrams.png import to_png
from wakeful.diagrams.positions import isotonic
from wakeful.diagrams.texts import TextSpan, break_lines, escape, line_width, width
from wakeful.values.errors import MissingExtra


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ("enough", "enough"),
        ({"type": "enough", "params": {"least": 10}}, "enough(least: 10)"),
        ({"type": "xstate.not", "guards": ["a"]}, "not a"),
        ({"type": "and", "guards": ["a", {"type": "or", "guards": ["b", "c"]}]}, "a and (b or c)"),
        ({"type": "xstate.and", "params": {"guards": ["a", "b"]}}, "a and b"),
        ({"type": "stateIn", "stateValue": "#done"}, "in #done"),
        ({"type": "big", "params": {"$call": "limit"}}, "big(limit())"),
    ],
)
def test_guards_as_one_says_them(guard: Any, said: str) -> None:
    assert guard_words(guard) == said


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("thank", "thank"),
        ({"type": "say", "params": {"text": "hi"}}, "say(text: hi)"),
        ({"type": "xstate.assign", "assignment": {"a": 1, "b": 2}}, "set a, b"),
        ({"type": "raise", "event": {"type": "GO"}, "delay": 1500, "id": "r"}, "raise GO after 1.5 s"),
        ({"type": "sendTo", "to": "kid", "event": {"type": "GO"}}, "send GO to kid"),
        ({"type": "xstate.sendParent", "event": {"type": "GO"}}, "send GO to parent"),
        ({"type": "cancel", "sendId": "r"}, "cancel r"),
        ({"type": "emit", "event": {"type": "sold"}}, "emit sold"),
        ({"type": "log", "value": "hm"}, "log hm"),
        ({"type": "xstate.spawnChild", "src": "kid"}, "spawn kid"),
        ({"type": "stopChild", "id": "kid"}, "stop kid"),
        ({"type": "enqueueActions", "actions": ["a", "b"]}, "a, b"),
        ({"type": "cancel"}, "cancel"),
    ],
)
def test_actions_as_one_says_them(action: Any, said: str) -> None:
    assert action_words(action) == said


@pytest.mark.parametrize(
    ("delay", "said"),
    [
        ("1000", "1 s"),
        ("1500", "1.5 s"),
        ("86400000", "1 d"),
        ("5400000", "1.5 h"),
        ("90", "90 ms"),
        (60_000, "1 min"),
        ("24h", "24h"),
        ("soon", "soon"),
        ("1234", "1234 ms"),
    ],
)
def test_delays_in_the_unit_that_says_them_exactly(delay: Any, said: str) -> None:
    assert delay_words(delay) == said


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (999, "in 999 ms"),
        (61_000, "in 1 min 1 s"),
        (86_399_000, "in 24 h"),
        (3_600_000 * 30, "in 1 d 6 h"),
        (0, "due now"),
        (-61_000, "1 min 1 s late"),
    ],
)
def test_how_long_until_it_is_due(ms: int, said: str) -> None:
    assert remaining_words(ms) == said


@given(st.text(max_size=200), st.floats(30, 300), st.integers(1, 4))
def test_broken_lines_are_never_wider_or_more_than_allowed(text: str, width_max: float, lines_max: int) -> None:
    lines = break_lines([TextSpan(text, "event")], size=12, width_max=width_max, lines_max=lines_max, bold=("event",))
    assert len(lines) <= lines_max
    for line in lines:
        assert line_width(line, 12, ("event",)) <= width_max + 0.01 or len(line.text) == 1
    if not any(line.text.endswith("…") for line in lines):
        assert "".join("".join(line.text for line in lines).split()) == "".join(text.split())


def test_wide_signs_are_wide_and_accents_take_no_room() -> None:
    assert width("日本", 10) > width("ab", 10)
    assert width("e\u0301", 10) == width("e", 10)
    assert width("MM", 10, is_bold=True) > width("MM", 10)


def test_escaped_text_is_safe_in_content_and_attributes() -> None:
    assert escape("<a href=\"x\" title='y'>&\x00") == "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;\ufffd"


_WISH = st.tuples(st.integers(-20, 20).map(float), st.integers(1, 3).map(float))


@given(st.lists(st.tuples(st.lists(_WISH, min_size=1, max_size=2), st.integers(0, 5)), min_size=1, max_size=4))
def test_places_keep_their_order_and_distance_at_the_least_cost(wished: list[Any]) -> None:
    wishes = [one for one, _ in wished]
    gaps = [float(gap) for _, gap in wished[1:]]
    found = isotonic(wishes, gaps)
    for (before, after), gap in zip(itertools.pairwise(found), gaps, strict=True):
        assert after - before >= gap - 1e-6

    def cost(places: list[float]) -> float:
        return sum(weight * abs(place - at) for place, one in zip(places, wishes, strict=True) for at, weight in one)

    # The best is where each stands at a wish of its own, shifted by the distances before it, or of a neighbour's.
    shifts = list(itertools.accumulate(gaps, initial=0.0))
    marks = sorted({at - shift for one, shift in zip(wishes, shifts, strict=True) for at, _ in one})
    best = min(
        cost([mark + shift for mark, shift in zip(chosen, shifts, strict=True)])
        for chosen in itertools.combinations_with_replacement(marks, len(wishes))
    )
    assert cost(found) <= best + 1e-6


BRANCHES = {
    "initial": "a",
    "states": {
        "a": {
            "on": {
                "GO": [{"target": "b", "guard": "may"}, {"target": "c", "guard": "might"}, {"target": "d"}],
                "X": "b",
            },
            "after": {"patience": "b", "1h": "c"},
        },
        "b": {},
        "c": {},
        "d": {},
    },
}


def test_branches_show_their_order_and_which_is_taken_else() -> None:
    said = [row.whole for edge in read(BRANCHES, delays={"patience": 90_000}).edges for row in edge.rows]
    assert said == [
        "GO 1. [may]",
        "X",
        "after patience (1.5 min)",
        "GO 2. [might]",
        "after 1h",
        "GO else",
    ]


def test_a_last_branch_with_a_guard_is_no_else_and_an_unknown_length_is_not_shown() -> None:
    chart = {
        "initial": "a",
        "states": {"a": {"on": {"GO": [{"target": "b", "guard": "x"}] * 2}, "after": {"p": "b"}}, "b": {}},
    }
    said = [row.whole for edge in read(chart).edges for row in edge.rows]
    assert said == ["GO 1. [x]", "GO 2. [x]", "after p"]


def test_a_picture_as_png(monkeypatch: pytest.MonkeyPatch) -> None:
    svg = draw(BRANCHES)
    dots = to_png(svg)
    wide, high = struct.unpack(">II", dots[16:24])
    assert dots[:8] == b"\x89PNG\r\n\x1a\n"
    assert f'width="{wide // 2}" height="{high // 2}"' in svg
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtra, match=r"wakeful\[pictures\]"):
        to_png(svg)
