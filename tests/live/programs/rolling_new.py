"""The program after the deploy: a new field with a default, a new method, and a class that the old one has never heard of."""

from dataclasses import dataclass

from wakeful import App, DurableObject

app = App()


@dataclass
class Balance:
    cents: int = 0
    currency: str = "EUR"


@app.object
class Account(DurableObject):
    state: Balance

    async def deposit(self, cents: int) -> int:
        self.state.cents += cents
        return self.state.cents

    async def version(self) -> int:
        return 2

    async def told(self) -> str:
        return f"{self.state.cents} {self.state.currency}"


@app.object
class Receipt(DurableObject):
    async def write(self, text: str) -> str:
        await self.storage.put("text", text)
        return text

    async def text(self) -> str | None:
        found: str | None = await self.storage.get("text")
        return found
