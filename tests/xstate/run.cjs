// Reads cases as JSON lines (config, input, script), runs each through the real XState and writes what it answered:
// after the start and after every entry of the script, the value, context, status, tags, timers and actions in order.
'use strict';
const path = require('path');
const readline = require('readline');
const { createRequire } = require('module');

const xstate = createRequire(path.join(process.cwd(), 'package.json'))('xstate');
const { createMachine, createActor, fromCallback, assign, raise, sendTo, cancel, emit, log } = xstate;
const { enqueueActions, spawnChild, stopChild, and, or, not, stateIn } = xstate;

console.warn = () => {};

// What the names in the generated charts stand for; names.py says the same in Python.
const guards = {
  yes: () => true,
  no: () => false,
  atLeast: ({ context }, { key, n }) => (context[key] ?? 0) >= n,
  even: ({ context }, { key }) => (context[key] ?? 0) % 2 === 0,
  flagged: ({ event }) => event.flag === true,
};
const assigns = {
  inc: ({ context }, { key }) => ({ [key]: (context[key] ?? 0) + 1 }),
  note: ({ event }) => ({ last: event.type }),
  put: (_, { key, value }) => ({ [key]: value }),
};
const values = {
  sum: ({ context }) => ((context.a ?? 0) + (context.b ?? 0)) % 1000,
  told: ({ context, event }) => ({ a: context.a ?? 0, type: event.type, output: event.output ?? null }),
  born: ({ event }) => ({ a: event.input?.a ?? 0, b: 1 }),
  bar: ({ context }) => ({ key: 'a', n: 1 + (context.b ?? 0) % 3 }),
  whom: () => '#_internal',
  none: () => null,
  which: ({ context }) => `d${(context.a ?? 0) % 3}`,
  while: ({ context }) => 3 + 5 * ((context.b ?? 0) % 4),
  ping: ({ context }) => ({ type: 'B', flag: (context.a ?? 0) % 2 === 0 }),
};
const delays = {
  short: 10,
  '24h': 86400000,
  '1m30s': 90000,
  grown: ({ context }) => 5 + 7 * ((context.a ?? 0) % 10),
};
// {context, event} or {input} as XState hands it over, so that all of it is asked for in one form.
const isCall = (v) => v && typeof v === 'object' && '$call' in v;
const value = (v) => (isCall(v) ? (args, params) => values[v.$call](args, params) : v);
const list = (v) => (v === undefined || v === null ? [] : Array.isArray(v) ? v : [v]);

function guard(g) {
  if (g === undefined || typeof g === 'string') return g;
  switch (g.type) {
    case 'xstate.and': return and(g.guards.map(guard));
    case 'xstate.or': return or(g.guards.map(guard));
    case 'xstate.not': return not(guard(g.guard));
    case 'xstate.stateIn': return stateIn(g.stateValue);
  }
  return 'params' in g ? { type: g.type, params: value(g.params) } : g;
}

function action(a) {
  if (typeof a === 'string') return a;
  const options = {};
  if (a.id !== undefined) options.id = a.id;
  if (a.delay !== undefined) options.delay = typeof a.delay === 'string' ? a.delay : value(a.delay);
  switch (a.type) {
    case 'xstate.assign':
      return assign(Object.fromEntries(Object.entries(a.assignment).map(([k, v]) => [k, value(v)])));
    case 'xstate.raise': return raise(value(a.event), options);
    case 'xstate.sendTo': return sendTo(value(a.to), value(a.event), options);
    case 'xstate.cancel': return cancel(value(a.sendId));
    case 'xstate.emit': return emit(value(a.event));
    case 'xstate.log': return 'value' in a ? log(value(a.value), a.label) : log();
    case 'xstate.spawnChild': return spawnChild(a.src, { id: a.id, input: value(a.input) });
    case 'xstate.stopChild': return stopChild(isCall(a.id) ? (args) => values[a.id.$call](args) ?? undefined : a.id);
    case 'xstate.enqueueActions':
      return enqueueActions(({ enqueue, check }) => {
        for (const one of a.actions) {
          if (one.guard !== undefined && one.type === undefined) {
            for (const inner of check(guard(one.guard)) ? list(one.actions) : list(one.else)) enqueue(action(inner));
          } else enqueue(action(one));
        }
      });
  }
  return 'params' in a ? { type: a.type, params: value(a.params) } : a;
}

