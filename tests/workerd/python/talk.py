"""What is said to an object by RPC and over sockets. ../talk.js is its twin."""

import asyncio
import json
import time

from js import Headers, Object, RangeError, WebSocketPair, WebSocketRequestResponsePair
from workers import DurableObject, Response, RpcTarget


async def tried(work):
    try:
        found = work()
        return await found if hasattr(found, "__await__") else found
    except Exception as error:
        return getattr(error, "name", type(error).__name__)


class Cart(RpcTarget):
    def __init__(self, owner):
        self.owner = owner
        self.secret = "mine"

    @property
    def size(self):
        return len(self.owner.items)

    @property
    async def later(self):
        await asyncio.sleep(0.01)
        return "later"

    async def add(self, item):
        self.owner.items.append(item)
        await self.owner.ctx.storage.put("items", self.owner.items)
        return self

    async def fail(self):
        await self.owner.ctx.storage.put("failed", 1)
        raise RangeError.new("not there")

    def stop(self):
        self.owner.ctx.abort("stopped")


class Own:
    pass


class Talk(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.items = []
        self.hidden = 1

    colour = "green"

    @property
    async def later(self):
        await asyncio.sleep(0.01)
        return "later"

    def open(self):
        return Cart(self)

    def opened(self):
        return {"cart": Cart(self), "note": ["fresh", lambda: "called"]}

    def counter(self):
        made = []

        def count():
            made.append(1)
            return len(made)

        return count

    def double(self, value):
        self.items.append(value)
        return value * 2

    def half(self, value):
        return value // 2

    async def each(self, values, call):
        return [await call(value) for value in values]

    async def ask(self, other, value):
        return await other.each([value], self.double)

    def other(self, name):
        return self.env.TALK.getByName(name)

    def who(self):
        return self.ctx.id.name

    def said(self):
        return self.items

    def echo(self, value):
        return value

    def parts(self):
        return {"response": Response("text", status=201), "list": [Headers.new({"a": "1"})]}

    async def echo_later(self, value):
        await asyncio.sleep(0.02)
        return value

    def fail(self):
        raise RangeError.new("theirs")

    def own(self):
        return Own()

    async def kept(self):
        return [[key, value] for key, value in (await self.ctx.storage.list()).items()]

    async def tags(self, names):
        def accept():
            self.ctx.acceptWebSocket(pair()[1], names)
            return "accepted"

        return await tried(accept)

    async def limits(self):
        def attach(size):
            ws = pair()[1]
            self.ctx.acceptWebSocket(ws)
            ws.serializeAttachment("x" * size)
            return "kept"

        def twice():
            ws = pair()[1]
            self.ctx.acceptWebSocket(ws)
            self.ctx.acceptWebSocket(ws)

        def answer(one, other):
            self.ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new(one, other))
            return "set"

        def limit(ms):
            self.ctx.setHibernatableWebSocketEventTimeout(ms)
            return "set"

        works = [
            lambda: attach(16000),
            lambda: attach(17000),
            lambda: answer("x" * 2049, "a"),
            lambda: answer("a", "x" * 2049),
            lambda: self.ctx.getTags(pair()[1]),
            twice,
            lambda: limit(604800001),
            lambda: limit(5000),
            self.ctx.getHibernatableWebSocketEventTimeout,
        ]
        return [await tried(work) for work in works]

    async def fetch(self, request):
        client, server = pair()
        self.ctx.acceptWebSocket(server, ["all", "one"])
        self.ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))
        server.send("welcome")
        return Response(None, status=101, web_socket=client)

    async def webSocketMessage(self, ws, message):  # noqa: N802
        if not isinstance(message, str):
            ws.send(message)
            return
        op, *args = message.split(" ")
        match op:
            case "raise":
                await self.ctx.storage.put("raised", 1)
                raise Exception("stays open")
            case "close":
                ws.close(int(args[0]), args[1])
            case "bye":
                ws.close()
            case "twice":
                ws.close(4000, "first")
                after = [
                    await tried(lambda: ws.send("more")),
                    await tried(lambda: ws.close(4001, "second") or "closed"),
                ]
                await self.ctx.storage.put("after", [*after, ws.readyState])
            case "bad":
                wrong = [(999,), (1006,)]
                ws.send(shown([*[await tried(lambda one=one: ws.close(*one)) for one in wrong], ws.readyState]))
            case "tags":
                one, none = self.ctx.getWebSockets("one"), self.ctx.getWebSockets("none")
                ws.send(shown([self.ctx.getTags(ws), len(one), len(none), ws.readyState]))
            case "attach":
                ws.serializeAttachment({"a": args})
            case "attached":
                ws.send(shown(ws.deserializeAttachment()))
            case "answered":
                at = self.ctx.getWebSocketAutoResponseTimestamp(ws)
                is_new = at is not None and abs(time.time() * 1000 - at.getTime()) < 5000
                ws.send("never" if at is None else "just now" if is_new else "another time")
            case "silent":
                self.ctx.setWebSocketAutoResponse()
                ws.send("silent")
            case "count":
                for number in range(3):
                    ws.send(str(number))
                    await asyncio.sleep(0.05)
            case "slow":
                await asyncio.sleep(int(args[0]) / 1000)
                ws.send("slow")
            case "limit":
                self.ctx.setHibernatableWebSocketEventTimeout(int(args[0]))
                ws.send("limited")
            case "all":
                for one in self.ctx.getWebSockets():
                    one.send(args[0])
            case "same":
                known = self.ctx.getWebSockets()
                ws.send(shown([len(known), ws in known]))
            case _:
                ws.send(message)

    async def webSocketClose(self, ws, code, reason, was_clean):  # noqa: N802
        await self.ctx.storage.put("closed", [code, reason, was_clean])


