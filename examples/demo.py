"""A small town for the dashboard, with lamps that break and a bell that overlaps with itself. Run it: `make demo`."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from wakeful import AlarmInfo, App, DurableObject, Machine, RetryPolicy, Run, every

app = App()
app.on(("parked", "missed"), print)  # a town would call somebody


@app.object
class Letter(DurableObject):
    async def write(self, to: str, spec: str) -> None:
        await self.storage.put_many({"to": to, "stamps": 2, "lines": [f"line {n}" for n in range(40)]})
        await self.schedules.add(spec, self.deliver, name="deliver", tags=("post",))

    async def deliver(self, run: Run) -> None:
        await self.storage.put("delivered", await self.storage.get("delivered", 0) + 1)

    async def charge(self, cents: int) -> dict[str, int]:
        if cents <= 500:
            return {"paid": cents}
        raise ConnectionError(f"the bank did not answer about {cents} cents")


@app.object
class Lamp(DurableObject):
    async def light(self, *, is_broken: bool) -> None:
        await self.storage.put("broken", is_broken)
        await self.storage.set_alarm(timedelta(seconds=20))

    async def alarm(self, info: AlarmInfo) -> None:
        if await self.storage.get("broken"):
            raise TimeoutError(f"lamp {self.ctx.key} does not answer (attempt {info.retry_count + 1})")
        await self.storage.set_alarm(timedelta(seconds=20))


@app.object
class Tower(DurableObject):
    @every("15s", overlap="skip")
    async def bell(self) -> None:
        await asyncio.sleep(22)  # longer than until the next, which then overlaps

    @every.weekday.at("09:00", zone="Europe/Paris", tags=("office",))
    async def open(self) -> None: ...


@app.object
class Parcel(Machine):
    road = {"initial": "waiting", "states": {"waiting": {"after": {"2h": "late"}}, "late": {}}}
    sent = {"on": {"ARRIVE": "arrived"}, "after": {"3d": "lost"}, **road}
    chart = {"initial": "sent", "states": {"sent": sent, "arrived": {"type": "final"}, "lost": {}}}


async def on_start(app: App) -> None:
    """Sow what is there at the beginning. A request key makes it a seed: the second time nothing is sown."""
    for key, to, spec in (("ann", "bob", "every 4s"), ("eu/bob", "ann", "every 2m"), ("zoe", "ann", "after 3d")):
        await app.get(Letter, key, request_key="seed").write(to, spec)
    for number in range(5):
        await app.get(Lamp, f"lane-{number}", request_key="seed").light(is_broken=number < 3)
    await asyncio.gather(asyncio.wait_for(app.schedules(Tower, "hall").list(), 1), return_exceptions=True)  # may ring
    await app.get(Parcel, "eu/7", request_key="seed").start()
    ann, zoe, once = app.get(Letter, "ann"), app.get(Letter, "zoe"), RetryPolicy(max_attempts=1)
    for cents in (120, 300, 900):
        await app.jobs.schedule(ann.charge, cents, key=f"stamp-{cents}", retry=once, tags=("post",))
    weighed = await app.jobs.schedule(zoe.charge, 250, after="4h", key="parcel", metadata={"grams": 900})
    await app.jobs.schedule(zoe.charge, 80, key="tip", depends_on=(weighed.id,))


async def past(file: str) -> None:
    """Live half an hour in a moment; `wakeful dev` then goes on from there in real time."""
    async with app.world(store=f"sqlite:{file}", start=datetime.now(UTC) - timedelta(minutes=30)) as world:
        await on_start(app)
        await world.advance(minutes=30)


if __name__ == "__main__":
    asyncio.run(past(sys.argv[1]))