function way(t) {
  if (t === undefined || typeof t === 'string') return t;
  const out = { ...t };
  if (t.guard !== undefined) out.guard = guard(t.guard);
  if (t.actions !== undefined) out.actions = list(t.actions).map(action);
  return out;
}
const ways = (t) => (Array.isArray(t) ? t.map(way) : way(t));
const mapped = (o, f) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, f(v)]));

function state(s) {
  const out = { ...s };
  for (const key of ['entry', 'exit']) if (s[key] !== undefined) out[key] = list(s[key]).map(action);
  for (const key of ['on', 'after']) if (s[key] !== undefined) out[key] = mapped(s[key], ways);
  for (const key of ['always', 'onDone']) if (s[key] !== undefined) out[key] = ways(s[key]);
  if (s.route !== undefined) out.route = way(s.route);
  if (s.states !== undefined) out.states = mapped(s.states, state);
  if (s.output !== undefined) out.output = value(s.output);
  if (s.context !== undefined) out.context = isCall(s.context) ? ({ input }) => values[s.context.$call]({ event: { input } }) : s.context;
  if (s.initial && typeof s.initial === 'object') out.initial = { ...s.initial, actions: list(s.initial.actions).map(action) };
  if (s.invoke !== undefined) {
    out.invoke = list(s.invoke).map((i) => {
      const made = { ...i };
      for (const key of ['onDone', 'onError', 'onSnapshot']) if (i[key] !== undefined) made[key] = ways(i[key]);
      if (i.input !== undefined) made.input = value(i.input);
      return made;
    });
  }
  return out;
}

const FIRED_MAX = 30;
const EVENTS = ['A', 'B', 'a.b.c'];

class Clock {
  constructor(fires) { this.now = 0; this.count = 0; this.waiting = new Map(); this.fires = fires; }
  setTimeout(fn, ms) {
    const id = ++this.count;
    this.waiting.set(id, { due: this.now + Math.max(0, Math.trunc(ms)), fn });
    return id;
  }
  clearTimeout(id) { this.waiting.delete(id); }
  advance(ms) {
    // A chart may set a new delay whenever one fires; after so many the time stands still where it is.
    const end = this.now + ms;
    for (let fired = 0; ; fired++) {
      if (fired === FIRED_MAX) return;
      let next;
      for (const [id, w] of this.waiting) if (w.due <= end && (!next || w.due < next[1].due)) next = [id, w];
      if (!next) break;
      this.now = next[1].due;
      this.waiting.delete(next[0]);
      this.fires(next[1]);
      next[1].fn();
    }
    this.now = end;
  }
}

// Whether the active states are a configuration at all: parents active, one child of each compound, all of each parallel.
function isPossible(nodes) {
  const set = new Set(nodes);
  for (const n of set) {
    if (n.parent && !set.has(n.parent)) return false;
    const inside = Object.values(n.states).filter((c) => c.type !== 'history');
    const active = inside.filter((c) => set.has(c)).length;
    if (n.type === 'history') return false;
    if (n.type === 'compound' && active !== 1) return false;
    if (n.type === 'parallel' && active !== inside.length) return false;
  }
  return set.size > 0;
}

