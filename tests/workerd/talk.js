// What is said to an object by RPC and over sockets. python/talk.py is its twin.
import { DurableObject, RpcTarget } from "cloudflare:workers";

const tried = async (work) => { try { return await work(); } catch (error) { return error.name; } };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

class Cart extends RpcTarget {
  constructor(owner) { super(); this.owner = owner; this.secret = "mine"; }
  get size() { return this.owner.items.length; }
  get later() { return sleep(10).then(() => "later"); }
  async add(item) {
    this.owner.items.push(item);
    await this.owner.ctx.storage.put("items", this.owner.items);
    return this;
  }
  async fail() { await this.owner.ctx.storage.put("failed", 1); throw new RangeError("not there"); }
  stop() { this.owner.ctx.abort("stopped"); }
}

class Own {}

export class Talk extends DurableObject {
  constructor(ctx, env) { super(ctx, env); this.items = []; this.hidden = 1; }

  get colour() { return "green"; }
  get later() { return sleep(10).then(() => "later"); }
  open() { return new Cart(this); }
  opened() { return { cart: new Cart(this), note: ["fresh", () => "called"] }; }
  counter() { let n = 0; return () => ++n; }
  double(value) { this.items.push(value); return value * 2; }
  half(value) { return value / 2; }
  async each(values, call) { const found = []; for (const value of values) found.push(await call(value)); return found; }
  async ask(other, value) { return await other.each([value], (one) => this.double(one)); }
  other(name) { return this.env.TALK.getByName(name); }
  who() { return this.ctx.id.name; }
  said() { return this.items; }
  echo(value) { return value; }
  parts() { return { response: new Response("text", { status: 201 }), list: [new Headers({ a: "1" })] }; }
  async echoLater(value) { await sleep(20); return value; }
  fail() { throw new RangeError("theirs"); }
  own() { return new Own(); }
  async kept() { return [...(await this.ctx.storage.list())].map(([key, value]) => [key, value]); }
  async tags(list) {
    return await tried(() => { this.ctx.acceptWebSocket(new WebSocketPair()[1], list); return "accepted"; });
  }
  limits() {
    const long = "x".repeat(2049);
    const attach = (size) => { const ws = new WebSocketPair()[1]; this.ctx.acceptWebSocket(ws); ws.serializeAttachment("x".repeat(size)); return "kept"; };
    return Promise.all([
      tried(() => attach(16000)), tried(() => attach(17000)), tried(() => this.ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(long, "a")) ?? "set"),
      tried(() => this.ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("a", long)) ?? "set"), tried(() => this.ctx.getTags(new WebSocketPair()[1])),
      tried(() => { const ws = new WebSocketPair()[1]; this.ctx.acceptWebSocket(ws); this.ctx.acceptWebSocket(ws); }),
      tried(() => this.ctx.setHibernatableWebSocketEventTimeout(604800001) ?? "set"),
      tried(() => this.ctx.setHibernatableWebSocketEventTimeout(5000) ?? "set"),
      tried(() => this.ctx.getHibernatableWebSocketEventTimeout()),
    ]);
  }

  async fetch(request) {
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server, ["all", "one"]);
    this.ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    server.send("welcome");
    return new Response(null, { status: 101, webSocket: client });
  }

  async webSocketMessage(ws, message) {
    if (typeof message !== "string") { ws.send(message); return; }
    const [op, ...args] = message.split(" ");
    switch (op) {
      case "raise": await this.ctx.storage.put("raised", 1); throw new Error("stays open");
      case "close": ws.close(Number(args[0]), args[1]); return;
      case "bye": ws.close(); return;
      case "twice": {
        ws.close(4000, "first");
        const after = [await tried(() => ws.send("more")), await tried(() => ws.close(4001, "second") ?? "closed"), ws.readyState];
        await this.ctx.storage.put("after", after);
        return;
      }
      case "bad": ws.send(JSON.stringify([
        await tried(() => ws.close(999)), await tried(() => ws.close(1006)),
        ws.readyState,
      ])); return;
      case "tags": ws.send(JSON.stringify([
        this.ctx.getTags(ws), this.ctx.getWebSockets("one").length, this.ctx.getWebSockets("none").length, ws.readyState,
      ])); return;
      case "attach": ws.serializeAttachment({ a: args }); return;
      case "attached": ws.send(JSON.stringify(ws.deserializeAttachment())); return;
      case "answered": {
        const at = this.ctx.getWebSocketAutoResponseTimestamp(ws);
        ws.send(at === null ? "never" : Math.abs(Date.now() - at.getTime()) < 5000 ? "just now" : "another time");
        return;
      }
      case "silent": this.ctx.setWebSocketAutoResponse(); ws.send("silent"); return;
      case "count": for (let n = 0; n < 3; n++) { ws.send(String(n)); await sleep(50); } return;
      case "slow": await sleep(Number(args[0])); ws.send("slow"); return;
      case "limit": this.ctx.setHibernatableWebSocketEventTimeout(Number(args[0])); ws.send("limited"); return;
      case "all": for (const one of this.ctx.getWebSockets()) one.send(args[0]); return;
      case "same": {
        const known = this.ctx.getWebSockets();
        ws.send(JSON.stringify([known.length, known.includes(ws)]));
        return;
      }
      default: ws.send(message);
    }
  }

  async webSocketClose(ws, code, reason, wasClean) {
    await this.ctx.storage.put("closed", [code, reason, wasClean]);
  }
}

