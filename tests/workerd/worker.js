// The runtime's side of the comparison: one object that does what a scenario says. python/entry.py is its twin.
import { DurableObject } from "cloudflare:workers";
import { Talk, talk } from "./talk.js";
export { Talk };

export class Log extends DurableObject {
  async add(event) {
    const events = (await this.ctx.storage.get("events")) ?? [];
    events.push(event);
    await this.ctx.storage.put("events", events);
    return events.filter((one) => one[0] === event[0]).length;
  }
  async events() {
    return (await this.ctx.storage.get("events")) ?? [];
  }
  async plan(programs) {
    await this.ctx.storage.put("programs", programs);
  }
  async program(kind, number) {
    const programs = (await this.ctx.storage.get("programs")) ?? {};
    const found = programs[kind] ?? [];
    return found[Math.min(number, found.length) - 1] ?? [];
  }
  async mark(label, at) {
    await this.ctx.storage.put("at:" + label, at);
  }
  async label(at) {
    for (const [key, value] of await this.ctx.storage.list({ prefix: "at:" })) {
      if (value === at) return key.slice(3);
    }
    return Math.abs(at - Date.now()) < 1500 ? "about now" : "another time";
  }
}

const RAW = {
  nan: NaN, infinite: Infinity, zero: 0, negative: -1, half: 0.5, text: "1893456000000", nothing: null, truth: true,
  list: [1], object: {}, far: 9.3e12, "bad date": new Date(NaN),
};
const SPECIAL = {
  date: () => new Date(1893456000123), bytes: () => new Uint8Array([0, 1, 255]), "set": () => new Set([1, 2]),
  nan: () => NaN, big: () => 2n ** 70n, nested: () => ({ a: [1, { b: null }], "": true }), empty: () => "",
  "function": () => () => 1, "null": () => null,
};

function shown(value) {
  if (value === undefined || value === null) return null;
  if (value instanceof Map) return { map: [...value].map(([key, one]) => [key, shown(one)]) };
  if (value instanceof Set) return { set: [...value].sort() };
  if (value instanceof Date) return { date: value.getTime() };
  if (value instanceof Uint8Array) return { bytes: [...value] };
  if (value instanceof ArrayBuffer) return { bytes: [...new Uint8Array(value)] };
  if (typeof value === "bigint") return { big: value.toString() };
  if (typeof value === "number" && Number.isNaN(value)) return { nan: true };
  if (Array.isArray(value)) return value.map(shown);
  if (typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, one]) => [k, shown(one)]));
  return value;
}

class Thrown extends Error {}

const bound = (value) => (value?.special ? SPECIAL[value.special]() : value);

const CURSOR = {
  next: (cursor) => { const { done, value } = cursor.next(); return [!!done, value]; },
  rest: (cursor) => [...cursor],
  array: (cursor) => cursor.toArray(),
  one: (cursor) => cursor.one(),
  raw: (cursor) => [...cursor.raw()],
  "raw array": (cursor) => cursor.raw().toArray(),
  columns: (cursor) => cursor.columnNames,
  read: (cursor) => cursor.rowsRead,
  written: (cursor) => cursor.rowsWritten,
};

// What streams do, each a program of its own.
const rest = async (stream) => { const found = []; for await (const chunk of stream) found.push(chunk); return found; };
const text = (bytes) => new TextDecoder().decode(bytes);
const tried = async (work) => { try { return await work(); } catch (error) { return error.name; } };
const soonOr = (promise) => Promise.race([promise.then(() => "done"), new Promise((done) => setTimeout(done, 50, "pending"))]);

