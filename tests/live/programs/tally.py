"""The program that the live tests kill, freeze and starve: objects whose every turn can be checked afterwards.

As a process it takes its orders as JSON lines on stdin and says what happened as JSON lines on stdout; it
ends when stdin does, so that it can't outlive its parent. The first line is its configuration.
"""

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from wakeful import AlarmInfo, App, DurableObject, Limits, Unavailable, reader
from wakeful.store.protocol import Query
from wakeful.values.errors import Conflict

Report = Callable[..., None]

OBJECTS = 16
CALM = timedelta(hours=1)


class Tally(DurableObject):
    """Appends ids and run ids to lists, and sets its alarm anew in every turn.

    In every row set that is on disk, `count` and `mirror` agree, the lists are as long as they say, and
    the alarm is for the time that `armed` names.
    """

    report: Report
    is_calm = False

    async def add(self, id: str) -> int:
        count, mirror = await self.storage.get("count", 0), await self.storage.get("mirror", 0)
        if count != mirror:
            self.report("broken", f"{self.ctx.id}: count {count}, mirror {mirror}")
        alarm, armed = await self.storage.get_alarm(), await self.storage.get("armed")
        if armed is not None and (alarm is None or round(alarm.timestamp() * 1000) != armed):
            self.report("unarmed", self.ctx.key, f"armed for {armed}, but the alarm is {alarm}")
        await self.storage.put("count", count + 1)
        await self.storage.put(f"id:{count + 1:08}", id)
        await self.storage.put("mirror", count + 1)
        await self.arm(count)
        return int(count) + 1

    @reader
    async def peek(self) -> tuple[str, int] | None:
        """The last id and its number; what a reader has told must be on disk for good."""
        count = await self.storage.get("count", 0)
        return (await self.storage.get(f"id:{count:08}"), count) if count else None

    async def hold(self, seconds: float) -> str:
        """A turn that takes a while and writes at its end."""
        self.report("holding", self.ctx.key)
        await asyncio.sleep(seconds)
        await self.storage.put("held", seconds)
        return "held"

    async def alarm(self, info: AlarmInfo) -> None:
        self.report("fired", self.ctx.key, info.run_id)
        runs = await self.storage.get("runs", 0) + 1
        await self.storage.put("runs", runs)
        await self.storage.put(f"run:{runs:08}", info.run_id)
        await self.arm(runs)

    async def arm(self, number: int) -> None:
        wait = CALM if self.is_calm else timedelta(milliseconds=10 + number * 7 % 50)
        await self.storage.set_alarm(self.ctx.now() + wait)
        # As it was taken, not as it was asked for: on a busy machine that moment is past already, which means now.
        at = await self.storage.get_alarm()
        assert at is not None
        await self.storage.put("armed", round(at.timestamp() * 1000))


def make_app(report: Report, *, is_calm: bool = False, **limits: int) -> tuple[App, type[Tally]]:
    """A new app with a Tally of its own that reports there; a calm one sets its alarms an hour ahead."""
    app = App(limits=Limits(**{"ledger_keep": 1_000_000, **limits}))
    made = type("Tally", (Tally,), {"report": staticmethod(report), "is_calm": is_calm})
    return app, app.object(made)


