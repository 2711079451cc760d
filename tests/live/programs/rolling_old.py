"""A program before the deploy: an account that knows only its balance."""

from dataclasses import dataclass

from wakeful import App, DurableObject

app = App()


@dataclass
class Balance:
    cents: int = 0


@app.object
class Account(DurableObject):
    state: Balance

    async def deposit(self, cents: int) -> int:
        self.state.cents += cents
        return self.state.cents

    async def version(self) -> int:
        return 1
