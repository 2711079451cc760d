// A machine as people wrote them with XState 4.
import xstate from 'xstate4';

const { createMachine, assign, send, sendParent, actions } = xstate;
const { choose, pure, log, cancel, forwardTo, raise } = actions;

export default createMachine(
  {
    id: 'lamp',
    predictableActionArguments: true,
    initial: 'off',
    context: { n: 0, last: '' },
    on: { NOTE: { actions: assign({ last: (context, event) => event.text }) } },
    states: {
      off: {
        entry: ['hum', (context) => context.n],
        on: {
          PUSH: [
            { cond: 'worn', target: 'broken' },
            { cond: (context, event) => event.hard === true, target: 'broken', actions: assign({ n: 99 }) },
            { target: 'on', actions: ['count', send('BLINK', { delay: 1000, id: 'blink' })] },
          ],
          SELF: 'off',
          MANY: { target: 'off', cond: { type: 'atLeast', n: 2 }, internal: true },
          EITHER: { actions: choose([{ cond: 'worn', actions: 'hum' }, { cond: (context) => context.n === 1, actions: assign({ last: 'one' }) }, { actions: 'count' }]) },
          PURE: { actions: pure((context) => (context.n ? 'count' : undefined)) },
        },
      },
      on: {
        on: { PUSH: { target: 'off', in: '#lamp.on' }, BLINK: { actions: [log('blink'), cancel('blink'), raise('NOTE2')] }, SHOUT: { actions: [forwardTo('ear'), sendParent('LOUD')] } },
        invoke: { id: 'ear', src: 'listen', data: { n: (context) => context.n }, onDone: 'off' },
        after: { patience: 'off', 60000: 'off' },
      },
      broken: { type: 'final', data: { n: (context) => context.n } },
    },
  },
  {
    actions: { hum: () => {}, count: assign({ n: (context) => context.n + 1 }) },
    guards: { worn: (context) => context.n >= 3, atLeast: (context, event, { cond }) => context.n >= cond.n },
    services: { listen: () => new Promise(() => {}) },
    delays: { patience: (context) => 1000 * context.n },
  },
);

export const script = [
  { type: 'NOTE', text: 'hello' }, { type: 'EITHER' }, { type: 'EITHER' }, { type: 'PUSH' }, { type: 'PUSH' }, { type: 'SELF' }, { type: 'MANY' },
  { type: 'PURE' }, { type: 'PUSH', hard: true },
];
