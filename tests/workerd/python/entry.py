"""Our side of the comparison: one object that does what a scenario says. ../worker.js is its twin."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit

from js import IdentityTransformStream, RangeError, ReadableStream, TextDecoderStream, TransformStream
from talk import Talk as Talk
from talk import talk
from workers import DurableObject, Response, WorkerEntrypoint


def now():
    return int(time.time() * 1000)


class Log(DurableObject):
    async def add(self, event):
        events = await self.ctx.storage.get("events") or []
        events.append(event)
        await self.ctx.storage.put("events", events)
        return len([one for one in events if one[0] == event[0]])

    async def events(self):
        return await self.ctx.storage.get("events") or []

    async def plan(self, programs):
        await self.ctx.storage.put("programs", programs)

    async def program(self, kind, number):
        programs = await self.ctx.storage.get("programs") or {}
        found = programs.get(kind, [])
        index = min(number, len(found)) - 1
        return found[index] if index >= 0 else []

    async def mark(self, label, at):
        await self.ctx.storage.put("at:" + label, at)

    async def label(self, at):
        marks = await self.ctx.storage.list(prefix="at:")
        for key, value in marks.items():
            if value == at:
                return key[3:]
        return "about now" if abs(at - now()) < 1500 else "another time"


RAW = {
    "nan": math.nan,
    "infinite": math.inf,
    "zero": 0,
    "negative": -1,
    "half": 0.5,
    "text": "1893456000000",
    "nothing": None,
    "truth": True,
    "list": [1],
    "object": {},
    "far": 9.3e12,
    "bad date": math.nan,
}
SPECIAL = {
    "date": lambda: datetime(2030, 1, 1, tzinfo=UTC) + timedelta(milliseconds=123),
    "bytes": lambda: bytes([0, 1, 255]),
    "set": lambda: {1, 2},
    "nan": lambda: math.nan,
    "big": lambda: 2**70,
    "nested": lambda: {"a": [1, {"b": None}], "": True},
    "empty": lambda: "",
    "function": lambda: lambda: 1,
    "null": lambda: None,
}


def shown(value):
    if isinstance(value, dict):
        if hasattr(value, "size") and "size" not in value:
            return {"map": [[key, shown(one)] for key, one in value.items()]}
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, set):
        return {"set": sorted(value)}
    if isinstance(value, datetime):
        return {"date": round(value.timestamp() * 1000)}
    if isinstance(value, bytes):
        return {"bytes": list(value)}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return {"big": str(value)}
    if isinstance(value, float) and math.isnan(value):
        return {"nan": True}
    if isinstance(value, list):
        return [shown(one) for one in value]
    return value


class Thrown(Exception):
    pass


def bound(value):
    return SPECIAL[value["special"]]() if isinstance(value, dict) and "special" in value else value


def next_of(cursor):
    found = cursor.next()
    return [found.done, found.value]


CURSOR = {
    "next": next_of,
    "rest": list,
    "array": lambda cursor: cursor.toArray(),
    "one": lambda cursor: cursor.one(),
    "raw": lambda cursor: list(cursor.raw()),
    "raw array": lambda cursor: cursor.raw().toArray(),
    "columns": lambda cursor: cursor.columnNames,
    "read": lambda cursor: cursor.rowsRead,
    "written": lambda cursor: cursor.rowsWritten,
}


# What streams do, each a program of its own.


async def rest(stream):
    return [chunk async for chunk in stream]


async def tried(work):
    try:
        found = work()
        return await found if hasattr(found, "__await__") else found
    except Exception as error:
        return getattr(error, "name", type(error).__name__)


async def soon_or(task):
    done, _ = await asyncio.wait([task], timeout=0.05)
    return "done" if done else "pending"


def source(*words):
    return getattr(ReadableStream, "from")([word.encode() for word in words])


async def steered(env):
    log = []

    def pull(controller):
        log.append("pull")
        controller.enqueue(len(log))

    underlying = {"start": lambda controller: log.append("start"), "pull": pull, "cancel": log.append}
    stream = ReadableStream.new(underlying, {"highWaterMark": 0})
    reader = stream.getReader()
    read = [(await reader.read()).value, (await reader.read()).value, stream.locked]
    await reader.cancel("enough")
    return [*read, (await reader.read()).done, log]


async def pulled_to_its_end(env):
    made = []

    def pull(controller):
        controller.enqueue(len(made))
        made.append(1)
        if len(made) == 3:
            controller.close()

    return await rest(ReadableStream.new({"pull": pull}))


async def enqueued_over_time(env):
    async def start(controller):
        for n in range(3):
            controller.enqueue(n)
            await asyncio.sleep(0.02)
        controller.close()

    return await rest(ReadableStream.new({"start": start}))


async def tee(env):
    cancelled = []
    one, two = getattr(ReadableStream, "from")(["a", "b"]).tee()
    found = [await rest(one), await rest(two)]
    endless = ReadableStream.new({"pull": lambda controller: controller.enqueue("x"), "cancel": cancelled.append})
    three, four = endless.tee()
    first = three.cancel("one")
    before = len(cancelled)
    await asyncio.gather(first, four.cancel("two"))
    return [*found, before, len(cancelled)]


async def transform(env):
    def twice(chunk, controller):
        controller.enqueue(chunk)
        controller.enqueue(chunk)

    made = TransformStream.new({"transform": twice, "flush": lambda controller: controller.enqueue("end")})
    return await rest(getattr(ReadableStream, "from")(["a", "b"]).pipeThrough(made))


async def decoder(env):
    data = "5 € ü".encode()
    cut = getattr(ReadableStream, "from")([data[:3], data[3:]]).pipeThrough(TextDecoderStream.new())
    return "".join(await rest(cut))


async def identity(env):
    made = IdentityTransformStream.new()
    writer, reader = made.writable.getWriter(), made.readable.getReader()
    writing = writer.write(b"x")
    before = await soon_or(writing)
    read = (await reader.read()).value.decode()
    after = await soon_or(writing)
    closing = writer.close()
    return [before, read, after, (await reader.read()).done, await soon_or(closing)]


async def errors(env):
    def late(controller):
        controller.close()
        controller.enqueue("late")

    async def fail(controller):
        raise RangeError.new("broken")

    def fail_at_once(controller):
        controller.error(RangeError.new("broken"))

    twice = ReadableStream.new()
    twice.getReader()
    return [
        await tried(ReadableStream.new({"start": fail_at_once}).getReader().read),
        await tried(ReadableStream.new({"pull": fail}).getReader().read),
        await tried(lambda: ReadableStream.new({"start": late}).getReader().read()),
        await tried(twice.getReader),
        await tried(twice.cancel),
        await tried(lambda: Response(twice)),
    ]


async def body(env):
    response = Response(source("a", "b"))
    copy = response.clone()
    return [await response.text(), await copy.text(), response.bodyUsed, Response(None).body]


async def of_another_object(env):
    other = env.SUBJECT.getByName("streams")
    answer = await other.fetch("http://there/")
    reader, found = answer.body.getReader(), []
    for _ in range(3):
        found.append((await reader.read()).value.decode())
        found.append((await other.run([["count"]]))[0])
    found.append((await reader.read()).done)
    echoed = await other.fetch("http://there/", method="POST", body=source("a", "bc"))
    return [*found, await echoed.text()]


STREAMS = {
    "steered": steered,
    "pulled to its end": pulled_to_its_end,
    "enqueued over time": enqueued_over_time,
    "tee": tee,
    "transform": transform,
    "decoder": decoder,
    "identity": identity,
    "errors": errors,
    "body": body,
    "of another object": of_another_object,
}


class Subject(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.count = 0
        self.log = env.LOG.getByName("log of " + ctx.id.name)
        ctx.blockConcurrencyWhile(self.prepare)

    async def prepare(self):
        program = await self.log.program("constructor", 1)
        if program:
            await self.perform(program)

    async def fetch(self, request):
        if request.body:
            return Response(request.body)
        made = []

        async def pull(controller):
            if len(made) == 3:
                controller.close()
                return
            await self.ctx.storage.put("made", len(made))
            controller.enqueue(str(len(made)).encode())
            made.append(1)

        return Response(ReadableStream.new({"pull": pull}, {"highWaterMark": 0}))

    async def run(self, program):
        return await self.perform(program)

    async def alarm(self, info):
        event = ["alarm", info["retryCount"], info["isRetry"], await self.log.label(info["scheduledTime"])]
        number = await self.log.add(event)
        await self.perform(await self.log.program("alarm", number), True)

    async def perform(self, program, is_alarm=False):
        answers = []
        for step in program:
            try:
                answers.append(shown(await self.step(step, self.ctx.storage)))
            except Thrown as error:
                raise Exception(str(error)) from None
            except Exception as error:
                answers.append({"error": getattr(error, "name", type(error).__name__)})
        if is_alarm and answers:
            await self.log.add(["answers", *answers])
        return answers

    async def step(self, step, storage):
        op, *args = step
        match op:
            case "put":
                await storage.put(args[0], args[1])
            case "put all":
                await storage.put(args[0])
            case "put unawaited":
                storage.put(args[0], args[1])
            case "put special":
                await storage.put(args[0], SPECIAL[args[1]]())
            case "get":
                return await storage.get(args[0])
            case "delete":
                return await storage.delete(args[0])
            case "list":
                return await storage.list(args[0] if args else None)
            case "list nan":
                return await storage.list(limit=math.nan)
            case "delete all":
                await storage.deleteAll()
            case "sync":
                await storage.sync()
            case "set alarm" | "set alarm unawaited":
                at = now() + args[1]
                await self.log.mark(args[0], at)
                done = storage.setAlarm(at)
                if op == "set alarm":
                    await done
            case "set alarm again":
                await storage.setAlarm(await storage.getAlarm() + args[0])
            case "set raw alarm":
                await storage.setAlarm(RAW[args[0]])
            case "set past alarm":
                await storage.setAlarm(args[0])
            case "set date alarm":
                at = now() + args[1]
                await self.log.mark(args[0], at)
                await storage.setAlarm(datetime.fromtimestamp(at / 1000, UTC))
            case "get alarm":
                at = await storage.getAlarm()
                return None if at is None else await self.log.label(at)
            case "delete alarm":
                await storage.deleteAlarm()
            case "throw":
                raise Thrown(args[0])
            case "sleep":
                await asyncio.sleep(args[0] / 1000)
            case "say":
                await self.log.add(["say", args[0]])
            case "count":
                self.count += 1
                return self.count
            case "increment":
                value = await storage.get(args[0]) or 0
                if len(args) > 1:
                    await asyncio.sleep(args[1] / 1000)
                await storage.put(args[0], value + 1)
            case "transaction":
                return await self.transact(storage, args[0], args[1])
            case "late transaction":
                return await self.late(storage, args[0])
            case "block":
                return await self.block(storage, args[0], args[1])
            case "abort":
                self.ctx.abort(args[0])
            case "abort for good":
                self.ctx.abort(args[0], {"retryAlarm": False})
            case "set alarm with":
                at = now() + args[1]
                await self.log.mark(args[0], at)
                await storage.setAlarm(at, args[2])
            case "put with":
                await storage.put(args[0], args[1], args[2])
            case "wait until":
                self.ctx.waitUntil(self.afterwards(args[0], args[1]))
            case "wait until sql":
                self.ctx.waitUntil(self.exec_afterwards(args[0], args[1]))
            case "name":
                return self.ctx.id.name
            case "ids":
                return self.ids()
            case "bad id":
                self.env.SUBJECT.idFromString(args[0])
            case "id of another class":
                self.env.SUBJECT.idFromString(self.env.LOG.idFromName("x").toString())
            case "call":
                return await self.env.SUBJECT.getByName(args[0]).run(args[1])
            case "call unknown":
                return await self.env.SUBJECT.getByName(args[0]).nothing()
            case "stream":
                return await STREAMS[args[0]](self.env)
            case "bookmark":
                return await storage.getCurrentBookmark()
            case "bookmark for":
                return await storage.getBookmarkForTime(args[0])
            case "restore":
                return await storage.onNextSessionRestoreBookmark(args[0])
            case _:
                return self.step_sync(step)
        return None

    def step_sync(self, step):
        op, *args = step
        sql, kv = self.ctx.storage.sql, self.ctx.storage.kv
        match op:
            case "sql":
                return list(sql.exec(args[0], *(bound(one) for one in args[1:])))
            case "cursor":
                return self.drive(sql.exec(args[0]), args[1])
            case "size":
                return sql.databaseSize > args[0]
            case "kv get":
                return kv.get(args[0])
            case "kv put":
                kv.put(args[0], bound(args[1]))
            case "kv delete":
                return kv.delete(args[0])
            case "kv list":
                return list(kv.list(args[0] if args else None))
            case "transaction sync":
                return self.transact_sync(args[0], args[1])
            case "throw":
                raise Thrown(args[0])
            case _:
                raise Exception("no step " + op)
        return None

    def drive(self, cursor, actions):
        answers = []
        for action in actions:
            try:
                answers.append(shown(self.step_sync(action) if isinstance(action, list) else CURSOR[action](cursor)))
            except Exception as error:
                answers.append({"error": getattr(error, "name", type(error).__name__)})
        return answers

    def transact_sync(self, program, end):
        answers = []

        def closure():
            for step in program:
                try:
                    answers.append(shown(self.step_sync(step)))
                except Exception as error:
                    answers.append({"error": getattr(error, "name", type(error).__name__)})
            if end == "throw":
                error = ValueError("out of the transaction")
                error.name = "RangeError"
                raise error
            return "done"

        return [self.ctx.storage.transactionSync(closure), *answers]

    async def afterwards(self, ms, fails):
        await asyncio.sleep(ms / 1000)
        await self.ctx.storage.put("afterwards", 1)
        if fails:
            raise Exception("nobody hears")

    async def exec_afterwards(self, ms, query):
        await asyncio.sleep(ms / 1000)
        try:
            self.ctx.storage.sql.exec(query)
        except Exception as error:
            await self.log.add(["say", error.name])

    async def transact(self, storage, program, end):
        answers = []

        async def closure(txn):
            for step in program:
                try:
                    answers.append(shown(await self.step(step, txn)))
                except Thrown:
                    raise
                except Exception as error:
                    answers.append({"error": getattr(error, "name", type(error).__name__)})
            if end == "throw":
                error = ValueError("out of the transaction")
                error.name = "RangeError"
                raise error
            if end == "rollback":
                txn.rollback()
            if end == "rollback twice":
                txn.rollback()
                txn.rollback()
            return "done"

        return [await self.ctx.storage.transaction(closure), *answers]

    async def late(self, storage, rolls_back):
        kept = []

        async def closure(txn):
            kept.append(txn)
            await txn.put("in", 1)
            if rolls_back:
                txn.rollback()

        await storage.transaction(closure)
        return await kept[0].get("in")

    async def block(self, storage, program, message):
        async def closure():
            answers = [shown(await self.step(step, storage)) for step in program]
            if message:
                raise Exception(message)
            return answers

        return await self.ctx.blockConcurrencyWhile(closure)

    def ids(self):
        space = self.env.SUBJECT
        one = space.idFromName("one")
        return [
            one.equals(space.idFromName("one")),
            one.equals(space.idFromName("two")),
            one.name,
            len(one.toString()),
            space.idFromString(one.toString()).equals(one),
            space.idFromString(one.toString()).name,
            space.newUniqueId().name,
            space.newUniqueId().equals(space.newUniqueId()),
            space.getByName("one").name,
            space.get(one).id.equals(one),
            len(space.idFromName("").toString()),
        ]


class Plain(DurableObject):
    async def tell(self, what):
        try:
            if what == "set":
                await self.ctx.storage.setAlarm(now() + 1000)
            if what == "get":
                return await self.ctx.storage.getAlarm()
            if what == "delete":
                await self.ctx.storage.deleteAlarm()
        except Exception as error:
            return {"error": error.name}
        return "fine"


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.headers.get("upgrade"):
            return await self.env.TALK.getByName(unquote(urlsplit(request.url).path[1:])).fetch(request)
        asked = await request.json()
        name, action, value = asked["object"], asked["action"], asked.get("value")
        log = self.env.LOG.getByName("log of " + name)
        try:
            if action == "plan":
                await log.plan(value)
                return Response.json({"done": True})
            if action == "events":
                return Response.json({"events": await log.events()})
            if action == "rpc":
                return Response.json({"answers": await talk(self.env, name, value)})
            if action == "plain":
                return Response.json({"answers": await self.env.PLAIN.getByName(name).tell(value)})
            return Response.json({"answers": await self.env.SUBJECT.getByName(name).run(value)})
        except Exception as error:
            name = getattr(error, "name", "Error")
            told = {"raised": name, "message": getattr(error, "message", str(error))}
            if getattr(error, "durableObjectReset", False):
                told["reset"] = True
            return Response.json(told)