def shown(value):
    return json.dumps(value, separators=(",", ":"))


def pair():
    return Object.values(WebSocketPair.new())


async def called_back(o):
    heard = []

    def hear(value):
        heard.append(value)
        return {"got": value}

    return [await o.each([1, 2], hear), heard]


async def not_called(o):
    half = await o.half
    return [await half(4), await half(6)]


async def function_as_answer(o):
    after = await o.counter()
    return [await after(), await after(), await (await o.counter())()]


def throw(value):
    raise RangeError.new("mine")


async def a_target(o):
    cart = await o.open()
    again = await cart.add("tea")
    return [await again.size, await cart.size, await cart.later, await o.kept()]


async def in_order(o):
    cart = o.open()
    await asyncio.gather(*(cart.add(one) for one in "abc"))
    return await o.said()


async def in_an_answer(o):
    opened = await o.opened()
    size = await o.opened().cart.add("tea").size
    return [size, opened.note[0], await opened.note[1](), await opened.cart.size]


async def given_back(o):
    cart = await o.open()
    cart.dispose()
    return await tried(lambda: cart.size)


async def duplicate(o):
    cart = await o.open()
    copy = cart.dup()
    cart.dispose()
    return [await copy.size, await tried(cart.dup)]


async def after_reset(o, other, env):
    cart = await o.open()
    found = [await tried(lambda: cart.stop()), await tried(lambda: cart.size)]
    return [*found, await env.TALK.getByName(await other.who() + "'s").open().size]


async def within_data(o):
    found = await o.parts()
    return [await found.response.text(), found.response.status, found.list[0].get("a")]


async def as_they_were(o):
    value = {"a": [1]}
    echo = o.echo_later(value)
    value["a"].append(2)
    return await echo


async def words(o):
    try:
        await o.fail()
    except Exception as error:
        return [error.name, error.message, error.remote]


async def of_target(o, use):
    cart = await o.open()
    return await tried(lambda: use(cart))


async def failed_target(o):
    return [await of_target(o, lambda cart: cart.fail()), await o.kept()]


async def listed(*works):
    return [await work for work in works]


TAGS = [["x" * 257], ["x" * 256], ["a", "a"], [*"abcdefghij"], [*"abcdefghijk"]]
RPC = {
    "a property": lambda o, *_: listed(o.colour, o.later),
    "an attribute of the instance": lambda o, *_: tried(lambda: o.hidden),
    "what is not there": lambda o, *_: listed(tried(lambda: o.nowhere), tried(lambda: o.nowhere())),
    "a property that is called": lambda o, *_: tried(lambda: o.colour()),
    "a method that is not called": lambda o, *_: not_called(o),
    "a function that is called back": lambda o, *_: called_back(o),
    "a function as an answer": lambda o, *_: function_as_answer(o),
    "a function that throws": lambda o, *_: tried(lambda: o.each([1], throw)),
    "a function that calls the object": lambda o, *_: o.each([1, 2], lambda value: o.double(value)),
    "a target": lambda o, *_: a_target(o),
    "an attribute of a target": lambda o, *_: of_target(o, lambda cart: cart.secret),
    "a target that throws": lambda o, *_: failed_target(o),
    "an answer before it is there": lambda o, *_: o.open().add("tea").size,
    "calls on an answer in order": lambda o, *_: in_order(o),
    "what is in an answer before it is there": lambda o, *_: in_an_answer(o),
    "an answer that never is there": lambda o, *_: listed(
        tried(lambda: o.open().fail().size), tried(lambda: o.fail().size)
    ),
    "a stub as an argument": lambda o, other, _: asked_with_stub(o, other),
    "a stub as an answer": lambda o, *_: stub_as_answer(o),
    "given back": lambda o, *_: given_back(o),
    "a duplicate of what is given back": lambda o, *_: duplicate(o),
    "a target after a reset": after_reset,
    "what can't travel": lambda o, *_: listed(
        tried(lambda: o.echo(Own())), tried(lambda: o.own()), tried(lambda: o.echo([{"a": Own()}]))
    ),
    "requests and headers within data": lambda o, *_: within_data(o),
    "arguments as they were": lambda o, *_: as_they_were(o),
    "an error's name and words": lambda o, *_: words(o),
    "tags": lambda o, *_: listed(*(o.tags(one) for one in TAGS)),
    "a tag that is empty": lambda o, *_: o.tags([""]),
    "limits of sockets": lambda o, *_: o.limits(),
    "kept": lambda o, *_: o.kept(),
}


async def asked_with_stub(o, other):
    return [await o.ask(other, 4), await o.said(), await other.said()]


async def stub_as_answer(o):
    found = await o.other("third")
    return [await found.who(), await o.other("fourth").who()]


async def talk(env, name, program):
    return await RPC[program](env.TALK.getByName(name), env.TALK.getByName("other of " + name), env)
