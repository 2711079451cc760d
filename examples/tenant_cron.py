"""Cron as a service: each tenant's jobs in its own zone, spread over objects, with quotas. Run it: python examples/tenant_cron.py"""

import asyncio
from datetime import datetime

from wakeful import App, DurableObject, Quotas, Run, WakefulError, sharded

SHARDS = 8  # objects per tenant; fixed for ever, so chosen larger than needed
app = App(quotas=Quotas(schedules=1_000, tenants={"hobby": Quotas(schedules=2)}))


@app.object
class Cron(DurableObject):
    """One of the objects that hold a tenant's jobs."""

    async def call(self, url: str, run: Run) -> None:
        # A real one would post to the url with run.id as the idempotency key.
        await self.storage.put(f"called:{url}", run.nominal_at)


async def add(tenant: str, name: str, when: str, zone: str, url: str) -> datetime | None:
    """What an HTTP handler of the service would do: when it runs next, or an error to show."""
    jobs = app.schedules(Cron, sharded(tenant, SHARDS))
    # Everybody wants 9:00; jitter gives each job its own, stable part of two minutes after it.
    schedule = await jobs.add(when, Cron.call, url, name=name, zone=zone, jitter="2m", tags=["http"])
    return schedule.next_at


async def main() -> None:
    async with app.world(start="2026-03-27T12:00:00+00:00") as world:
        await add("acme", "report", "every weekday at 9am", "America/New_York", "https://acme.example/report")
        await add("acme", "sweep", "*/30 * * * *", "America/New_York", "https://acme.example/sweep")
        await add("globex", "report", "every weekday at 9am", "Asia/Tokyo", "https://globex.example/report")
        for name in ("one", "two", "three"):
            try:
                await add("hobby", name, "@daily", "Europe/Berlin", "https://hobby.example")
            except WakefulError as error:
                print("refused:", error)
        for tenant in ("acme", "globex", "hobby"):
            for job in await app.schedules(Cron, sharded(tenant, SHARDS)).list():
                print(f"{tenant:<7} {job.name:<7} {job.spec.describe().partition(', spread')[0]}")

        await app.schedules(Cron, sharded("globex", SHARDS)).pause(tag="http", note="invoice unpaid")
        await world.advance(days=4)
        for tenant in ("acme", "globex", "hobby"):
            sums = await app.counters(tenant=tenant)
            print(f"{tenant:<7} {sums.runs} runs, {sums.paused} paused, {sums.missed} missed")


if __name__ == "__main__":
    asyncio.run(main())
