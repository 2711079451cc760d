// Plays the steps of a scenario of binding_scenarios.py on the real bindings; entry.py is its twin.
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

const kinds = { kv, d1, r2, queue };

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
