// Plays the steps of a scenario of binding_scenarios.py on the real bindings; entry.py is its twin.
import { WorkflowEntrypoint } from "cloudflare:workers";
import { NonRetryableError } from "cloudflare:workflows";

const logs = {};

function told(value) {
  if (value === undefined || value === null) return null;
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return { bytes: [...new Uint8Array(value)] };
  if (value instanceof Map) return { map: [...value].map(([key, one]) => [key, told(one)]) };
  if (Array.isArray(value)) return value.map(told);
  if (typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, told(one)]));
  return value;
}

async function kv(ns, [method, ...args], memory) {
  if (method === "list" && args[0]?.cursor === "$") args[0].cursor = memory.cursor;
  const found = await ns[method](...args);
  if (method !== "list") return told(found);
  memory.cursor = found.cursor;
  return { names: told(found.keys), complete: found.list_complete, more: "cursor" in found };
}

function result({ success, results, meta }) {
  return { success, results: told(results), changes: meta.changes, last: meta.last_row_id, changed: meta.changed_db };
}

async function d1(db, [method, sql, params, more]) {
  const statement = ([text, values]) => (values?.length ? db.prepare(text).bind(...values) : db.prepare(text));
  if (method === "exec") return { count: (await db.exec(sql)).count };
  if (method === "batch") return (await db.batch(sql.map(statement))).map(result);
  const made = statement([sql, params]);
  if (method === "first") return told(await (more === undefined ? made.first() : made.first(more)));
  if (method === "raw") return told(await made.raw(more));
  return result(await made[method]());
}

function object(one) {
  const http = Object.fromEntries(Object.entries(one.httpMetadata ?? {}).filter(([, value]) => value !== undefined));
  return { key: one.key, size: one.size, etag: one.etag, http, custom: told(one.customMetadata ?? {}) };
}

async function r2(bucket, [method, ...args], memory) {
  if (method === "list") {
    if (args[0]?.cursor === "$") args[0].cursor = memory.cursor;
    const found = await bucket.list(...args);
    memory.cursor = found.cursor;
    return { keys: found.objects.map((one) => one.key), groups: found.delimitedPrefixes, more: found.truncated };
  }
  const found = await bucket[method](...args);
  if (!found) return null;
  return found.text ? { ...object(found), text: await found.text() } : object(found);
}

async function queue(q, [method, ...args], memory, name) {
  if (method === "log") return structuredClone(logs[name] ?? []);
  await q[method](...args);
  return null;
}

const errors = { TypeError, Error, NonRetryableError };

// The name that it had before it crossed from one Worker to another.
const nameOf = (error) => error.message.match(/^(\w+Error): /)?.[1] ?? error.name;

// What its params say, line by line.
export class Plan extends WorkflowEntrypoint {
  async run(event, step) {
    const found = [];
    const acts = {
      do: ([name, value, config]) => step.do(name, config ?? {}, async () => value),
      attempts: ([name, wanted, config]) =>
        step.do(name, config, async (ctx) => {
          if (ctx.attempt < wanted) throw new Error("again");
          return ctx.attempt;
        }),
      context: ([name]) => step.do(name, async (ctx) => [ctx.step.name, ctx.step.count, ctx.attempt]),
      fail: ([name, error, message, config]) =>
        step.do(name, config ?? { retries: { limit: 0, delay: 0 } }, async () => {
          throw new errors[error](message);
        }),
      slow: ([name, ms, config]) => step.do(name, config, () => new Promise((resolve) => setTimeout(resolve, ms))),
      sleep: ([name, length]) => step.sleep(name, length),
      until: ([name, ms]) => step.sleepUntil(name, new Date(event.timestamp.valueOf() + ms)),
      wait: async ([name, type, timeout]) => {
        const came = await step.waitForEvent(name, timeout === undefined ? { type } : { type, timeout });
        return [came.type, came.payload];
      },
      event: () => Object.keys(event).sort().slice(0, 3).concat([event.payload.note ?? null]),
      raise: ([error, message]) => {
        throw new errors[error](message);
      },
    };
    for (const [act, ...args] of event.payload.plan ?? []) {
      if (act !== "try") found.push(told(await acts[act](args)));
      else
        try {
          found.push(told(await acts[args[0]](args.slice(1))));
        } catch (error) {
          found.push(`caught ${nameOf(error)}`);
        }
    }
    return found;
  }
}

async function workflow(flow, [method, id, ...args]) {
  if (method === "create") return (await flow.create({ id, ...args[0] })).id;
  if (method === "createBatch") return (await flow.createBatch(id)).map((one) => one.id);
  const instance = await flow.get(id);
  if (method === "get") return instance.id;
  if (method !== "status") return told(await instance[method](...args));
  const { status, output, error } = await instance.status();
  return { status, output: told(output), failed: error ? nameOf(error) : null };
}

const kinds = { kv, d1, r2, queue, workflow };

export default {
  async fetch(request, env) {
    const { kind, name, steps } = await request.json();
    const answers = [];
    const memory = {};
    for (const step of steps) {
      if (step[0] === "wait") {
        await new Promise((resolve) => setTimeout(resolve, step[1]));
        continue;
      }
      try {
        answers.push(await kinds[kind](env[name], step, memory, name.toLowerCase()));
      } catch (error) {
        answers.push({ error: error.name, message: error.message });
      }
    }
    return Response.json(answers);
  },

  async queue(batch) {
    const bodies = batch.messages.map((one) => one.body);
    (logs[batch.queue] ??= []).push([bodies, batch.messages.map((one) => one.attempts)]);
    for (const one of batch.messages) {
      if (one.body?.do === "ack") one.ack();
      if (one.body?.do === "retry") one.retry(one.body.options);
      if (one.body?.do === "ack, retry") one.ack(), one.retry();
      if (one.body?.do === "retry, ack") one.retry(), one.ack();
      if (one.body?.do === "retry once" && one.attempts === 1) one.retry(one.body.options);
    }
    if (bodies.some((one) => one?.do === "all again" && batch.messages[0].attempts === 1)) batch.retryAll();
    if (bodies.some((one) => one?.do === "all done")) batch.ackAll(), batch.retryAll();
    if (bodies.some((one) => one?.do === "raise")) throw new Error("no");
    if (bodies.some((one) => one?.do === "raise once" && batch.messages[0].attempts === 1)) throw new Error("no");
  },
};
