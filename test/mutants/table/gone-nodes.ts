import type { Mutant } from '../mutant.ts';

const counting = 'src/fleet/routing/gone.test.ts';
const forgetting = 'test/fleet/forget-by-class.test.ts';

/** Nodes that are gone: when a deletion waits for them no longer. */
export const goneNodeMutants: readonly Mutant[] = [
  {
    name: 'time that another replica has counted is not counted again',
    file: 'src/fleet/routing/gone.ts',
    text: 'if (before === undefined || !isSame(before.gone, gone)) continue;',
    replacement: 'if (before === undefined) continue;',
    killer: counting,
  },
  {
    name: 'time in which nobody looked is not counted',
    file: 'src/fleet/routing/gone.ts',
    text: 'Math.min(nowMs - before.sinceMs, longestStepMs)',
    replacement: 'nowMs - before.sinceMs',
    killer: counting,
  },
  {
    name: 'a note that was changed is seen from then on',
    file: 'src/fleet/routing/gone.ts',
    text: 'known !== undefined && isSame(known.gone, gone)',
    replacement: 'known !== undefined',
    killer: counting,
  },
  {
    name: 'what is bound is not forgotten by its class',
    file: 'src/fleet/routing/gone.ts',
    text: "record.phase === 'Released' &&",
    replacement: '',
    killer: counting,
  },
  {
    name: 'what is to be kept is not forgotten by its class',
    file: 'src/fleet/routing/gone.ts',
    text: "record.reclaimPolicy === 'Delete' &&",
    replacement: '',
    killer: counting,
  },
  {
    name: 'a class waits for as long as it says',
    file: 'src/fleet/controller/gone-nodes.ts',
    text: 'gone === undefined || gone.seconds < limit',
    replacement: 'gone === undefined',
    killer: forgetting,
  },
  {
    name: 'a Node that is there again is asked for when it counts',
    file: 'src/fleet/controller/gone-nodes.ts',
    text: '(await isNodeThere(api, node)) || this.#isKnown(node)',
    replacement: 'this.#isKnown(node)',
    killer: forgetting,
  },
  {
    name: 'a node that was there for a moment is counted anew',
    file: 'src/fleet/controller/gone-nodes.ts',
    text: 'state.node(node) !== undefined || returned.has(node)',
    replacement: 'state.node(node) !== undefined',
    killer: forgetting,
  },
  {
    name: 'a class forgets no node within a day',
    file: 'src/controller/volumes/parameters.ts',
    text: 'seconds >= leastForgetSeconds',
    replacement: 'seconds >= 0',
    killer: forgetting,
  },
];
