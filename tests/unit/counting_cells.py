"""Objects that count, for tests in which it does not matter what objects do."""

from wakeful import App, DurableObject


def cells() -> App:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def add(self) -> int:
            value: int = await self.storage.get("n", 0) + 1
            self.storage.put("n", value)
            return value

    return app
