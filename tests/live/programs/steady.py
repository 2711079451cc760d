"""A program for `wakeful run`: callers without end, a turn that takes a moment, and one that takes too long to wait for."""

import asyncio

from tally import Load, Tally, _say, make_app

from wakeful import App, Unavailable

app, tally = make_app(_say, stop_deadline_ms=2_000)
tasks: set[asyncio.Task[None]] = set()


async def on_start(app: App) -> None:
    Load(app, tally, _say, run="steady").start(4)
    for key, seconds in (("brief", 0.7), ("endless", 60)):
        tasks.add(asyncio.get_running_loop().create_task(hold(app, tally, key, seconds)))


async def hold(app: App, tally: type[Tally], key: str, seconds: float) -> None:
    try:
        _say("held", key, await app.get(tally, key).hold(seconds))
    except Unavailable as error:
        _say("cut", key, error.code)