const STREAMS = {
  async steered() {
    const log = [];
    const stream = new ReadableStream({
      start() { log.push("start"); },
      pull(controller) { log.push("pull"); controller.enqueue(log.length); },
      cancel(reason) { log.push(reason); },
    }, { highWaterMark: 0 });
    const reader = stream.getReader();
    const read = [(await reader.read()).value, (await reader.read()).value, stream.locked];
    await reader.cancel("enough");
    return [...read, (await reader.read()).done, log];
  },
  async "pulled to its end"() {
    let n = 0;
    const stream = new ReadableStream({ pull(controller) { controller.enqueue(n++); if (n === 3) controller.close(); } });
    return await rest(stream);
  },
  async "enqueued over time"() {
    return await rest(new ReadableStream({
      async start(controller) {
        for (let n = 0; n < 3; n++) { controller.enqueue(n); await new Promise((done) => setTimeout(done, 20)); }
        controller.close();
      },
    }));
  },
  async tee() {
    let cancelled = 0;
    const [one, two] = ReadableStream.from(["a", "b"]).tee();
    const found = [await rest(one), await rest(two)];
    const [three, four] = new ReadableStream({ pull(c) { c.enqueue("x"); }, cancel() { cancelled++; } }).tee();
    const first = three.cancel("one");
    const before = cancelled;
    await Promise.all([first, four.cancel("two")]);
    return [...found, before, cancelled];
  },
  async transform() {
    const twice = new TransformStream({
      transform(chunk, controller) { controller.enqueue(chunk); controller.enqueue(chunk); },
      flush(controller) { controller.enqueue("end"); },
    });
    return await rest(ReadableStream.from(["a", "b"]).pipeThrough(twice));
  },
  async decoder() {
    const bytes = new TextEncoder().encode("5 € ü");
    const cut = ReadableStream.from([bytes.slice(0, 3), bytes.slice(3)]).pipeThrough(new TextDecoderStream());
    return (await rest(cut)).join("");
  },
  async identity() {
    const { readable, writable } = new IdentityTransformStream();
    const writer = writable.getWriter(), reader = readable.getReader();
    const writing = writer.write(new TextEncoder().encode("x"));
    const before = await soonOr(writing);
    const read = text((await reader.read()).value);
    const after = await soonOr(writing);
    const closing = writer.close();
    return [before, read, after, (await reader.read()).done, await soonOr(closing)];
  },
  async errors() {
    const broken = new ReadableStream({ start(controller) { controller.error(new RangeError("broken")); } });
    const closed = () => new ReadableStream({ start(controller) { controller.close(); controller.enqueue("late"); } });
    const raising = new ReadableStream({ async pull() { throw new RangeError("broken"); } });
    const twice = new ReadableStream();
    twice.getReader();
    return [
      await tried(() => broken.getReader().read()), await tried(() => raising.getReader().read()),
      await tried(() => closed().getReader().read()), await tried(() => twice.getReader()), await tried(() => twice.cancel()),
      await tried(() => new Response(twice)),
    ];
  },
  async body() {
    const bytes = (words) => ReadableStream.from(words.map((word) => new TextEncoder().encode(word)));
    const response = new Response(bytes(["a", "b"]));
    const copy = response.clone();
    return [await response.text(), await copy.text(), response.bodyUsed, new Response(null).body];
  },
  async "of another object"(env) {
    const other = env.SUBJECT.getByName("streams");
    const answer = await other.fetch("http://there/");
    const reader = answer.body.getReader(), found = [];
    for (let n = 0; n < 3; n++) {
      found.push(text((await reader.read()).value));
      found.push((await other.run([["count"]]))[0]);
    }
    found.push((await reader.read()).done);
    const upload = ReadableStream.from(["a", "bc"].map((word) => new TextEncoder().encode(word)));
    const echoed = await other.fetch("http://there/", { method: "POST", body: upload });
    return [...found, await echoed.text()];
  },
};

