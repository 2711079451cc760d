"""Log lines that say where they belong."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.telemetry.spans_seen import Watch
from wakeful import App, DurableObject
from wakeful.telemetry import logs
from wakeful.values.errors import BadOption


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root, own = logging.getLogger(), logging.getLogger("wakeful")
    levels = root.level, own.level
    handler = logs.install("json", stream=stream)
    yield stream
    root.removeHandler(handler)
    root.setLevel(levels[0])
    own.setLevel(levels[1])


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


class House:
    def __init__(self) -> None:
        self.app = App()

        @self.app.object
        class Cell(DurableObject):
            async def speak(self, word: str) -> None:
                logging.getLogger("shop").warning("said %s", word)

            async def arm(self) -> None:
                await self.ctx.set_alarm(self.ctx.now())

            async def alarm(self) -> None:
                self.ctx.log.info("rang")
                raise ValueError("on purpose")

        self.Cell = Cell


async def test_a_program_s_own_lines_have_object_and_node_and_trace(out: io.StringIO) -> None:
    house = House()
    seen = Watch(house.app)
    async with house.app.world() as world:
        await world.get(house.Cell, "a").speak('é\n"x"')
        node = world.node.name
    (line,) = [line for line in lines(out) if line["logger"] == "shop"]
    turn = seen.one("turn Cell.speak")
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "level": "warning", "logger": "shop", "message": "said é\n\"x\"", "object": "Cell/a", "node": node,
        "trace_id": f"{turn.trace:032x}", "span_id": f"{turn.id:016x}",
    }  # fmt: skip


async def test_lines_of_a_due_timer_say_which_run_it_is(out: io.StringIO) -> None:
    house = House()
    async with house.app.world() as world:
        await world.get(house.Cell, "a").arm()
        await world.advance(days=1)
        run_id = (await world.ledger(house.Cell, "a"))[0].id
    rang = [line for line in lines(out) if line["message"] == "rang"]
    assert {line["run"] for line in rang} == {run_id}
    assert (rang[0]["timer"], rang[0]["level"], rang[0]["object"]) == ("alarm", "info", "Cell/a")
    parked = [line for line in lines(out) if line.get("code") == "timer.parked"]
    assert len(parked) == 1


def test_an_error_is_a_part_of_its_line(out: io.StringIO) -> None:
    try:
        raise ValueError("on purpose")
    except ValueError:
        logging.getLogger("shop").exception("broke", extra={"code": "shop.broke", "order": object})
    (line,) = lines(out)
    assert (line["code"], line["error"]["type"], line["error"]["message"]) == (
        "shop.broke", "ValueError", "on purpose",
    )  # fmt: skip
    assert "Traceback" in line["error"]["traceback"]
    assert line["order"] == "<class 'object'>"


def test_text_says_the_same_in_one_line() -> None:
    record = logging.makeLogRecord({"name": "shop", "levelname": "WARNING", "msg": "late by %d", "args": (5,)})
    record.code = "shop.late"
    line = logs.TextLines().format(record)
    assert line.endswith("WARNING shop: late by 5  code=shop.late")


def test_another_form_is_refused() -> None:
    with pytest.raises(BadOption, match="--log xml"):
        logs.install("xml")


async def test_no_line_is_written_for_a_turn(out: io.StringIO) -> None:
    house = House()
    told = ("timer.failed", "timer.parked")  # the alarm, not the calls
    async with house.app.world() as world:
        for _ in range(20):
            await world.get(house.Cell, "a").arm()
    assert [line for line in lines(out) if line["message"] != "rang" and line.get("code") not in told] == []
