"""To-do lists: each list is an object with a table, and its methods are called as they are, without a URL in between."""

from urllib.parse import urlsplit

from workers import DurableObject, Response, WorkerEntrypoint


class TodoList(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.sql.exec(
            "CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0)"
        )

    async def add(self, text):
        return self.sql.exec("INSERT INTO items (text) VALUES (?) RETURNING id, text, done", text).one()

    async def items(self):
        return self.sql.exec("SELECT id, text, done FROM items ORDER BY done, id").toArray()

    async def tick(self, id):
        found = self.sql.exec("UPDATE items SET done = 1 - done WHERE id = ? RETURNING id, text, done", id).toArray()
        return found[0] if found else None

    async def clear(self):
        """Remove what is done; how much that was."""
        return self.sql.exec("DELETE FROM items WHERE done").rowsWritten


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        """`/LIST` and `/LIST/ID`."""
        name, _, id = urlsplit(request.url).path.strip("/").partition("/")
        if not name:
            return Response("name a list, as in /shopping", status=404)
        todo = self.env.LISTS.getByName(name)
        match request.method, id:
            case "GET", "":
                return Response.json(await todo.items())
            case "POST", "":
                return Response.json(await todo.add(await request.text()), status=201)
            case "DELETE", "":
                return Response.json({"removed": await todo.clear()})
            case "POST", id if id.isdigit():
                item = await todo.tick(int(id))
                return Response("no such item", status=404) if item is None else Response.json(item)
        return Response("GET, POST and DELETE /LIST, POST /LIST/ID", status=405)
