"""What the timers of a machine are called for people."""

import pytest

from wakeful.machines.actors import plain
from wakeful.values.codec import encode
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from wakeful.views.timer_names import name_words, timer_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("machine:xstate.after.24h.Order.placed", "delay 24h in Order.placed"),
        ("machine:nag", "delay nag"),
        ("machine-run:ship", "invoked ship"),
        ("machine-do:thank", "action thank"),
        ("machine-do:80000005ed", "action"),
        ("machine-mail:start", "letter start"),
        ("machine.event", "machine.event"),
        ("alarm", "alarm"),
    ],
)
def test_a_name_in_words(name: str, words: str) -> None:
    assert name_words(name) == words


@pytest.mark.parametrize(
    ("name", "payload", "words"),
    [
        ("machine-do:80000005ed", encode([["thank", None, {}, {"type": "PAY"}]]), "action thank"),
        (
            "machine-mail:0123456789abcdef0123",
            encode(["start", ["Parent", "p", "kid", 1, False], None]),
            "letter start",
        ),
        ("machine-do:80000005ed", b"\xc1", "action"),
        ("machine:nag", None, "delay nag"),
    ],
)
def test_a_timer_in_words(name: str, payload: bytes | None, words: str) -> None:
    assert timer_words(Timer(ObjectId("Order", "o"), name, 0, 0, 1, payload=payload)) == words


def test_an_error_of_an_actor_is_data_whatever_it_says() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert plain(ValueError("lone \ud800")) == {"name": "ValueError", "message": "lone \\ud800"}
    assert plain(Unspeakable()) == {"name": "Unspeakable", "message": "its text can't be made"}