const RPC = {
  "a property": async (o) => [await o.colour, await o.later],
  "an attribute of the instance": (o) => tried(() => o.hidden),
  "what is not there": async (o) => [await tried(() => o.nowhere), await tried(() => o.nowhere())],
  "a property that is called": (o) => tried(() => o.colour()),
  "a method that is not called": async (o) => { const half = await o.half; return [await half(4), await half(6)]; },
  "a function that is called back": async (o) => {
    const heard = [];
    return [await o.each([1, 2], (value) => { heard.push(value); return { got: value }; }), heard];
  },
  "a function as an answer": async (o) => { const next = await o.counter(); return [await next(), await next(), await (await o.counter())()]; },
  "a function that throws": (o) => tried(() => o.each([1], () => { throw new RangeError("mine"); })),
  "a function that calls the object": (o) => o.each([1, 2], (value) => o.double(value)),
  "a target": async (o) => {
    const cart = await o.open();
    const again = await cart.add("tea");
    return [await again.size, await cart.size, await cart.later, await o.kept()];
  },
  "an attribute of a target": async (o) => { const cart = await o.open(); return await tried(() => cart.secret); },
  "a target that throws": async (o) => { const cart = await o.open(); return [await tried(() => cart.fail()), await o.kept()]; },
  "an answer before it is there": (o) => o.open().add("tea").size,
  "calls on an answer in order": async (o) => {
    const cart = o.open();
    await Promise.all(["a", "b", "c"].map((one) => cart.add(one)));
    return await o.said();
  },
  "what is in an answer before it is there": async (o) => {
    const opened = await o.opened();
    return [await o.opened().cart.add("tea").size, opened.note[0], await opened.note[1](), await opened.cart.size];
  },
  "an answer that never is there": async (o) => [await tried(() => o.open().fail().size), await tried(() => o.fail().size)],
  "a stub as an argument": async (o, other, env) => [await o.ask(other, 4), await o.said(), await other.said()],
  "a stub as an answer": async (o) => { const found = await o.other("third"); return [await found.who(), await o.other("fourth").who()]; },
  "given back": async (o) => { const cart = await o.open(); cart[Symbol.dispose](); return await tried(() => cart.size); },
  "a duplicate of what is given back": async (o) => {
    const cart = await o.open();
    const copy = cart.dup();
    cart[Symbol.dispose]();
    return [await copy.size, await tried(() => cart.dup())];
  },
  "a target after a reset": async (o, other, env) => {
    const cart = await o.open();
    const found = [await tried(() => cart.stop()), await tried(() => cart.size)];
    return [...found, await env.TALK.getByName(await other.who() + "'s").open().size];
  },
  "what can't travel": async (o) => [await tried(() => o.echo(new Own())), await tried(() => o.own()), await tried(() => o.echo([{ a: new Own() }]))],
  "requests and headers within data": async (o) => {
    const { response, list } = await o.parts();
    return [await response.text(), response.status, list[0].get("a")];
  },
  "arguments as they were": async (o) => { const value = { a: [1] }; const echo = o.echoLater(value); value.a.push(2); return await echo; },
  "an error's name and words": async (o) => { try { await o.fail(); } catch (error) { return [error.name, error.message, error.remote]; } },
  "tags": async (o) => [
    await o.tags(["x".repeat(257)]), await o.tags(["x".repeat(256)]), await o.tags(["a", "a"]),
    await o.tags([..."abcdefghij"]), await o.tags([..."abcdefghijk"]),
  ],
  "a tag that is empty": (o) => o.tags([""]),
  "limits of sockets": (o) => o.limits(),
  "kept": (o) => o.kept(),
};

export async function talk(env, name, program) {
  return await RPC[program](env.TALK.getByName(name), env.TALK.getByName("other of " + name), env);
}
