"""What pulled.py runs its commands on."""

import asyncio
from typing import Any

from wakeful import App, DurableObject, Limits, Machine

# A snapshot as XState persists it.
PLACED: dict[str, Any] = {
    "status": "active",
    "value": "placed",
    "context": {"total": 5},
    "children": {},
    "historyValue": {},
}
app = App(limits=Limits(stop_deadline_ms=500))


@app.object
class Order(Machine):
    chart = {
        "id": "order",
        "initial": "placed",
        "states": {"placed": {"after": {"24h": "expired"}, "on": {"PAY": "paid"}}, "paid": {}, "expired": {}},
    }


@app.object
class Plain(DurableObject):
    async def touch(self, rows: int) -> None:
        for number in range(rows):
            await self.storage.put(f"row:{number}", "x" * 20_000)
        await self.storage.set_alarm(4_000_000_000_000)

    async def alarm(self, info: Any) -> None:
        """In the year 2096."""


@app.object
class Slow(DurableObject):
    async def begin(self) -> None:
        """Has an alarm of another object begin, and goes on for as long as it is let."""
        await app.get(Slow, "other").arm()
        await asyncio.sleep(60)

    async def arm(self) -> None:
        await self.storage.set_alarm(1)

    async def alarm(self, info: Any) -> None:
        print("[began]", flush=True)
        await asyncio.sleep(60)
