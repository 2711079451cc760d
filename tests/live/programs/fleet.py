"""A program for the nodes of a cluster: objects that count what happened to them, so that doubles and losses show."""

import asyncio
import ctypes
import os
import signal
from contextlib import suppress
from time import time

from wakeful import AlarmInfo, App, DurableObject, Limits, reader
from wakeful.runtime import dispatcher

with suppress(OSError, AttributeError):
    if "WAKEFUL_FLEET" in os.environ:  # a member, not the test that imports the class
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

# Where handlers write that they began, when somebody wants to know: one line each, whole or not at all.
_diary = os.environ.get("WAKEFUL_DIARY")
_file = os.open(_diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if _diary else None

if "WAKEFUL_NO_SCANS" in os.environ:  # what another process inserts is found by being told of it, or never
    dispatcher.LOST_SCAN_MS = 3_600_000

app = App(limits=Limits(ledger_keep=1_000_000))


def began(what: str) -> None:
    """A handler has begun, whatever becomes of its turn."""
    if _file is not None:
        os.write(_file, f"{os.getpid()} {int(time() * 1000)} {what}\n".encode())


@app.object
class Cell(DurableObject):
    """Every id that ever came is a row with how often it did; `count` is the number of all."""

    async def mark(self, id: str) -> None:
        """The job."""
        began(id)
        await self._note(id)

    async def add(self, id: str) -> int:
        """The call; with a request key it may come again and happens once."""
        began(id)
        return await self._note(id)

    async def follow(self, id: str, number: int) -> None:
        """A job of a line: it must come after the one before it."""
        last = await self.storage.get("last", -1)
        if number != last + 1:
            await self.storage.put(f"wrong:{id}", f"{number} after {last}")
        await self.storage.put("last", number)
        await self.storage.put("count", await self.storage.get("count", 0) + 1)

    async def hold(self, id: str, seconds: float) -> int:
        """A turn that takes a while."""
        began(id)
        await asyncio.sleep(seconds)
        return await self._note(id)

    @reader
    async def where(self) -> int:
        """The process that it lives in."""
        return os.getpid()

    async def tick(self, every_ms: int) -> None:
        """From now on an alarm every so often."""
        await self.storage.put("every", every_ms)
        await self.storage.set_alarm(int(time() * 1000) + every_ms)

    async def still(self) -> None:
        """No alarms from now on."""
        await self.storage.delete_alarm()

    async def alarm(self, info: AlarmInfo) -> None:
        at = int(info.scheduled_at.timestamp() * 1000)
        began(f"alarm:{self.ctx.key}:{at}")
        await self._note(f"alarm:{at}")
        await self.storage.set_alarm(int(time() * 1000) + await self.storage.get("every"))

    async def _note(self, id: str) -> int:
        await self.storage.put(f"id:{id}", await self.storage.get(f"id:{id}", 0) + 1)
        count = int(await self.storage.get("count", 0)) + 1
        await self.storage.put("count", count)
        return count
