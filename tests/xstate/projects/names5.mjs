// Names that Python has for itself, or a machine, or the generated file; a delay that is a number; functions that take params.
import { setup } from 'xstate';

export default setup({
  actions: { pass: () => {}, retry: () => {}, value: () => {}, action: () => {}, 'on wake': () => {}, note: (_, params) => params },
  guards: { is: () => true, above: ({ context }, params) => context.n > params.than },
  delays: { patience: 60_000, 'two days': 172_800_000 },
}).createMachine({
  id: 'names',
  initial: 'a',
  context: { n: 1 },
  states: {
    a: {
      entry: ['pass', 'retry', 'value', 'action', 'on wake', { type: 'note', params: { text: 'x' } }],
      on: { GO: [{ guard: { type: 'above', params: { than: 3 } }, target: 'b' }, { guard: 'is', target: 'b' }] },
      after: { patience: 'b', 'two days': 'b' },
    },
    b: {},
  },
});

export const script = [{ type: 'GO' }];
