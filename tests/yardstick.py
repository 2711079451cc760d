"""How slow is this machine, now? What a test promises in seconds is judged by it, and else only waited for.

    with Yardstick() as machine:
        took_s = ...
    assert took_s < machine.allows(2), machine

Beside the test a bare process has a bare asyncio timer every 20 ms, and starts a barer one twice a second. On a machine
that is at hand when it is wanted both cost next to nothing, and what is allowed is what is promised.
"""

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

# For what a test only waits for: nothing is proved by this end but that it does not come.
PATIENCE_S = 180.0
TIMER_S = 0.02
START_EVERY_S = 0.5
QUICK_START_S = 0.05  # of a bare Python: a third of this where nobody else is, and this where a core is shared by three
HOPS = (
    10  # what is promised passes through so many hands (loops, processes, the database), each as late as a bare timer
)


class Yardstick:
    """How late a bare timer was, and how long a bare process took to start and end, while the block ran."""

    def __init__(self) -> None:
        self.late_s = 0.0  # at most
        self.start_s = 0.0  # nine of ten took no longer
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Yardstick":
        command = [sys.executable, "-I", "-S", __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *exc: object) -> None:
        self.read()

    def read(self) -> None:
        """It has measured enough; the first use of what it has to say does this as well."""
        if self._process is not None:
            told, _ = self._process.communicate("", timeout=PATIENCE_S)
            self._process = None
            self.late_s, self.start_s = json.loads(told)

    @property
    def slowness(self) -> float:
        """How many times longer a thing takes here than where a processor is to be had."""
        self.read()
        return max(1.0, self.start_s / QUICK_START_S)

    def allows(self, seconds: float) -> float:
        """What a promise of so many seconds comes to on this machine."""
        return seconds * self.slowness + HOPS * self.late_s

    def __str__(self) -> str:
        self.read()
        return (
            f"beside it a bare timer was {self.late_s * 1000:.0f} ms late and a bare process took "
            f"{self.start_s * 1000:.0f} ms: {self.slowness:.1f} times slower than promised for"
        )


async def _measure() -> tuple[float, float]:
    """Until stdin ends."""
    loop = asyncio.get_running_loop()
    over = loop.run_in_executor(None, sys.stdin.read)
    late_s, starts = 0.0, []

    async def start() -> None:
        while True:
            since = time.monotonic()
            bare = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", "pass")
            await bare.wait()
            starts.append(time.monotonic() - since)
            await asyncio.sleep(START_EVERY_S)

    starting: asyncio.Task[Any] = asyncio.create_task(start())
    while not over.done() or not starts:
        due = loop.time() + TIMER_S
        await asyncio.sleep(TIMER_S)
        late_s = max(late_s, loop.time() - due)
    starting.cancel()
    return late_s, sorted(starts)[int(len(starts) * 0.9)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure())))
