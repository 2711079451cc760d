"""What a network can do to links: cuts, silence, deaths and delays, in virtual time; and silence on real sockets."""

import asyncio
from typing import Any

import pytest

from tests.unit.links_stage import Sample, a_call, linked, until, virtual
from wakeful.testing.network import Network
from wakeful.transport.pulse import LinkPulse, Pace
from wakeful.values.errors import AddressInUse, BadAddress, LinkLost, WrongNode


async def pair(network: Network) -> tuple[Any, Sample]:
    a, b = network.transport("a"), network.transport("b")
    handler = Sample()
    return await a.connect(await b.serve(handler)), handler


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_cut_is_noticed_on_both_sides_before_a_lease_is_over() -> None:
    async with virtual() as warp:
        network = Network()
        link, handler = await pair(network)
        asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=30_000))
        await warp.idle()
        network.cut("a", "b")
        began = now()
        with pytest.raises(LinkLost, match="does not answer") as caught:
            await asked
        assert caught.value.was_sent
        assert 4.0 <= now() - began <= 4.6
        await asyncio.sleep(0.6)
        assert handler.cancelled == 1


async def test_a_short_cut_only_delays() -> None:
    async with virtual() as warp:
        network = Network()
        link, _ = await pair(network)
        network.cut("b")
        asked = asyncio.ensure_future(link.ask(a_call("echo", b"x"), timeout_ms=30_000))
        await asyncio.sleep(1)
        assert not asked.done()
        network.heal()
        assert (await asked).answer == b"x"
        assert now() == pytest.approx(1)
        await warp.idle()


async def test_an_idle_link_over_a_long_cut_is_found_dead_by_the_next_call() -> None:
    async with virtual():
        network = Network()
        link, _ = await pair(network)
        network.cut("a", "b")
        await asyncio.sleep(86_400)
        assert not link.is_closed
        with pytest.raises(LinkLost):
            await link.ask(a_call("echo"), timeout_ms=30_000)
        assert now() - 86_400 < 4.6


async def test_connecting_over_a_cut_takes_its_time_and_fails() -> None:
    async with virtual():
        network = Network()
        await network.transport("b").serve(Sample())
        network.cut("a", "b")
        with pytest.raises(LinkLost, match=r"link\.connect") as caught:
            await network.transport("a").connect("memory:b")
        assert not caught.value.was_sent
        assert now() == pytest.approx(3)
        await network.transport("c").connect("memory:b")  # others still can
        network.heal("a", "b")
        await network.transport("a").connect("memory:b")


async def test_a_death_is_seen_at_once_unless_a_cut_hides_it() -> None:
    async with virtual() as warp:
        for is_hidden in (False, True):
            network = Network()
            link, handler = await pair(network)
            asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=30_000))
            await warp.idle()
            began = now()
            if is_hidden:
                network.cut("b")
            network.kill("b")
            with pytest.raises(LinkLost) as caught:
                await asked
            assert caught.value.was_sent
            assert handler.cancelled == 1
            assert (now() - began > 1) is is_hidden
            network.heal()
            with pytest.raises(LinkLost):
                await network.transport("a").connect("memory:b")


async def test_a_dead_node_reaches_nobody_and_may_come_back() -> None:
    async with virtual():
        network = Network()
        a, b = network.transport("a"), network.transport("b")
        await a.serve(Sample())
        await b.serve(Sample())
        with pytest.raises(AddressInUse):
            await network.transport("b").serve(Sample())
        network.kill("b")
        with pytest.raises(LinkLost):
            await b.connect("memory:a")
        again = network.transport("b")
        await again.serve(Sample())
        link = await a.connect("memory:b", expect_node="b")
        assert (await link.ask(a_call("echo", b"x"), timeout_ms=100)).answer == b"x"
        with pytest.raises(WrongNode):
            await a.connect("memory:b", expect_node="c")
        with pytest.raises(BadAddress):
            await a.connect("tcp:127.0.0.1:1")


