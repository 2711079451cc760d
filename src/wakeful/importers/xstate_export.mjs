// Exports a machine of XState 5 (or 4) as JSON that Wakeful runs, with a name for each function that JSON can't hold.
// Run it in your own project, where its modules are found:
//
//   wakeful chart --exporter > export.mjs
//   node export.mjs ./order.js > order.json          the machine that the module exports
//   node export.mjs ./order.js orderMachine          the one of that name
//   node export.mjs ./order.js --python              a class with a method for each of its functions, to fill in
//   node export.mjs ./order.js --out charts          a file for it, and one for each machine that it starts
//   node export.mjs ./order.js --report              everything as one JSON: charts, functions, remarks
//
// Names that the machine has stay as they are. A function that is written in its place gets a name by that place, like
// `guard of #order.placed.on.PAY[1]`; a method of the Python class stands for it by that name. What was named or could
// not be carried is listed on stderr; nothing is left out without a word. Nothing of your machine is run.
import { pathToFileURL } from 'node:url';
import path from 'node:path';
import fs from 'node:fs';

const isObject = (v) => v !== null && typeof v === 'object';
const list = (v) => (v === undefined ? [] : Array.isArray(v) ? v : [v]);
const isMachine = (v) => isObject(v) && isObject(v.config) && isObject(v.states) && typeof v.transition === 'function';
const isVersion4 = (m) => m.implementations === undefined;
const source = (f) => String(f).replace(/\s+/g, ' ').trim();
const IS_EVENT = /^\(?\{\s*event\s*\}\)?\s*=>\s*event$|^\(_\w*, (\w+)\) => \1$|^function \w*\s?\(_\w*, (\w+)\) \{ return \2; \}$/;
const IS_SELF = /^\(?\{\s*self\s*\}\)?\s*=>\s*self$/;
const IS_PARENT = /^\(?\{\s*self\s*\}\)?\s*=>\s*self\._parent$/;
const IS_ALL = /^\(?\{\s*context,\s*event\s*\}\)?\s*=>\s*\(\{\s*context,\s*event\s*\}\)$/;

class Export {
  constructor(machine, name) {
    this.machine = machine;
    this.isOld = isVersion4(machine);
    const known = this.isOld ? machine.options : machine.implementations;
    this.known = { actions: {}, guards: {}, delays: {}, ...known, actors: known.actors ?? known.services ?? {} };
    this.functions = new Map(); // by kind and name: what the Python class has to have
    this.notes = [];
    this.machines = new Map(); // child machines by the name that the chart has for them
    this.id = machine.config.id ?? machine.id ?? name;
  }

  chart() {
    return this.state({ ...this.machine.config, id: this.id }, []);
  }

  // What a name or a function in its place stands for.

  // The name; with a number behind it when another function has it: a state and an event may be called alike.
  need(kind, name, from, remark, hasParams = false) {
    for (let again = 1; ; again++) {
      const called = again > 1 ? `${name} (${again})` : name;
      const there = this.functions.get(`${kind} ${called}`);
      const taking = hasParams || (!this.isOld && typeof from === 'function' && from.length > 1);
      if (there === undefined) this.functions.set(`${kind} ${called}`, { kind, name: called, from, remark: remark ?? null, hasParams: taking });
      else if (there.from === from) there.hasParams ||= taking;
      if (there === undefined || there.from === from) return called;
    }
  }

  note(where, what) {
    this.notes.push(`${where}: ${what}`);
  }

  // Values. A function that is a whole value is asked for by name; inside of a value it can't be.

  value(v, what, where) {
    if (typeof v === 'function') return { $call: this.need('value', `${what} of ${where}`, v) };
    return this.plain(v, `${what} of ${where}`);
  }

