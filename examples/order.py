"""An order that expires: a statechart as a durable object. Run it: python examples/order.py"""

import asyncio
from typing import Any

from wakeful import App, Machine, action, assign, guard

app = App()


@app.object
class Order(Machine):
    chart = {
        "initial": "placed",
        "context": {"total": 40, "tries": 0},
        "states": {
            "placed": {
                "on": {"PAY": {"target": "paid", "guard": "enough", "actions": "thank"}},
                "after": {"24h": {"target": "expired", "actions": "release"}},
            },
            "paid": {
                "invoke": {
                    "src": "ship",
                    "onDone": "shipped",
                    "onError": {"target": "paid", "actions": "again", "reenter": True},
                }
            },
            "shipped": {"type": "final"},
            "expired": {"type": "final"},
        },
    }

    @guard
    def enough(self, context: Any, event: Any) -> bool:
        return bool(event["amount"] >= context["total"])

    @assign
    def again(self, context: Any, event: Any) -> dict[str, Any]:
        return {"tries": context["tries"] + 1}

    @action  # after the step is on disk, at least once; self.ctx.run.id is the same at every try
    async def thank(self, context: Any, event: Any) -> None:
        print(f"{self.ctx.now():%a %H:%M}  {self.ctx.key}: thanks for {event['amount']}")

    @action
    async def release(self, context: Any, event: Any) -> None:
        print(f"{self.ctx.now():%a %H:%M}  {self.ctx.key}: expired, its goods are free again")

    async def ship(self, context: Any, event: Any) -> str:  # beside the object's turns; run again if the process dies
        await asyncio.sleep(3600)
        if context["tries"] == 0:
            raise ConnectionError("the carrier does not answer")
        return "on its way"


async def main() -> None:
    async with app.world(start="2026-03-27T12:00:00+00:00") as world:
        forgotten, bought = world.get(Order, "o-1"), world.get(Order, "o-2")
        await forgotten.start()
        await bought.start()
        await world.advance(hours=1)
        print("too little:", (await bought.send("PAY", amount=5)).value, await bought.can("PAY", amount=40))
        print("enough:", (await bought.send("PAY", amount=40)).value)
        await world.advance(minutes=30)
        await world.crash()  # an hour's work is half done, and a delay of 24 hours runs
        await world.restart(after="10m")
        await world.advance(hours=24)
        for order in (forgotten, bought):
            snapshot = await order.snapshot()
            print(snapshot.value, snapshot.status, snapshot.context)


if __name__ == "__main__":
    asyncio.run(main())
