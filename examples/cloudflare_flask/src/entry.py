"""A Flask application in a Worker, which keeps its guestbooks in objects."""

from flask import Flask, request
from pyodide.ffi import run_sync
from workers import DurableObject, wsgi

app = Flask(__name__)


class Guestbook(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS lines (n INTEGER PRIMARY KEY, line TEXT NOT NULL)")

    async def sign(self, line):
        self.ctx.storage.sql.exec("INSERT INTO lines (line) VALUES (?)", line)

    async def lines(self):
        return [row.line for row in self.ctx.storage.sql.exec("SELECT line FROM lines ORDER BY n")]


def book(name):
    return request.environ["workers.env"].BOOKS.getByName(name)


@app.get("/<name>")
def read(name):
    return {"lines": run_sync(book(name).lines())}


@app.post("/<name>")
def sign(name):
    run_sync(book(name).sign(request.get_data(as_text=True)))
    return read(name), 201


Default = wsgi.entrypoint(app)
