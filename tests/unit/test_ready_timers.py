"""A node whose timers can't be read, because somebody holds their table, says that it is not ready."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from wakeful import App
from wakeful.http.health import MUTE_MS, why_not


async def test_a_node_whose_timers_can_t_be_read_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async with App().world(nodes=2) as world:
        node = world.members[0].node
        assert node is not None
        ask: Any = SimpleNamespace(deployment=SimpleNamespace(node=node), is_full=False)
        read, held = node.store.timers, asyncio.Event()

        async def timers(*args: Any, **options: Any) -> Any:
            await held.wait()
            return await read(*args, **options)

        monkeypatch.setattr(node.store, "timers", timers)
        await world.advance(milliseconds=MUTE_MS - 100)
        assert why_not(ask) is None  # a hiccup is not said
        node.dispatcher.read_again()
        await world.advance(milliseconds=MUTE_MS + 2_000)
        assert (node.state, why_not(ask)) == ("up", "the timers can't be read")
        held.set()
        await world.advance(milliseconds=500)
        assert why_not(ask) is None