  plain(v, where) {
    if (v === null || typeof v === 'string' || typeof v === 'boolean') return v;
    if (typeof v === 'number' && Number.isFinite(v)) return v;
    if (v instanceof Date) {
      this.note(where, 'a Date, written as text');
      return v.toISOString();
    }
    if (Array.isArray(v)) return v.map((one, place) => this.plain(one === undefined ? null : one, `${where}[${place}]`) ?? null);
    const proto = isObject(v) ? Object.getPrototypeOf(v) : undefined;
    if (isObject(v) && (proto === null || proto === Object.prototype || proto.constructor?.name === 'Object')) {
      const made = {};
      for (const [key, one] of Object.entries(v)) {
        if (one === undefined) continue;
        const inner = this.plain(one, `${where}.${key}`);
        if (inner !== undefined) made[key] = inner;
      }
      return made;
    }
    if (v !== undefined) this.note(where, `left out: a ${typeof v === 'object' ? v.constructor?.name ?? 'object' : typeof v} is no plain data`);
    return undefined;
  }

  delay(v, where) {
    if (typeof v === 'function') return { $call: this.need('value', `delay of ${where}`, v) };
    if (typeof v === 'string') this.namedDelay(v);
    return v;
  }

  namedDelay(name) {
    if (/^\d+(\.\d+)?$/.test(name)) return;
    const known = this.known.delays[name];
    this.need('delay', name, known ?? null, typeof known === 'number' ? `${known} ms` : null);
  }

  // Guards.

  guard(g, where) {
    if (typeof g === 'string') return this.namedGuard(g, undefined, where);
    if (typeof g === 'function') return this.guardFunction(g, where);
    if (isObject(g) && typeof g.type === 'string' && g.type !== 'xstate.guard' && g.type !== 'xstate.function') {
      const { type, params, predicate, name, ...rest } = g;
      const given = this.isOld && Object.keys(rest).length ? rest : params;
      return this.namedGuard(type, given, where);
    }
    if (isObject(g) && typeof g.predicate === 'function') return this.need('guard', `guard of ${where}`, g.predicate);
    this.note(`guard of ${where}`, 'it is nothing that is known to be a guard; it is asked for by this name');
    return this.need('guard', `guard of ${where}`, null);
  }