function run(kase) {
  const said = [];
  let fault = null;
  let made = [];
  let relayed = 0;
  let endless = false;
  const custom = {};
  for (const name of ['x', 'y', 'z']) {
    custom[name] = ({ context, event }, params) => made.push({ act: name, params, context, event });
  }
  const actions = { ...custom, ...mapped(assigns, (f) => assign(f)) };
  actions.pick = enqueueActions(({ enqueue, check }, params) => {
    enqueue({ type: 'x', params: { n: params?.n ?? null } });
    if (check({ type: 'even', params: { key: 'a' } })) enqueue({ type: 'inc', params: { key: 'a' } });
    else enqueue.raise({ type: 'C' });
  });
  // What a delayed send brings to an actor; whatever else reaches one is listed as the action of the chart that sent it.
  let brought = false;
  const listening = () => fromCallback(({ self, receive }) => {
    receive((event) => { if (brought) made.push({ got: self.id, event }); });
  });
  const actors = { svc: listening(), job: listening() };
  const machine = createMachine(state(kase.config)).provide({ actions, guards: {
    ...guards,
    mixed: and([{ type: 'even', params: { key: 'a' } }, not({ type: 'atLeast', params: { key: 'b', n: 3 } })]),
  }, delays, actors });
  const clock = new Clock(({ id, to }) => { made.push({ fired: id }); relayed = 0; brought = Boolean(to); });
  let actor;
  const inspect = (seen) => {
    if (seen.type === '@xstate.microstep' && !endless && !isPossible(seen.snapshot._nodes)) fault ??= 'impossible';
    if (seen.type !== '@xstate.action' || seen.actorRef !== actor) return;
    const { type, params } = seen.action;
    if (type === 'xstate.raise') {
      if (typeof params.delay === 'number') made.push({ delay: params.id ?? null, event: params.event, ms: params.delay });
    } else if (type === 'xstate.sendTo') {
      const to = params.to === actor ? null : typeof params.to === 'string' ? params.to : params.to.id;
      if (typeof params.delay === 'number') made.push({ delay: params.id ?? null, event: params.event, ms: params.delay, to });
      else if (to !== null) made.push({ send: to, event: params.event });
    } else if (type === 'xstate.cancel') made.push({ cancel: params.sendId });
    else if (type === 'xstate.spawnChild') made.push({ invoke: params.id, src: params.src, input: params.input });
    else if (type === 'xstate.stopChild') { if (params) made.push({ stop: params.id }); }
    else if (type === 'xstate.emit') made.push({ emit: params.event });
    else if (type === 'xstate.log') made.push({ log: params.value, label: params.label });
  };
  actor = createActor(machine, { clock, inspect, input: kase.input, logger: () => {} });
  // An actor that the chart listens to would show its first snapshot by itself; here the script does that.
  const relay = actor.system._relay;
  actor.system._relay = (source, target, event) => {
    if (source && source !== actor && event.type.startsWith('xstate.snapshot.')) return;
    // XState has no limit on what a chart sends to itself; the step's is that of microsteps.
    if (source === actor && target === actor && ++relayed > 60) {
      endless = true;
      return;
    }
    relay(source, target, event);
  };
  // XState forgets the handle of a pending delay when another of the same id is set: both fire, and the first can't be
  // cancelled any more. In the step the second takes the place of the first, so here it is helped to do the same.
  const { schedule } = actor.system.scheduler;
  actor.system.scheduler.schedule = (source, target, event, delay, id) => {
    if (id !== undefined) actor.system.scheduler.cancel(source, id);
    const before = clock.count;
    schedule(source, target, event, delay, id);
    const due = clock.waiting.get(clock.count);
    if (clock.count > before) Object.assign(due, { id: id ?? null, event, to: target === actor ? null : target.id });
  };
  actor.subscribe({ error: () => {} });
  const look = () => {
    const s = actor.getSnapshot();
    if (s.status === 'active' && !endless && s._nodes && !isPossible(s._nodes)) fault ??= 'impossible';
    const threw = endless ? 'endless' : s.error instanceof Error ? String(s.error.message).split('\n')[0] : null;
    relayed = 0;
    said.push({
      value: s.value, context: s.context, status: s.status, output: s.output,
      error: threw === null ? s.error : null,
      tags: [...(s.tags ?? [])].sort(), children: s.status === 'active' ? Object.keys(s.children).sort() : [],
      timers: [...clock.waiting.values()].map((w) => ({ id: w.id, due: w.due, event: w.event, to: w.to })),
      history: mapped(s.historyValue ?? {}, (nodes) => nodes.map((n) => n.id).sort()),
      can: s.status === 'active' && !threw ? EVENTS.filter((type) => s.can({ type, flag: true })) : [],
      meta: s.status === 'active' && !threw ? s.getMeta() : {},
      made, threw, fault,
    });
    made = [];
  };
  actor.start();
  look();
  for (const entry of kase.script) {
    if (fault || said[said.length - 1].threw) break;
    brought = false;
    if ('tick' in entry) clock.advance(entry.tick);
    else actor.send(entry.send);
    look();
  }
  return said;
}

process.on('uncaughtException', () => {});
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  if (!line.trim()) return;
  const kase = JSON.parse(line);
  let answer;
  try { answer = { seed: kase.seed, said: run(kase) }; } catch (error) { answer = { seed: kase.seed, refused: String(error.message).split('\n')[0] }; }
  process.stdout.write(JSON.stringify(answer) + '\n');
});
