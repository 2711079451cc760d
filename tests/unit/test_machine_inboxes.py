"""What a callback was sent: of two runs of one start, the later has it, however long the earlier one cleans up."""

import asyncio
from types import SimpleNamespace
from typing import Any

from wakeful.machines.actors import Actors
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

RADIO = ObjectId("Radio", "r")
NAME = "machine-run:ear"
NUMBER = 7


async def rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_that_cleans_up_leaves_its_successor_the_inbox() -> None:
    may_end, heard = asyncio.Event(), []

    async def listen(src: str, run: str, input: Any, send_back: Any, receive: Any) -> None:
        try:
            async for event in receive:
                heard.append((run, event["n"]))
        finally:
            if run == "old":
                await may_end.wait()

    node: Any = SimpleNamespace(farewells=[], clock=SimpleNamespace(now=lambda: 0), sideline={}, is_dead=False)
    actors, bound = Actors(node), SimpleNamespace(method=listen)

    def begin(run: str, seq: int) -> asyncio.Task[None]:
        timer = Timer(RADIO, NAME, 0, 0, seq)
        return asyncio.ensure_future(actors._listen(run, bound, timer, ["listen", None, NUMBER]))  # type: ignore[arg-type]

    def hand(n: int) -> None:
        actors._hand((RADIO, NAME, NUMBER), {"type": "TUNE", "n": n})

    old = begin("old", 1)
    hand(1)
    await rounds()
    old.cancel()
    await rounds()
    hand(2)  # nobody listens just now
    new = begin("new", 2)
    await rounds()
    may_end.set()
    await asyncio.gather(old, return_exceptions=True)
    hand(3)
    await rounds()
    assert heard == [("old", 1), ("new", 2), ("new", 3)]
    new.cancel()
    await asyncio.gather(new, return_exceptions=True)
    assert actors._inboxes == {}
