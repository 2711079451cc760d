// node stage.mjs SCENARIOS.json: plays each on a miniflare with bindings of its own, and prints what they answer.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Miniflare } from "miniflare";

const scenarios = JSON.parse(readFileSync(process.argv[2]));
const names = (kind) => scenarios.filter((one) => one.kind === kind).map((one) => one.name);
const queues = names("queue");
const mf = new Miniflare({
  modules: true,
  compatibilityDate: "2026-03-01",
  scriptPath: fileURLToPath(new URL("worker.js", import.meta.url)),
  kvNamespaces: names("kv"),
  d1Databases: names("d1"),
  r2Buckets: names("r2"),
  workflows: Object.fromEntries(
    names("workflow").map((name) => [name, { name: name.toLowerCase(), className: "Plan" }]),
  ),
  queueProducers: Object.fromEntries(queues.map((name) => [name, name.toLowerCase()])),
  queueConsumers: Object.fromEntries(
    queues.map((name) => [name.toLowerCase(), { maxBatchSize: 3, maxBatchTimeout: 1, maxRetries: 2 }]),
  ),
});
const answers = await Promise.all(
  scenarios.map(async (one) => {
    const answer = await mf.dispatchFetch("http://localhost/", { method: "POST", body: JSON.stringify(one) });
    return [one.name, await answer.json()];
  }),
);
console.log(JSON.stringify(Object.fromEntries(answers)));
await mf.dispose();
