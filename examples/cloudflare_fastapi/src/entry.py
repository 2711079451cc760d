"""FastAPI inside an object: its routes query the object's own database, and each shop has its own."""

from urllib.parse import urlsplit

import asgi
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, PositiveInt
from workers import DurableObject, WorkerEntrypoint

app = FastAPI(title="Shop")


class Order(BaseModel):
    item: str
    count: PositiveInt = 1


def sql(request: Request):
    return request.scope["env"].sql


@app.put("/{shop}/stock/{item}")
async def stock(shop: str, item: str, count: PositiveInt, request: Request):
    sql(request).exec(
        "INSERT INTO stock VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET count = count + excluded.count", item, count
    )
    return {"item": item, "count": sql(request).exec("SELECT count FROM stock WHERE item = ?", item).one()["count"]}


@app.post("/{shop}/orders", status_code=201)
async def order(shop: str, wanted: Order, request: Request):
    """Nothing waits between the two statements, so they are one commit, and no other order comes between."""
    taken = sql(request).exec(
        "UPDATE stock SET count = count - ?1 WHERE item = ?2 AND count >= ?1", wanted.count, wanted.item
    )
    if not taken.rowsWritten:
        raise HTTPException(409, f"there is not so much {wanted.item}")
    insert = "INSERT INTO orders (item, count) VALUES (?, ?) RETURNING id, item, count"
    return sql(request).exec(insert, wanted.item, wanted.count).one()


@app.get("/{shop}/orders")
async def orders(shop: str, request: Request):
    return sql(request).exec("SELECT id, item, count FROM orders ORDER BY id").toArray()


class Shop(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec("CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, count INTEGER NOT NULL)")
        self.sql.exec("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, count INTEGER)")

    async def fetch(self, request):
        return await asgi.fetch(app, request, self, self.ctx)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        shop = urlsplit(request.url).path.split("/")[1] or "main"
        return await self.env.SHOPS.getByName(shop).fetch(request)
