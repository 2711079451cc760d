"""A program whose machine's clock is set: a schedule that is due every second."""

import ctypes
import signal
from contextlib import suppress

from wakeful import App, DurableObject, Limits, Run, every

with suppress(OSError, AttributeError):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

app = App(limits=Limits(ledger_keep=100_000))


@app.object
class Clocked(DurableObject):
    @every("1s", catch_up="coalesce", grace="1s")
    async def tick(self, run: Run) -> None:
        """The ledger says all of it."""

    async def start(self) -> None:
        """Wakes it, which makes it have its schedule."""


async def on_start(app: App) -> None:
    for number in range(3):
        await app.get(Clocked, f"c{number}").start()