async def test_delays_keep_the_order_of_one_link() -> None:
    async with virtual():
        delays = iter([0, 30, 10, 0, 20, *[0] * 100])
        network = Network(delay_ms=lambda sender, receiver: next(delays))
        link, handler = await pair(network)
        replies = [link.ask(a_call("echo", b"%d" % n), timeout_ms=1_000) for n in range(4)]
        assert [reply.answer for reply in await asyncio.gather(*replies)] == [b"0", b"1", b"2", b"3"]
        assert [call.args for call in handler.calls] == [b"0", b"1", b"2", b"3"]
        assert now() == pytest.approx(0.03)


async def test_a_year_of_idleness_costs_nothing() -> None:
    async with virtual():
        link, _ = await pair(Network())
        assert (await link.ask(a_call("echo", b"x"), timeout_ms=100)).answer == b"x"
        await asyncio.sleep(365 * 86_400)
        assert (await link.ask(a_call("echo", b"y"), timeout_ms=100)).answer == b"y"


async def test_a_long_call_lives_as_long_as_its_node() -> None:
    async with virtual():
        link, handler = await pair(Network())
        asked = asyncio.ensure_future(link.ask(a_call("wait", b"x"), timeout_ms=3_600_000))
        await asyncio.sleep(3_000)
        handler.gate.set()
        assert (await asked).answer == b"x"


async def test_the_timeouts_of_many_calls_are_each_their_own() -> None:
    async with virtual():
        link, handler = await pair(Network())
        ended: list[tuple[int, int]] = []

        async def one(timeout_ms: int) -> None:
            with pytest.raises(TimeoutError):
                await link.ask(a_call("wait"), timeout_ms=timeout_ms)
            ended.append((timeout_ms, round(now() * 1000)))

        await asyncio.gather(*map(one, (900, 100, 500, 1_300, 101)))
        assert [timeout for timeout, _ in ended] == [100, 101, 500, 900, 1_300]
        assert all(timeout <= at <= timeout + 5 for timeout, at in ended)
        await asyncio.sleep(0.01)
        assert handler.cancelled == 5


async def test_silence_is_counted_in_beats_so_a_frozen_process_accuses_nobody() -> None:
    async with virtual() as warp:
        dead: list[float] = []
        pulse = LinkPulse(Pace(), is_wanted=lambda: True, beat=lambda: None, dead=lambda: dead.append(now()))
        await asyncio.sleep(0.1)
        warp.jump(20)  # frozen: no time to run anything in, and then one beat is late
        await asyncio.sleep(0.1)
        assert dead == []
        pulse.is_heard = True
        await asyncio.sleep(8)
        assert len(dead) == 1
        assert 24.0 <= dead[0] <= 24.7


async def test_a_silent_node_is_noticed_on_a_real_socket() -> None:
    async with linked("tcp", pace=Pace(beat_ms=30)) as (link, handler, b):
        await asyncio.sleep(0.25)  # idle links beat too
        assert not link.is_closed
        asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
        await until(lambda: handler.running == 1)
        [(wire, answerer)] = b._answerers.items()  # type: ignore[attr-defined]
        wire._transport.pause_reading()  # as if packets were dropped: nothing is heard, nothing is said
        answerer._pulse.stop()
        with pytest.raises(LinkLost, match="does not answer"):
            await asked
        assert link.is_closed


async def test_a_silent_caller_is_noticed_on_a_real_socket(caplog: pytest.LogCaptureFixture) -> None:
    async with linked("tcp", pace=Pace(beat_ms=30)) as (link, handler, _):
        asked = asyncio.ensure_future(link.ask(a_call("wait"), timeout_ms=5_000))
        await until(lambda: handler.running == 1)
        link._pulse.stop()  # type: ignore[attr-defined]
        await until(lambda: handler.cancelled == 1)
        with pytest.raises(LinkLost):
            await asked
        assert [getattr(record, "code", "") for record in caplog.records] == ["link.silent"]


async def test_answers_that_nobody_takes_stop_the_reading_of_calls() -> None:
    async with linked("unix") as (link, handler, _):
        link._wire._transport.pause_reading()  # type: ignore[attr-defined]
        body = bytes(1_000_000)
        asked = [asyncio.ensure_future(link.ask(a_call("echo", body), timeout_ms=9_000)) for _ in range(40)]
        await asyncio.sleep(0.3)
        assert len(handler.calls) < 20  # the rest waits where it came from
        link._wire._transport.resume_reading()  # type: ignore[attr-defined]
        assert all(reply.answer == body for reply in await asyncio.gather(*asked))