export class Subject extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.count = 0;
    this.log = env.LOG.getByName("log of " + ctx.id.name);
    ctx.blockConcurrencyWhile(async () => {
      const program = await this.log.program("constructor", 1);
      if (program.length) await this.perform(program);
    });
  }

  async fetch(request) {
    if (request.body) return new Response(request.body);
    const storage = this.ctx.storage;
    let n = 0;
    return new Response(new ReadableStream({
      async pull(controller) {
        if (n === 3) return controller.close();
        await storage.put("made", n);
        controller.enqueue(new TextEncoder().encode(String(n++)));
      },
    }, { highWaterMark: 0 }));
  }

  async run(program) {
    return await this.perform(program);
  }

  async alarm(info) {
    const event = ["alarm", info.retryCount, info.isRetry, await this.log.label(info.scheduledTime)];
    const number = await this.log.add(event);
    await this.perform(await this.log.program("alarm", number), true);
  }

  async perform(program, isAlarm) {
    const answers = [];
    for (const step of program) {
      try {
        answers.push(shown(await this.step(step, this.ctx.storage)));
      } catch (error) {
        if (error instanceof Thrown) throw new Error(error.message);
        answers.push({ error: error.name });
      }
    }
    if (isAlarm && answers.length) await this.log.add(["answers", ...answers]);
    return answers;
  }

  async step([op, ...args], storage) {
    switch (op) {
      case "put": await storage.put(args[0], args[1]); return;
      case "put all": await storage.put(args[0]); return;
      case "put unawaited": storage.put(args[0], args[1]); return;
      case "put special": await storage.put(args[0], SPECIAL[args[1]]()); return;
      case "get": return await storage.get(args[0]);
      case "delete": return await storage.delete(args[0]);
      case "list": return await storage.list(args[0]);
      case "list nan": return await storage.list({ limit: NaN });
      case "delete all": await storage.deleteAll(); return;
      case "sync": await storage.sync(); return;
      case "set alarm": case "set alarm unawaited": {
        const at = Date.now() + args[1];
        await this.log.mark(args[0], at);
        if (op === "set alarm") await storage.setAlarm(at);
        else storage.setAlarm(at);
        return;
      }
      case "set alarm again": await storage.setAlarm((await storage.getAlarm()) + args[0]); return;
      case "set raw alarm": await storage.setAlarm(RAW[args[0]]); return;
      case "set past alarm": await storage.setAlarm(args[0]); return;
      case "set date alarm": {
        const at = Date.now() + args[1];
        await this.log.mark(args[0], at);
        await storage.setAlarm(new Date(at));
        return;
      }
      case "get alarm": {
        const at = await storage.getAlarm();
        return at === null ? null : await this.log.label(at);
      }
      case "delete alarm": await storage.deleteAlarm(); return;
      case "throw": throw new Thrown(args[0]);
      case "sleep": await new Promise((done) => setTimeout(done, args[0])); return;
      case "say": await this.log.add(["say", args[0]]); return;
      case "count": this.count += 1; return this.count;
      case "increment": {
        const value = (await storage.get(args[0])) ?? 0;
        if (args[1]) await new Promise((done) => setTimeout(done, args[1]));
        await storage.put(args[0], value + 1);
        return;
      }
      case "transaction": return await this.transact(storage, args[0], args[1]);
      case "late transaction": {
        let kept;
        await storage.transaction(async (txn) => { kept = txn; await txn.put("in", 1); if (args[0]) txn.rollback(); });
        return await kept.get("in");
      }
      case "block": return await this.ctx.blockConcurrencyWhile(async () => {
        const answers = [];
        for (const step of args[0]) answers.push(shown(await this.step(step, storage)));
        if (args[1]) throw new Error(args[1]);
        return answers;
      });
      case "abort": this.ctx.abort(args[0]); return;
      case "abort for good": this.ctx.abort(args[0], { retryAlarm: false }); return;
      case "set alarm with": {
        const at = Date.now() + args[1];
        await this.log.mark(args[0], at);
        await storage.setAlarm(at, args[2]);
        return;
      }
      case "put with": await storage.put(args[0], args[1], args[2]); return;
      case "wait until": this.ctx.waitUntil(this.afterwards(args[0], args[1])); return;
      case "wait until sql": this.ctx.waitUntil(this.execAfterwards(args[0], args[1])); return;
      case "name": return this.ctx.id.name;
      case "ids": return this.ids();
      case "bad id": this.env.SUBJECT.idFromString(args[0]); return;
      case "id of another class":
        this.env.SUBJECT.idFromString(this.env.LOG.idFromName("x").toString());
        return;
      case "call": return await this.env.SUBJECT.getByName(args[0]).run(args[1]);
      case "call unknown": return await this.env.SUBJECT.getByName(args[0]).nothing();
      case "stream": return await STREAMS[args[0]](this.env);
      case "bookmark": return await storage.getCurrentBookmark();
      case "bookmark for": return await storage.getBookmarkForTime(args[0]);
      case "restore": return await storage.onNextSessionRestoreBookmark(args[0]);
      default: return this.stepSync([op, ...args]);
    }
  }

  stepSync([op, ...args]) {
    const { sql, kv } = this.ctx.storage;
    switch (op) {
      case "sql": return [...sql.exec(args[0], ...args.slice(1).map(bound))];
      case "cursor": return this.drive(sql.exec(args[0]), args[1]);
      case "size": return sql.databaseSize > args[0];
      case "kv get": return kv.get(args[0]);
      case "kv put": return kv.put(args[0], bound(args[1]));
      case "kv delete": return kv.delete(args[0]);
      case "kv list": return [...kv.list(args[0])];
      case "transaction sync": return this.transactSync(args[0], args[1]);
      case "throw": throw new Thrown(args[0]);
      default: throw new Error("no step " + op);
    }
  }

  drive(cursor, actions) {
    return actions.map((action) => {
      try {
        return shown(Array.isArray(action) ? this.stepSync(action) : CURSOR[action](cursor));
      } catch (error) {
        return { error: error.name };
      }
    });
  }

  transactSync(program, end) {
    const answers = [];
    const result = this.ctx.storage.transactionSync(() => {
      for (const step of program) {
        try {
          answers.push(shown(this.stepSync(step)));
        } catch (error) {
          answers.push({ error: error.name });
        }
      }
      if (end === "throw") throw new RangeError("out of the transaction");
      return "done";
    });
    return [result, ...answers];
  }

  async afterwards(ms, fails) {
    await new Promise((done) => setTimeout(done, ms));
    await this.ctx.storage.put("afterwards", 1);
    if (fails) throw new Error("nobody hears");
  }

  async execAfterwards(ms, query) {
    await new Promise((done) => setTimeout(done, ms));
    try {
      this.ctx.storage.sql.exec(query);
    } catch (error) {
      await this.log.add(["say", error.name]);
    }
  }

  async transact(storage, program, end) {
    const answers = [];
    const result = await this.ctx.storage.transaction(async (txn) => {
      for (const step of program) {
        try {
          answers.push(shown(await this.step(step, txn)));
        } catch (error) {
          if (error instanceof Thrown) throw error;
          answers.push({ error: error.name });
        }
      }
      if (end === "throw") throw new RangeError("out of the transaction");
      if (end === "rollback") txn.rollback();
      if (end === "rollback twice") { txn.rollback(); txn.rollback(); }
      return "done";
    });
    return [result, ...answers];
  }

  ids() {
    const space = this.env.SUBJECT;
    const one = space.idFromName("one");
    return [
      one.equals(space.idFromName("one")), one.equals(space.idFromName("two")), one.name, one.toString().length,
      space.idFromString(one.toString()).equals(one), space.idFromString(one.toString()).name ?? null,
      space.newUniqueId().name ?? null, space.newUniqueId().equals(space.newUniqueId()),
      space.getByName("one").name, space.get(one).id.equals(one), space.idFromName("").toString().length,
    ];
  }
}

export class Plain extends DurableObject {
  async tell(what) {
    try {
      if (what === "set") await this.ctx.storage.setAlarm(Date.now() + 1000);
      if (what === "get") return await this.ctx.storage.getAlarm();
      if (what === "delete") await this.ctx.storage.deleteAlarm();
    } catch (error) {
      return { error: error.name };
    }
    return "fine";
  }
}

export default {
  async fetch(request, env) {
    if (request.headers.get("upgrade")) {
      return await env.TALK.getByName(decodeURIComponent(new URL(request.url).pathname.slice(1))).fetch(request);
    }
    const { object, action, value } = await request.json();
    const log = env.LOG.getByName("log of " + object);
    try {
      if (action === "plan") { await log.plan(value); return Response.json({ done: true }); }
      if (action === "events") return Response.json({ events: await log.events() });
      if (action === "rpc") return Response.json({ answers: await talk(env, object, value) });
      if (action === "plain") return Response.json({ answers: await env.PLAIN.getByName(object).tell(value) });
      return Response.json({ answers: await env.SUBJECT.getByName(object).run(value) });
    } catch (error) {
      const told = { raised: error.name, message: error.message };
      if (error.durableObjectReset) told.reset = true;
      return Response.json(told);
    }
  },
};