class Load:
    """A few callers that add one id after the other, each until it is acknowledged."""

    def __init__(self, app: App, tally: type[Tally], report: Report, *, run: str, pause_s: float = 0.002) -> None:
        self._app = app
        self._tally = tally
        self._report = report
        self._run = run
        self._pause_s = pause_s
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, callers: int, pending: Sequence[Sequence[str]] = (), again: Sequence[Sequence[Any]] = ()) -> None:
        """Ask again for what was never answered and for some that was, and go on with new ids."""
        create = asyncio.get_running_loop().create_task
        self._tasks += [create(self._finish(key, id)) for key, id in pending]
        self._tasks += [create(self._repeat(key, id)) for key, id in again]
        self._tasks += [create(self._call(number)) for number in range(callers)]

    async def stop(self) -> None:
        """No new ids; those under way are tried until they are acknowledged."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _call(self, caller: int) -> None:
        number = 0
        while not self._is_over:
            number += 1
            key = f"t{(number * 7 + caller * 3) % OBJECTS}"
            id = f"{self._run}.{caller}.{number}"
            self._report("try", key, id)
            await self._finish(key, id)
            if number % 3 == 0:
                await self._peek(f"t{number * 5 % OBJECTS}")
            await asyncio.sleep(self._pause_s)

    async def _finish(self, key: str, id: str) -> None:
        while True:
            try:
                answer = await self._app.get(self._tally, key, request_key=id).add(id)
                break
            except Unavailable as error:
                self._report("refused", key, id, type(error).__name__, error.code)
                await asyncio.sleep(0.02)
            except Exception as error:
                self._report("broken", f"{key} {id}: {type(error).__name__}: {error}")
                return
        self._report("ack", key, id, answer)

    async def _peek(self, key: str) -> None:
        try:
            found = await self._app.get(self._tally, key).peek()
        except Unavailable:
            return
        except Exception as error:
            self._report("broken", f"peek {key}: {type(error).__name__}: {error}")
            return
        if found is not None:
            self._report("seen", key, *found)

    async def _repeat(self, key: str, id: str) -> None:
        with suppress(Unavailable):
            self._report("echo", key, id, await self._app.get(self._tally, key, request_key=id).add(id))


async def settle(app: App, report: Report) -> None:
    """Redrive what is parked, and wait until nothing is due any more."""
    node = app.deployment.node
    assert node is not None
    for parked in await node.store.find_parked(Query(limit=1000)):
        report("parked", parked.timer.id.key, parked.reason, parked.error)
        with suppress(Conflict):  # a later turn has set the alarm since
            await node.redrive(parked)
    while True:
        first = await node.store.find_timers(Query(limit=1))
        if not first or first[0].due_at > node.clock.now():
            break
        await asyncio.sleep(0.02)
    report("settled")


# as a process


def _say(kind: str, *what: Any) -> None:
    # One write of less than PIPE_BUF: whole or not at all, and out of our hands before the next step.
    os.write(1, json.dumps([kind, *what]).encode() + b"\n")


def _die_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


async def _obey(config: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _say("broken", f"{context['message']}: {context.get('exception')!r}"))
    app, tally = make_app(_say, is_calm=config.get("calm", False), **config.get("limits", {}))
    over = asyncio.Event()
    _say("starting")
    async with app.run(config["url"]) as node:
        _say("up", os.getpid(), node.name)
        load = Load(app, tally, _say, run=config["run"])
        load.start(config.get("callers", 0), config.get("pending", ()), config.get("again", ()))
        background: set[asyncio.Task[None]] = set()

        async def order(words: list[Any]) -> None:
            if words[0] == "add":
                await load._finish(words[1], words[2])
            elif words[0] == "hold":
                try:
                    _say("ack", words[1], "hold", await app.get(tally, words[1]).hold(words[2]))
                except Unavailable as error:
                    _say("refused", words[1], "hold", type(error).__name__, error.code)
            elif words[0] == "try":
                try:
                    _say("ack", words[1], words[2], await app.get(tally, words[1], request_key=words[2]).add(words[2]))
                except Unavailable as error:
                    _say("refused", words[1], words[2], type(error).__name__, error.code)
            elif words[0] == "settle":
                await load.stop()
                await settle(app, _say)
            elif words[0] == "stop":
                await load.stop()
                over.set()

        def take(words: list[Any]) -> None:
            task = loop.create_task(order(words))
            background.add(task)
            task.add_done_callback(background.discard)

        def listen() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(take, json.loads(line))
            os._exit(3)  # our parent is gone

        threading.Thread(target=listen, daemon=True).start()
        loop.add_signal_handler(signal.SIGTERM, over.set)
        await over.wait()
        _say("stopping")
    _say("stopped")


if __name__ == "__main__":
    _die_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(_obey(json.loads(sys.stdin.readline())))
    os._exit(0)  # the listener may be holding stdin
