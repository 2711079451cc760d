"""A report of four tasks as one durable run, by hand and by a schedule; it survives a crash in its middle. Run it: python examples/report_dag.py"""

import asyncio
from typing import Any

from wakeful import App, Dag, RetryPolicy, Run, every, fixed

app = App()
report = Dag("Report")
calls: list[str] = []  # in memory only, to show what ran how often


@report.task(retry=RetryPolicy(max_attempts=3, backoff=fixed("30s")))
async def extract(input: dict[str, Any] | None, run: Run) -> list[int]:
    calls.append("extract")
    if run.attempt == 0 and input is not None:
        raise ConnectionError("the source is busy")  # tried again 30 s later
    return [7, 3, 5]


@report.task(after=[extract])
async def clean(extract: list[int]) -> list[int]:
    calls.append("clean")
    return sorted(number for number in extract if number > 3)


@report.task(after=[extract])
async def audit(extract: list[int]) -> int:
    calls.append("audit")
    await asyncio.sleep(60)  # a slow one: the crash below falls into it
    return len(extract)


@report.task(after=[clean, audit])
async def send(clean: list[int], audit: int) -> str:
    calls.append("send")
    return f"{clean} of {audit} numbers"


Report = app.dag(report, every.weekday.at("06:00", zone="Europe/Paris"))


async def main() -> None:
    async with app.world(start="2026-03-26T12:00:00+00:00") as world:
        by_hand = world.get(Report, "march")
        await by_hand.start({"month": 3})
        await by_hand.start({"month": 3})  # the same key: the same run
        await world.advance("50s")
        await world.crash()
        await world.restart(after="1h")
        await world.advance("5m")
        status = await by_hand.status()
        assert status.started_at is not None
        assert status.finished_at is not None
        print(status.state, "after", status.finished_at - status.started_at)
        print("result:", await by_hand.result("send"))
        print("calls: ", ", ".join(f"{name} {calls.count(name)}" for name in ("extract", "clean", "audit", "send")))

        await world.advance(days=4)  # Friday and Monday at six in Paris, on both sides of the change of the clocks
        for key in ("2026-03-27T05:00:00+00:00", "2026-03-30T04:00:00+00:00"):
            print(key, (await world.get(Report, key).status()).state)


if __name__ == "__main__":
    asyncio.run(main())
