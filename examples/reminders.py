"""Reminders that fire, one that recovers, one that never will. Run it: `make demo`.

Watch the log: `tea` fires every few seconds, `flaky` fails twice and recovers on its second retry,
`broken` fails seven times (2, 4, … 64 s apart) and is parked after about two and a half minutes.
Kill it with -9 at any moment and start it again: nothing is lost and nothing fires twice.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from wakeful import AlarmInfo, App, DurableObject, reader

app = App()


@dataclass
class Sent:
    text: str = ""
    every_s: float = 0
    delivered: int = 0
    last: list[str] = field(default_factory=list)


@app.object
class Reminder(DurableObject):
    state: Sent

    async def remind(self, text: str, after_s: float = 5, every_s: float = 0) -> str:
        """Set it, or set it anew. `every_s` repeats it."""
        self.state.text, self.state.every_s = text, every_s
        await self.storage.set_alarm(timedelta(seconds=after_s))
        return f"will say {text!r} in {after_s} s"

    async def alarm(self, info: AlarmInfo) -> None:
        # State and the next alarm commit together, or neither does.
        self.state.delivered += 1
        self.state.last = [*self.state.last[-4:], f"{self.ctx.now():%H:%M:%S} {self.state.text}"]
        if self.state.every_s:
            await self.storage.set_alarm(timedelta(seconds=self.state.every_s))
        self.ctx.log.info("%s (%d so far)", self.state.text, self.state.delivered)

    @reader
    async def delivered(self) -> list[str]:
        return self.state.last


@app.object
class Errand(DurableObject):
    """An alarm that fails as often as it is told to."""

    async def begin(self, failures: int, after_s: float = 3) -> None:
        await self.storage.put("failures", failures)
        await self.storage.set_alarm(timedelta(seconds=after_s))

    async def alarm(self, info: AlarmInfo) -> None:
        if info.retry_count < await self.storage.get("failures", 0):
            raise ConnectionError(f"the mail server said no (attempt {info.retry_count + 1})")
        await self.storage.put("done", True)

    async def repair(self) -> str:
        """From now on it works: redrive it and see."""
        await self.storage.put("failures", 0)
        return "repaired; now redrive it"


async def on_start(app: App) -> None:
    """Run once after each start. A request key makes it a seed: the second time the first answer is given again."""
    await app.get(Reminder, "tea", request_key="seed").remind("tea is ready", 2, every_s=5)
    await app.get(Reminder, "standup", request_key="seed").remind("time for the standup", 20)
    await app.get(Reminder, "holiday", request_key="seed").remind("pack your things", 3 * 86_400)
    await app.get(Errand, "flaky", request_key="seed").begin(failures=2)
    await app.get(Errand, "broken", request_key="seed").begin(failures=1_000)
