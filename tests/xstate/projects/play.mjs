// Plays the script of a project through the real XState; value, context and status after the start and each event.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import * as five from 'xstate';
import four from 'xstate4';

const module = await import(pathToFileURL(path.resolve(process.argv[2])).href);
const machine = module.default ?? module.order;
const isOld = machine.implementations === undefined;
const clock = { setTimeout: () => 0, clearTimeout: () => {}, start: () => {} };
const actor = isOld ? four.interpret(machine, { clock }) : five.createActor(machine, { clock });
const said = [];
const look = () => {
  const { value, context, status, done } = actor.getSnapshot();
  said.push({ value, context, status: status ?? (done ? 'done' : 'active') });
};
console.warn = console.log = () => {};
actor.start();
look();
for (const event of module.script) {
  actor.send(event);
  look();
}
process.stdout.write(JSON.stringify({ script: module.script, said }) + '\n');
process.exit(0);
