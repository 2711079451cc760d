// A machine as people write them with XState 5: some functions have names, most stand where they are used.
import {
  and, assign, cancel, createMachine, emit, enqueueActions, forwardTo, fromCallback, fromPromise, log, not, or, raise, sendParent,
  sendTo, setup, spawnChild, stateIn, stopChild,
} from 'xstate';

const payment = createMachine({
  id: 'payment',
  initial: 'open',
  context: ({ input }) => ({ owed: input.owed }),
  states: {
    open: { on: { COIN: [{ guard: ({ context, event }) => event.worth >= context.owed, target: 'paid' }, { actions: assign({ owed: ({ context, event }) => context.owed - event.worth }) }] } },
    paid: { type: 'final', entry: sendParent({ type: 'PAID' }), output: ({ context }) => context.owed },
  },
});

export const order = setup({
  actions: {
    bump: assign({ n: ({ context }) => context.n + 1 }),
    'set to zero': assign({ n: 0 }),
    mail: () => {},
    pick: enqueueActions(({ context, enqueue }) => { if (context.n > 1) enqueue('bump'); }),
    ping: sendTo('watch', { type: 'PING' }),
  },
  guards: {
    'is it big?': ({ context }) => context.n >= 3,
    small: ({ context }, params) => context.n < params.than,
    both: and(['is it big?', not({ type: 'small', params: { than: 4 } })]),
  },
  delays: { soon: 5000, later: ({ context }) => context.n * 1000 },
  actors: { payment, ship: fromPromise(async () => 'on its way'), clock: fromCallback(({ sendBack }) => { sendBack({ type: 'TICK' }); }) },
}).createMachine({
  id: 'order',
  types: {},
  initial: 'basket',
  context: ({ input }) => ({ n: input?.n ?? 0, log: [] }),
  output: ({ context }) => ({ n: context.n }),
  states: {
    basket: {
      description: 'things are put in',
      entry: [() => {}, assign({ log: ({ context }) => [...context.log, 'basket'] })],
      on: {
        ADD: { actions: 'bump' },
        CLEAR: { actions: ['set to zero', 'mail'] },
        PICK: { actions: [{ type: 'mail', params: ({ context }) => ({ n: context.n }) }, 'pick'] },
        BUY: [
          { guard: 'both', target: 'paying' },
          { guard: ({ event }) => event.anyway === true, target: 'paying', actions: [() => {}, assign(({ context }) => ({ n: context.n + 10 }))] },
          { actions: assign({ log: ({ context, event }) => [...context.log, `no ${event.type}`] }) },
        ],
        LATER: { actions: [raise({ type: 'BUY', anyway: true }, { delay: 'soon', id: 'buy' }), log(({ context }) => context.n)] },
        NEVER: { actions: [cancel('buy'), emit({ type: 'calm' })] },
        CHOOSE: { actions: enqueueActions(({ enqueue, event }) => { for (let i = 0; i < event.times; i++) enqueue('bump'); }) },
        BACK: { target: 'basket', reenter: true },
      },
      after: { later: { target: 'gone', guard: or(['is it big?', () => false]) }, 3600000: 'gone' },
    },
    paying: {
      invoke: [
        { src: 'payment', id: 'pay', input: ({ context }) => ({ owed: context.n }), onDone: { target: 'paid', actions: assign({ rest: ({ event }) => event.output }) } },
        { src: 'clock', id: 'watch' },
      ],
      on: {
        COIN: { actions: forwardTo('pay') },
        PAID: { actions: assign({ log: ({ context }) => [...context.log, 'told'] }) },
        WATCH: { guard: stateIn('paying'), actions: ['ping', sendTo(({ context }) => context.who ?? 'watch', ({ context }) => ({ type: 'LOOK', n: context.n }))] },
        SPAWN: { actions: [spawnChild('clock', { id: ({ context }) => `clock-${context.n}` }), stopChild(({ context }) => `clock-${context.n - 1}`)] },
      },
    },
    paid: { invoke: { src: fromPromise(async () => 'shipped'), onDone: 'done', onError: { target: 'gone', actions: ({ event }) => { throw event.error; } } } },
    done: { type: 'final', meta: { colour: 'green', since: new Date(0), paint: () => {} } },
    gone: { type: 'final' },
  },
});

export const script = [
  { type: 'ADD' }, { type: 'ADD' }, { type: 'PICK' }, { type: 'BUY' }, { type: 'CLEAR' }, { type: 'CHOOSE', times: 4 }, { type: 'BACK' },
  { type: 'BUY', anyway: false }, { type: 'WATCH' }, { type: 'COIN', worth: 3 }, { type: 'COIN', worth: 2 },
];
