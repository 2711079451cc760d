"""What test_flow_page.py looks at: workflows in every state that has something of its own to show."""

import asyncio
from collections import Counter

from wakeful import App, Queue, RetryPolicy, Step, Workflow, fixed

app = App()
TRIES = RetryPolicy(3, fixed("100ms"))
tries: Counter[str] = Counter()


async def work(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def flaky(key: str) -> None:
    tries[key] += 1
    if tries[key] < 3:
        raise OSError("the provider is down")


async def refuse() -> None:
    raise ValueError("the card was declined: no more than 500 characters of what the bank said, which is a lot")


@app.object
class Order(Workflow):
    async def run(self, step: Step, how: str) -> None:  # type: ignore[override]
        await step("reserve", work, 0.3, undo=work)
        await asyncio.gather(step("charge the card", work, 0.5), step("ask the warehouse", work, 0.2))
        await step("tell the customer", flaky, self.key, retry=TRIES)
        if how == "fails":
            await step("charge the card", refuse, retry=RetryPolicy(1))
        await step.sleep("cool down", "3d" if how == "sleeps" else "200ms")
        await step.wait_for("approved", timeout="7d")


async def on_start(app: App) -> None:
    await app.get(Order, "waits").start("waits")
    await app.get(Order, "sleeps").start("sleeps")
    await app.get(Order, "fails").start("fails")
    for n in range(2):
        await app.get(Order, f"queued/{n}").start("waits", queue=Queue("orders", concurrency=1, key="acme"))
