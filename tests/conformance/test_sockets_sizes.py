"""A message that may be sent is sent, however small the room for what waits: limits that don't fit cut nobody off."""

from typing import Any

from tests.conformance.hall import Hall
from wakeful import Limits


async def test_a_message_longer_than_what_may_wait_is_sent_when_nothing_does() -> None:
    hall = Hall(limits=Limits(socket_message_bytes=100_000, socket_queue_bytes=1_000))

    async def send(room: Any) -> None:
        await (await room.ctx.sockets())[0].send("x" * 50_000)

    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        for _ in range(3):
            await hall.do(send)
            await world.settle()
        assert (client.got, client.closed) == (["x" * 50_000] * 3, None)
        client.pause()
        await hall.do(send)
        await world.settle()
        assert client.closed is None
        await hall.do(send)
        await world.settle()
        assert client.closed is not None
        assert [closed[1] for closed in hall.closed] == [1013]
