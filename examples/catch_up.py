"""An outage of four and a half hours, and what each catch-up policy makes of it. Run it: python examples/catch_up.py

The time is a world's: it takes well under a second.
"""

import asyncio
from typing import Any

from wakeful import App, DurableObject, Run

app = App()


@app.object
class Report(DurableObject):
    async def begin(self, options: dict[str, Any]) -> None:
        await self.schedules.add("0 * * * *", self.work, name="hourly", **options)

    async def work(self, run: Run) -> None:
        # A real one would look at run.missed and run.first_at to know how much it has to make up for.
        await self.storage.put("done_to", run.nominal_at)


async def outage(options: dict[str, Any]) -> list[str]:
    """The process dies at 12:01 and is back at 16:30; the verdict of every occurrence up to 17:00."""
    async with app.world(start="2026-03-28T11:59:00+00:00") as world:
        await world.get(Report, "sales").begin(options)
        await world.advance("2m")
        await world.crash()
        await world.restart(after="4h29m")
        await world.advance("31m")
        lines = []
        for run in await world.ledger(Report, "sales", "hourly"):
            told = f", answers for {run.missed} since {run.first_at or run.nominal_at:%H:%M}" if run.missed else ""
            lines.append(f"{run.nominal_at:%H:%M} {run.verdict:<9} at {run.fired_at:%H:%M}{told}")
        return lines


async def main() -> None:
    for options in (
        {"catch_up": "skip"},
        {"catch_up": "latest"},
        {"catch_up": "coalesce"},
        {"catch_up": "all"},
        {"catch_up": "all", "max_catch_up": 2},
        {"catch_up": "backfill", "catch_up_window": "2h"},
    ):
        print(", ".join(f"{name}={value!r}" for name, value in options.items()))
        for line in await outage(options):
            print("   ", line)


if __name__ == "__main__":
    asyncio.run(main())
