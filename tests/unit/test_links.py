"""A link: one reply to every call, whatever becomes of it, over TCP, Unix sockets and the wire in memory."""

import asyncio

import pytest

from tests.unit.links_stage import WIRES, a_call, linked, until
from wakeful.testing.network import Network
from wakeful.transport.frames import FRAME_BYTES_MAX
from wakeful.transport.link_server import Answerer
from wakeful.transport.messages import error_of
from wakeful.transport.pulse import Pace
from wakeful.transport.tcp import Bounds
from wakeful.values.errors import (
    DeadlineExceeded,
    LimitExceeded,
    LinkLost,
    TurnFailed,
    Unavailable,
    WakefulError,
)

every_wire = pytest.mark.parametrize("wire", WIRES)


@every_wire
async def test_a_call_arrives_whole_and_its_answer_comes_back(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        call = a_call("echo", b"\x00args", request_key="k", chain=[("A", "x"), ("B", "y")], trace="t", caller="a")
        reply = await link.ask(call, timeout_ms=5_000)
        assert (reply.answer, reply.failure) == (b"\x00args", None)
        assert handler.calls == [call]
        assert (link.node, link.is_closed, link.is_leaving) == ("b", False, False)


@every_wire
async def test_answers_find_their_callers_in_any_order(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        slow = asyncio.ensure_future(link.ask(a_call("wait", b"slow"), timeout_ms=5_000))
        quick = [link.ask(a_call("echo", b"%d" % n), timeout_ms=5_000) for n in range(500)]
        assert [reply.answer for reply in await asyncio.gather(*quick)] == [b"%d" % n for n in range(500)]
        assert not slow.done()
        handler.gate.set()
        assert (await slow).answer == b"slow"


@every_wire
@pytest.mark.parametrize(
    ("method", "kind", "code", "is_started"),
    [
        ("fail", TurnFailed, "turn.failed", True),
        ("limit", LimitExceeded, "limit.sample", True),
        ("fenced", Unavailable, "object.moved", True),
        ("elsewhere", Unavailable, "shard.moved", False),
        ("big", LimitExceeded, "limit.frame", True),
        ("give_up", Unavailable, "call.cancelled", True),
    ],
)
async def test_errors_keep_type_and_code_and_say_whether_the_call_began(
    wire: str, method: str, kind: type[WakefulError], code: str, is_started: bool
) -> None:
    async with linked(wire) as (link, _, _b):
        failure = (await link.ask(a_call(method), timeout_ms=5_000)).failure
        assert failure is not None
        assert failure.is_started is is_started
        error = error_of(failure)
        assert (type(error), error.code) == (kind, code)
        assert (await link.ask(a_call("echo", b"on"), timeout_ms=5_000)).answer == b"on"


@every_wire
async def test_large_values_travel_and_too_large_ones_are_not_sent(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        large = bytes(range(256)) * 20_000  # 5 MB: many pieces
        assert (await link.ask(a_call("echo", large), timeout_ms=20_000)).answer == large
        with pytest.raises(LimitExceeded, match=r"limit\.frame"):
            await link.ask(a_call("echo", bytes(FRAME_BYTES_MAX)), timeout_ms=20_000)
        assert len(handler.calls) == 1
        assert (await link.ask(a_call("echo", b"on"), timeout_ms=5_000)).answer == b"on"


@every_wire
async def test_cancelling_the_caller_cancels_the_handler(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
        await until(lambda: handler.running == 1)
        asked.cancel()
        await until(lambda: handler.cancelled == 1)
        assert asked.cancelled()
        assert (await link.ask(a_call("echo", b"on"), timeout_ms=5_000)).answer == b"on"


@every_wire
async def test_a_call_that_is_cancelled_before_it_runs_is_answered_too(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        for _ in range(
            3
        ):  # call and cancel travel together, so the handler's task has not begun when the second is read
            asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
        await until(lambda: link.in_flight == 0)  # type: ignore[attr-defined]
        assert handler.running == 0


@every_wire
async def test_a_call_without_an_answer_in_time_fails_and_is_cancelled(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        long = asyncio.ensure_future(link.ask(a_call("wait", b"long"), timeout_ms=5_000))
        with pytest.raises(DeadlineExceeded, match="whether it happened is unknown"):
            await link.ask(a_call("wait"), timeout_ms=50)
        await until(lambda: handler.cancelled == 1)
        handler.gate.set()
        assert (await long).answer == b"long"


def narrow(wire: str, window: int) -> dict[str, object]:
    return {"window": window} if wire == "memory" else {"bounds": Bounds(window=window)}


@every_wire
async def test_no_more_calls_run_at_once_than_the_node_takes(wire: str) -> None:
    async with linked(wire, **narrow(wire, 4)) as (link, handler, _):
        asked = [asyncio.ensure_future(link.ask(a_call("wait", b"%d" % n), timeout_ms=5_000)) for n in range(20)]
        await until(lambda: handler.running == 4)
        with pytest.raises(DeadlineExceeded, match=r"link\.full"):
            await link.ask(a_call("echo", b"late"), timeout_ms=30)
        asked[10].cancel()  # waits in line: nobody needs to be told
        handler.gate.set()
        replies = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(replies.pop(10), asyncio.CancelledError)
        assert len(replies) == 19
        assert handler.running_max == 4
        assert [call.args for call in handler.calls] == [b"%d" % n for n in range(20) if n != 10]


@every_wire
async def test_time_spent_in_line_is_taken_from_the_deadline(wire: str) -> None:
    async with linked(wire, **narrow(wire, 1)) as (link, handler, _):
        first = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
        second = asyncio.ensure_future(link.ask(a_call("echo", deadline_ms=1_000), timeout_ms=1_000))
        await asyncio.sleep(0)  # both are under way before the tenth of a second begins
        await asyncio.sleep(0.1)
        handler.gate.set()
        await asyncio.gather(first, second)
        assert 1 <= handler.calls[1].deadline_ms <= 901


@pytest.mark.parametrize("wire", ["tcp", "unix"])
async def test_a_peer_that_ignores_the_window_is_not_read(wire: str) -> None:
    bounds = Bounds(window=4)
    async with linked(wire, bounds=bounds, pace=Pace(beat_ms=50)) as (link, handler, _):
        link._window = 1_000  # type: ignore[attr-defined]
        asked = [asyncio.ensure_future(link.ask(a_call("wait", b"%d" % n), timeout_ms=5_000)) for n in range(50)]
        await until(lambda: handler.running == 4)
        await asyncio.sleep(0.4)  # more silence than is allowed, were it not for the signs of life meanwhile
        assert not link.is_closed
        handler.gate.set()
        assert [reply.answer for reply in await asyncio.gather(*asked)] == [b"%d" % n for n in range(50)]
        assert handler.running_max == 4


@pytest.mark.parametrize("wire", ["tcp", "unix"])
async def test_large_arguments_are_bounded_together(wire: str) -> None:
    bounds = Bounds(arguments_bytes=3_000_000)
    async with linked(wire, bounds=bounds) as (link, handler, _):
        body = bytes(1_000_000)
        asked = [asyncio.ensure_future(link.ask(a_call("wait", body), timeout_ms=9_000)) for _ in range(12)]
        await until(lambda: handler.running == 3)
        await asyncio.sleep(0.05)
        assert handler.running == 3
        handler.gate.set()
        assert all(reply.answer == body for reply in await asyncio.gather(*asked))
        assert handler.running_max == 3


@every_wire
async def test_goodbye_lets_the_running_calls_end_and_takes_no_new_ones(wire: str) -> None:
    async with linked(wire) as (link, handler, b):
        running = asyncio.ensure_future(link.ask(a_call("wait", b"mine"), timeout_ms=5_000))
        await until(lambda: handler.running == 1)
        b.leave("it is being upgraded")
        meanwhile = (await link.ask(a_call("echo"), timeout_ms=5_000)).failure  # left before the goodbye came
        assert meanwhile is not None
        assert (meanwhile.type, meanwhile.code, meanwhile.is_started) == ("NotRunning", "link.leaving", False)
        await until(lambda: link.is_leaving)
        with pytest.raises(LinkLost, match="it is being upgraded") as caught:
            await link.ask(a_call("echo"), timeout_ms=5_000)
        assert (caught.value.was_sent, caught.value.code) == (False, "link.leaving")
        handler.gate.set()
        assert (await running).answer == b"mine"


@every_wire
async def test_a_lost_link_fails_every_call_and_says_which_were_sent(wire: str) -> None:
    async with linked(wire, **narrow(wire, 1)) as (link, handler, b):
        asked = [asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000)) for _ in range(3)]
        await until(lambda: handler.running == 1)
        await b.close()
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in errors] == [LinkLost] * 3
        assert [error.was_sent for error in errors if isinstance(error, LinkLost)] == [True, False, False]
        assert link.is_closed
        assert (handler.running, handler.cancelled) == (0, 1)
        with pytest.raises(LinkLost) as caught:
            await link.ask(a_call("echo"), timeout_ms=5_000)
        assert not caught.value.was_sent


@every_wire
async def test_hanging_up_cancels_what_runs_for_it(wire: str) -> None:
    async with linked(wire) as (link, handler, _):
        asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
        await until(lambda: handler.running == 1)
        await link.close()
        await until(lambda: handler.cancelled == 1)
        with pytest.raises(LinkLost):
            await asked


async def test_a_number_used_twice_is_not_a_message() -> None:
    async with linked("tcp") as (link, handler, _):
        asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
        await until(lambda: handler.running == 1)
        link._wire.send(a_call("wait", number=1))  # type: ignore[attr-defined]
        with pytest.raises(LinkLost):
            await asked
        await until(lambda: handler.cancelled == 1)


def test_the_answering_end_is_the_same_on_every_wire() -> None:
    assert Network().window == Bounds().window
    assert Answerer.__init__.__kwdefaults__["window"] == Bounds().window
