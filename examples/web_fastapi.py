"""Reminders in a FastAPI application. Run it: cd examples && uvicorn web_fastapi:web, then see /docs and /durable/."""

from datetime import datetime

from fastapi import FastAPI, HTTPException
from pydantic import AwareDatetime, BaseModel

from wakeful import App, DurableObject

app = App()


@app.object
class Reminders(DurableObject):
    """One of these for each person."""

    async def add(self, text: str, at: datetime) -> str:
        schedule = await self.schedules.add(at, self.deliver, text)
        return schedule.name

    async def deliver(self, text: str) -> None:
        # A real one would send a mail here, with the run's id so that it is sent once.
        await self.storage.put("delivered", [*await self.storage.get("delivered", []), text])

    async def forget(self, name: str) -> bool:
        return await self.schedules.cancel(name)

    async def show(self) -> dict[str, list[str]]:
        waiting = [schedule.name for schedule in await self.schedules.list()]
        return {"waiting": waiting, "delivered": await self.storage.get("delivered", [])}


# The one line: objects live as long as the web application does, in $WAKEFUL_STORE or in wakeful.db.
web = FastAPI(title="Reminders", lifespan=app.lifespan)


class Reminder(BaseModel):
    text: str
    at: AwareDatetime


@web.post("/people/{person}/reminders", status_code=201)
async def add(person: str, reminder: Reminder) -> dict[str, str]:
    return {"name": await app.get(Reminders, person).add(reminder.text, reminder.at)}


@web.get("/people/{person}/reminders")
async def show(person: str) -> dict[str, list[str]]:
    return await app.get(Reminders, person).show()


@web.delete("/people/{person}/reminders/{name}", status_code=204)
async def forget(person: str, name: str) -> None:
    if not await app.get(Reminders, person).forget(name):
        raise HTTPException(404, "there is no such reminder, or it has been delivered")


web.mount("/durable", app.asgi())  # API and dashboard; without tokens for this machine only
