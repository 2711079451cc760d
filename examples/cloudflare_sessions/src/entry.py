"""RPC with more than data: who knows the pin is lent a session, and a function is told of what happens."""

from urllib.parse import urlsplit

from workers import DurableObject, Response, RpcTarget, WorkerEntrypoint


class Session(RpcTarget):
    """What may be done with an account by those who were let in; the account itself has no such methods."""

    def __init__(self, account):
        self._account = account

    @property
    async def balance(self):
        return await self._account.ctx.storage.get("balance") or 0

    async def move(self, amount, tell=None):
        """Put so much in, or take it out; `tell` is called with what is there then."""
        balance = await self.balance + amount
        if balance < 0:
            raise ValueError(f"there is {balance - amount}, and not {-amount}")
        await self._account.ctx.storage.put("balance", balance)
        if tell is not None:
            await tell(balance)  # leaves when the balance is on disk
        return self


class Account(DurableObject):
    async def open(self, pin):
        if pin != (await self.ctx.storage.get("pin") or pin):
            raise PermissionError("another pin")
        await self.ctx.storage.put("pin", pin)
        return Session(self)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        """`POST /NAME/PIN` with amounts, one a line."""
        _, name, pin = urlsplit(request.url).path.split("/")
        told = []
        try:
            session = await self.env.ACCOUNTS.getByName(name).open(pin)
            for line in (await request.text()).split():
                await session.move(int(line), told.append)
        except PermissionError:
            return Response("another pin", status=403)
        except ValueError as error:
            return Response(str(error), status=409)
        return Response.json({"told": told, "balance": await session.balance})
