"""Reminders, schedules and failures to watch. Run it: `wakeful dev examples/reminders.py`.

Watch the log: `tea` is due every 5 s, `flaky` fails twice and recovers on its second retry, `broken` fails seven
times (2, 4, … 64 s apart) and is parked after about two and a half minutes. The oven bakes for 7 s every 3 s, so
most of its occurrences overlap; the radio is paused. `wakeful why Oven home bake` and `wakeful why Kitchen home radio`
say so. Kill it with -9 at any moment and start it again: nothing is lost and nothing fires twice.
"""

import asyncio
from datetime import timedelta

from wakeful import AlarmInfo, App, DurableObject, Run, every, reader

app = App()


@app.object
class Reminder(DurableObject):
    async def remind(self, text: str, spec: str = "after 5s") -> str:
        """Say it once (`after 5s`) or again and again (`every 5s`, `every monday at 9am`)."""
        await self.schedules.cancel("say")  # the same spec under the same name would change nothing, done or not
        schedule = await self.schedules.add(spec, self.say, text, name="say")
        return f"{schedule.text}: {text}"

    async def say(self, text: str, run: Run) -> None:
        # What it remembers, the ledger row and the next occurrence commit together, or none of them does.
        last = await self.storage.get("last", [])
        await self.storage.put("last", [*last[-4:], f"{run.nominal_at:%H:%M:%S} {text}"])
        self.ctx.log.info("%s", text)

    @reader
    async def delivered(self) -> list[str]:
        last: list[str] = await self.storage.get("last", [])
        return last


@app.object
class Errand(DurableObject):
    """An alarm that fails as often as it is told to."""

    async def begin(self, failures: int) -> None:
        await self.storage.put("failures", failures)
        await self.storage.set_alarm(timedelta(seconds=3))

    async def alarm(self, info: AlarmInfo) -> None:
        if info.retry_count < await self.storage.get("failures", 0):
            raise ConnectionError(f"the mail server said no (attempt {info.retry_count + 1})")

    async def repair(self) -> str:
        """From now on it works: redrive it and see."""
        await self.storage.put("failures", 0)
        return "repaired; now redrive it"


@app.object
class Kitchen(DurableObject):
    @every("4s")
    async def radio(self) -> None: ...

    async def quiet(self) -> None:
        await self.schedules.pause("radio", note="the neighbours are asleep")


@app.object
class Oven(DurableObject):
    @every("3s", overlap="skip")
    async def bake(self, run: Run) -> None:
        await asyncio.sleep(7)

    async def light(self) -> None: ...


async def on_start(app: App) -> None:
    """Run once after each start. A request key makes it a seed: the second time the first answer is given again."""
    await app.get(Reminder, "tea", request_key="first start").remind("tea is ready", "every 5s")
    await app.get(Reminder, "holiday", request_key="first start").remind("pack your things", "after 3d")
    await app.get(Errand, "flaky", request_key="first start").begin(failures=2)
    await app.get(Errand, "broken", request_key="first start").begin(failures=1_000)
    await app.get(Kitchen, "home", request_key="first start").quiet()
    await app.get(Oven, "home", request_key="first start").light()