  guardFunction(g, where) {
    if (g.stateValue !== undefined) return { type: 'xstate.stateIn', stateValue: this.plain(g.stateValue, where) };
    if (Array.isArray(g.guards) && typeof g.check === 'function') {
      const said = source(g.check);
      const kind = /and$/i.test(g.check.name) || /\.every\(/.test(said) ? 'and' : /or$/i.test(g.check.name) || /\.some\(/.test(said) ? 'or' : 'not';
      const inside = g.guards.map((one, place) => this.guard(one, g.guards.length > 1 ? `${where}.${kind}[${place}]` : `${where}.${kind}`));
      return kind === 'not' ? { type: 'xstate.not', guard: inside[0] } : { type: `xstate.${kind}`, guards: inside };
    }
    return this.need('guard', `guard of ${where}`, g);
  }

  namedGuard(name, params, where) {
    const known = this.known.guards[name];
    if (typeof known === 'function' && (Array.isArray(known.guards) || known.stateValue !== undefined)) {
      return this.guardFunction(known, `guard ${name}`);
    }
    this.need('guard', name, known, null, params !== undefined);
    return params === undefined ? name : { type: name, params: this.value(params, 'params of the guard', where) };
  }

  // Actions.

  actions(given, where) {
    const all = list(given);
    const made = all.map((one, place) => this.action(one, Array.isArray(given) && all.length > 1 ? `${where}[${place}]` : where));
    return made.length === 1 && !Array.isArray(given) ? made[0] : made;
  }

  action(a, where) {
    if (typeof a === 'string') return this.namedAction(a, undefined, where);
    const kind = a?.type;
    if (typeof kind === 'string' && kind.startsWith('xstate.')) return this.own(a, where);
    if (typeof a === 'function') return this.need('action', `action of ${where}`, a);
    if (isObject(a) && typeof a.exec === 'function' && (kind === undefined || kind === a.exec.name || kind === String(a.exec))) {
      return this.need('action', `action of ${where}`, a.exec);
    }
    if (isObject(a) && typeof kind === 'string') {
      const { type, params, exec, ...rest } = a;
      return this.namedAction(kind, this.isOld && Object.keys(rest).length ? rest : params, where);
    }
    this.note(`action of ${where}`, 'it is nothing that is known to be an action; it is asked for by this name');
    return this.need('action', `action of ${where}`, null);
  }

  namedAction(name, params, where) {
    const known = this.known.actions[name];
    const own = typeof known?.type === 'string' && known.type.startsWith('xstate.') ? known.type : null;
    const isGiven = own === 'xstate.assign' ? !this.hasFunctions(known.assignment) : own !== null && !/enqueueActions|pure/.test(own);
    if (isGiven && params === undefined) return this.own(known, `action ${name}`);
    const kind = own === 'xstate.assign' ? 'assign' : own === null ? 'action' : 'enqueue';
    this.need(kind, name, own === 'xstate.assign' ? known.assignment : known?.collect ?? known?.get ?? known, own === null && known === undefined ? 'an @assign if it changes the context' : null, params !== undefined);
    return params === undefined ? name : { type: name, params: this.value(params, 'params of the action', where) };
  }

  hasFunctions(v) {
    return typeof v === 'function' || (isObject(v) && Object.values(v).some((one) => this.hasFunctions(one)));
  }

  own(a, where) {
    const kind = a.type;
    const later = this.later(a, where);
    switch (kind) {
      case 'xstate.assign':
        if (typeof a.assignment === 'function') return this.need('assign', `assign of ${where}`, a.assignment, this.spawns(a.assignment));
        return { type: kind, assignment: this.assignment(a.assignment, where) };
      case 'xstate.raise':
        return { type: kind, event: this.event(a.event, where), ...later };
      case 'xstate.send':
      case 'xstate.sendTo':
        return this.send(a, later, where);
      case 'xstate.cancel':
        return { type: kind, sendId: this.value(a.sendId, 'sendId', where) };
      case 'xstate.emit':
        return { type: kind, event: this.event(a.event, where) };
      case 'xstate.log': {
        const said = this.isOld ? a.expr : a.value;
        const label = a.label === undefined ? {} : { label: a.label };
        if (said === undefined || (typeof said === 'function' && (IS_ALL.test(source(said)) || this.isOld))) return { type: kind, ...label };
        return { type: kind, value: this.value(said, 'value', where), ...label };
      }
      case 'xstate.enqueueActions':
        return this.need('enqueue', `actions of ${where}`, a.collect);
      case 'xstate.pure':
        return this.need('enqueue', `actions of ${where}`, a.get);
      case 'xstate.choose':
        return { type: 'xstate.enqueueActions', actions: this.choose(list(a.conds), 0, where) };
      case 'xstate.spawnChild': {
        const made = { type: kind, src: this.actor(a.src, where) };
        if (a.id !== undefined) made.id = this.value(a.id, 'id', where);
        if (a.input !== undefined) made.input = this.value(a.input, 'input', where);
        if (a.syncSnapshot) made.syncSnapshot = true;
        if (a.systemId !== undefined) this.note(where, `left out: systemId ${a.systemId}; there is no system to look it up in`);
        return made;
      }
      case 'xstate.stop':
      case 'xstate.stopChild': {
        const whom = this.isOld ? a.activity?.id ?? a.activity : a.actorRef;
        return { type: 'xstate.stopChild', id: this.value(isObject(whom) ? whom.id : whom, 'id', where) };
      }
    }
    this.note(where, `${kind} is asked for by a name`);
    return this.need('action', `action of ${where}`, a.exec ?? null);
  }

  spawns(f) {
    return /\bspawn\b/.test(String(f)) ? 'it spawns an actor: write xstate.spawnChild into the chart instead' : null;
  }

  assignment(given, where) {
    const made = {};
    for (const [key, one] of Object.entries(given ?? {})) {
      if (typeof one === 'function') made[key] = { $call: this.need('value', `${key} of ${where}`, one, this.spawns(one)) };
      else made[key] = this.plain(one, `${key} of ${where}`) ?? null;
    }
    return made;
  }

  later(a, where) {
    const made = {};
    if (a.delay !== undefined) made.delay = this.delay(a.delay, where);
    if (made.delay !== undefined && typeof a.id === 'string' && a.id) made.id = a.id;
    return made;
  }

  event(e, where) {
    if (typeof e === 'string') return { type: e };
    return this.value(e, 'event', where);
  }

  send(a, later, where) {
    const to = this.target(a.to, where);
    const isForward = typeof a.event === 'function' && IS_EVENT.test(source(a.event)) && a.to !== undefined;
    if (to === '#_internal' && this.isOld) return { type: 'xstate.raise', event: this.event(a.event, where), ...later };
    if (isForward) return { type: 'xstate.forwardTo', to, ...later };
    return { type: 'xstate.sendTo', to, event: this.event(a.event, where), ...later };
  }

  target(to, where) {
    if (to === undefined || to === '#_internal') return '#_internal';
    if (typeof to === 'string') return to;
    if (typeof to === 'function') {
      const said = source(to);
      if (IS_SELF.test(said)) return '#_internal';
      if (IS_PARENT.test(said)) return '#_parent';
      return { $call: this.need('value', `to of ${where}`, to, 'answers the id of an actor') };
    }
    return isObject(to) && typeof to.id === 'string' ? to.id : this.need('value', `to of ${where}`, null);
  }

  choose(conds, place, where) {
    if (place >= conds.length) return [];
    const one = conds[place];
    const then = [].concat(this.actions(list(one.actions), `${where}[${place}].actions`));
    if (one.cond === undefined && one.guard === undefined) return then;
    const block = { guard: this.guard(one.cond ?? one.guard, `${where}[${place}]`), actions: then };
    const otherwise = this.choose(conds, place + 1, where);
    // A block stands for itself in a list; behind `else` it needs a list of its own.
    return otherwise.length ? [{ ...block, else: otherwise.some((o) => isObject(o) && o.type === undefined) ? [{ type: 'xstate.enqueueActions', actions: otherwise }] : otherwise }] : [block];
  }

  // Actors.

  actor(src, where) {
    const given = isObject(src) && typeof src.type === 'string' && this.isOld ? src.type : src;
    if (typeof given === 'string') return this.namedActor(given, this.known.actors[given]);
    if (isMachine(given)) return this.namedActor(given.config.id ?? given.id, given);
    return this.namedActor(`actor of ${where}`, given);
  }

  namedActor(name, logic) {
    if (isMachine(logic)) {
      this.machines.set(name, logic);
      return this.need('machine', name, null);
    }
    if (typeof logic === 'function' || logic === undefined) return this.need('actor', name, logic);
    const said = `${logic.transition} ${logic.start}`;
    const made = typeof logic.config === 'function' ? logic.config : null;
    if (/PROMISE/i.test(said)) return this.need('actor', name, made);
    if (/OBSERVABLE/i.test(said)) return this.need('callback', name, made, 'an observable: send back what it brings');
    if (typeof logic.start === 'function' && /callback/i.test(said)) return this.need('callback', name, made);
    return this.need('actor', name, made, 'it keeps a state of its own (fromTransition, or logic of yours), which is no method: make it a Machine');
  }

  invoke(i, where) {
    const { src, input, data, onDone, onError, onSnapshot, autoForward, forward, exec, type, ...rest } = i;
    const made = { src: this.actor(src, where), ...this.plain(rest, where) };
    const given = input ?? data;
    if (given !== undefined) made.input = this.isOld && this.hasFunctions(given) && isObject(given) ? { $call: this.need('value', `input of ${where}`, given) } : this.value(given, 'input', where);
    for (const [key, ways] of Object.entries({ onDone, onError, onSnapshot })) if (ways !== undefined) made[key] = this.ways(ways, `${where}.${key}`, null);
    if (autoForward) this.note(where, 'left out: autoForward; write xstate.forwardTo into the events that it is to get');
    return made;
  }

  // Transitions and states.

  ways(given, where, keys) {
    const one = (way, place) => this.way(way, Array.isArray(given) && given.length > 1 ? `${where}[${place}]` : where, keys);
    return Array.isArray(given) ? given.map(one) : one(given, 0);
  }

  way(t, where, keys) {
    if (t === undefined || t === null) return {};
    if (typeof t === 'string') return this.isOld && this.isBack(t, keys) ? { target: t, reenter: true } : t;
    const { target, guard, cond, actions, internal, reenter, in: inside, description, meta, event, ...rest } = t;
    const made = {};
    if (target !== undefined) made.target = Array.isArray(target) ? target.map((one) => this.where(one)) : this.where(target);
    const tests = [];
    if ((guard ?? cond) !== undefined) tests.push(this.guard(guard ?? cond, where));
    if (inside !== undefined) tests.push({ type: 'xstate.stateIn', stateValue: this.plain(inside, where) });
    if (tests.length) made.guard = tests.length > 1 ? { type: 'xstate.and', guards: tests } : tests[0];
    if (actions !== undefined) made.actions = this.actions(actions, `${where}.actions`);
    if (reenter !== undefined) made.reenter = Boolean(reenter);
    else if (this.isOld && (internal === false || (internal === undefined && list(target).some((one) => this.isBack(one, keys))))) made.reenter = true;
    if (description !== undefined) made.description = description;
    if (meta !== undefined) made.meta = this.plain(meta, `meta of ${where}`);
    for (const key of Object.keys(rest)) this.note(`${where}.${key}`, 'left out: no part of a transition');
    return made;
  }

  where(target) {
    return isObject(target) && typeof target.id === 'string' ? `#${target.id}` : target;
  }

  // XState 4 enters a state again that goes to itself or into itself; XState 5 does when it is told to.
  isBack(target, keys) {
    if (keys === null || typeof target !== 'string' || target.startsWith('.')) return false;
    const own = keys[keys.length - 1];
    const id = [this.id, ...keys].join('.');
    return target === own || target.startsWith(`${own}.`) || target === `#${id}` || target.startsWith(`#${id}.`);
  }

  state(s, keys) {
    const id = s.id ?? [this.id, ...keys].join('.');
    const at = (key) => `#${id}.${key}`;
    const made = {};
    for (const [key, v] of Object.entries(s)) {
      if (v === undefined) continue;
      switch (key) {
        case 'types': case 'schemas': case 'schema': case 'tsTypes': case 'predictableActionArguments': case '_source':
          break;
        case 'entry': case 'exit':
          made[key] = this.actions(v, at(key));
          break;
        case 'always': case 'onDone':
          made[key] = this.ways(v, at(key), keys);
          break;
        case 'on':
          made.on = this.events(v, at, keys);
          break;
        case 'after':
          made.after = this.delays(v, at, keys);
          break;
        case 'invoke':
          made.invoke = Array.isArray(v) ? v.map((one, place) => this.invoke(this.logic(one), at(`invoke[${place}]`))) : this.invoke(this.logic(v), at('invoke'));
          break;
        case 'states':
          made.states = Object.fromEntries(Object.entries(v).map(([name, one]) => [name, this.state(one, [...keys, name])]));
          break;
        case 'initial':
          made.initial = isObject(v) ? { target: this.where(list(v.target)[0]), ...(v.actions === undefined ? {} : { actions: this.actions(v.actions, at('initial.actions')) }) } : v;
          break;
        case 'context': case 'output':
          made[key] = this.value(v, key, `#${id}`);
          break;
        case 'data':
          made.output = this.hasFunctions(v) ? { $call: this.need('value', `output of #${id}`, v) } : this.plain(v, `output of #${id}`);
          break;
        case 'route':
          made.route = this.way(v, at('route'), null);
          break;
        case 'activities':
          this.note(at(key), 'left out: activities; invoke them instead');
          break;
        default:
          made[key] = this.plain(v, at(key));
      }
    }
    return made;
  }

  logic(given) {
    return typeof given === 'string' || isMachine(given) || typeof given === 'function' ? { src: given } : given;
  }

  events(on, at, keys) {
    if (Array.isArray(on)) {
      const byEvent = {};
      for (const one of on) (byEvent[one.event] ??= []).push(one);
      on = byEvent;
    }
    const made = {};
    for (const [event, ways] of Object.entries(on)) if (ways !== undefined) made[event] = this.ways(ways, at(`on.${event}`), keys);
    return made;
  }

  delays(after, at, keys) {
    if (Array.isArray(after)) {
      const byDelay = {};
      for (const { delay, ...way } of after) {
        if (typeof delay === 'function') this.need('delay', `delay of ${at('after')}`, delay);
        (byDelay[typeof delay === 'function' ? `delay of ${at('after')}` : delay] ??= []).push(way);
      }
      after = byDelay;
    }
    const made = {};
    for (const [delay, ways] of Object.entries(after)) {
      if (ways === undefined) continue;
      this.namedDelay(delay);
      made[delay] = this.ways(ways, at(`after.${delay}`), keys);
    }
    return made;
  }
}

function written(from) {
  if (from === null || from === undefined) return null;
  if (!isObject(from)) return String(from);
  return Object.entries(from).map(([key, one]) => `${key}: ${String(one)}`).join('\n');
}

// All machines that hang on one: a chart for each, and what their classes need.

function exported(machine, name) {
  const charts = {};
  const ahead = [[name, machine]];
  while (ahead.length) {
    const [called, one] = ahead.shift();
    if (called in charts) continue;
    const made = new Export(one, called);
    const chart = made.chart();
    const functions = [...made.functions.values()].map(({ kind, name, from, remark, hasParams }) => ({ kind, name, source: written(from), remark, hasParams }));
    charts[called] = { chart, functions, notes: made.notes };
    ahead.push(...made.machines);
  }
  return charts;
}

// A class in Python.

// Words of Python, what every machine has for itself, what a class says of itself, and what the file imports.
const TAKEN = `False None True and as assert async await break class continue def del elif else except finally for from global if
  import in is lambda nonlocal not or pass raise return try while with
  start send snapshot can reset sender state ctx storage sql jobs every schedules blocking
  alarm audible chart events migrate migrations on_crash on_wake on_connect on_message on_close resume retry version visible
  App Machine app action assign guard actor callback value`.split(/\s+/);

const FORMS = {
  guard: ['@guard', 'def', '(self, context: dict, event: dict) -> bool:'],
  assign: ['@assign', 'def', '(self, context: dict, event: dict) -> dict:'],
  action: ['@action', 'async def', '(self, context: dict, event: dict) -> None:'],
  enqueue: ['@value', 'def', '(self, context: dict, event: dict, params, check) -> list:'],
  actor: ['@actor', 'async def', '(self, context: dict, event: dict, input) -> object:'],
  callback: ['@callback', 'async def', '(self, input, send_back, receive) -> None:'],
  value: ['@value', 'def', '(self, context: dict, event: dict) -> object:'],
  delay: ['@value', 'def', '(self, context: dict, event: dict) -> int:'],
};

const words = (name) => name.replace(/[^A-Za-z0-9]+/g, '_').replace(/^_+|_+$/g, '').replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();
const className = (name) => words(name).split('_').map((one) => one.slice(0, 1).toUpperCase() + one.slice(1)).join('') || 'Chart';

function python(charts) {
  const lines = ['from wakeful import App, Machine, action, assign, guard', 'from wakeful.machine import actor, callback, value', '', 'app = App()'];
  for (const [name, { functions, notes }] of Object.entries(charts).reverse()) {
    lines.push('', '', className(name) === name ? '@app.object' : `@app.object(name=${JSON.stringify(name)})`, `class ${className(name)}(Machine):`, `    chart = ${JSON.stringify(`${name}.json`)}`);
    for (const note of notes) lines.push(`    # ${note.replace(/\n/g, ' ')}`);
    const taken = new Set(TAKEN);
    for (const { kind, name: called, source: from, remark, hasParams } of functions) {
      if (kind === 'machine') {
        lines.push('', `    # ${called}: a machine of its own, above`);
        continue;
      }
      const [mark, form, rest] = FORMS[kind];
      let method = words(called) || kind;
      if (/^\d/.test(method)) method = `${kind}_${method}`;
      while (taken.has(method)) method += '_';
      taken.add(method);
      const length = kind === 'delay' && /^\d+(\.\d+)?$/.test(from ?? '') ? Math.round(Number(from)) : null;
      if (length !== null && method === called) {
        lines.push('', `    ${method} = ${length}  # ms`);
        continue;
      }
      const takes = hasParams && ['guard', 'assign', 'action'].includes(kind) ? rest.replace('event: dict)', 'event: dict, params)') : rest;
      lines.push('', `    ${mark}(${JSON.stringify(called)})`, `    ${form} ${method}${takes}`);
      if (length !== null) {
        lines.push(`        return ${length}  # ms`);
        continue;
      }
      if (remark) lines.push(`        # ${remark}`);
      for (const line of (from ?? '').split('\n').filter((one) => one.trim())) lines.push(`        # ${line.trimEnd()}`);
      lines.push('        raise NotImplementedError');
    }
  }
  return lines.join('\n') + '\n';
}

function told(charts) {
  const lines = [];
  for (const [name, { functions, notes }] of Object.entries(charts)) {
    lines.push(`${name}: ${functions.length ? 'the Python class has to have' : 'no function is missing'}`);
    for (const { kind, name: called, remark } of functions) {
      const mark = kind === 'machine' ? 'a Machine registered as' : FORMS[kind][0];
      lines.push(`  ${mark}${kind === 'machine' ? ' ' : '('}${JSON.stringify(called)}${kind === 'machine' ? '' : ')'}${kind === 'machine' ? '' : `  ${kind}`}${remark ? `, ${remark}` : ''}`);
    }
    for (const note of notes) lines.push(`  ! ${note}`);
  }
  return lines.join('\n') + '\n';
}

const USAGE = 'usage: node export.mjs MODULE [NAME] [--python | --report | --out FOLDER]\n';

async function main(args) {
  const at = args.indexOf('--out');
  const folder = at < 0 ? null : args.splice(at, 2)[1];
  const options = new Set(args.filter((one) => one.startsWith('--')));
  const [file, wanted] = args.filter((one) => !one.startsWith('--'));
  const unknown = [...options].find((one) => !['--python', '--report'].includes(one));
  if (!file || unknown || folder === undefined) {
    process.stderr.write(`${unknown ? `there is no ${unknown}\n` : ''}${USAGE}`);
    return 2;
  }
  const where = path.resolve(file);
  if (!fs.existsSync(where)) {
    process.stderr.write(`${file} does not exist; name the module that exports the machine\n`);
    return 1;
  }
  const module = await import(pathToFileURL(where).href);
  const found = { ...(isObject(module.default) && !isMachine(module.default) ? module.default : {}), ...module };
  const machines = Object.entries(found).filter(([, one]) => isMachine(one));
  const names = [...new Set(machines.map(([name]) => name))];
  const distinct = new Set(machines.map(([, one]) => one));
  // One that another invokes comes with that one.
  const asked = wanted === undefined ? machines.slice(0, distinct.size === 1 ? 1 : undefined) : machines.filter(([name, one]) => name === wanted || one.id === wanted).slice(0, 1);
  if (asked.length !== 1) {
    process.stderr.write(`${file}: ${asked.length ? 'which machine?' : wanted ? `there is no machine ${wanted};` : 'it exports no machine;'} it has ${names.join(', ') || 'none'}\n`);
    return 1;
  }
  const [, machine] = asked[0];
  const charts = exported(machine, machine.config.id ?? asked[0][0]);
  if (options.has('--report')) process.stdout.write(JSON.stringify(charts, null, 2) + '\n');
  else if (options.has('--python')) process.stdout.write(python(charts));
  else if (folder !== null) {
    fs.mkdirSync(folder, { recursive: true });
    for (const [name, { chart }] of Object.entries(charts)) fs.writeFileSync(path.join(folder, `${name}.json`), JSON.stringify(chart, null, 2) + '\n');
    process.stderr.write(told(charts));
  } else {
    process.stdout.write(JSON.stringify(Object.values(charts)[0].chart, null, 2) + '\n');
    process.stderr.write(told(charts));
    const rest = Object.keys(charts).slice(1);
    if (rest.length) process.stderr.write(`its machines ${rest.join(', ')}: --out FOLDER writes their charts too\n`);
  }
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
