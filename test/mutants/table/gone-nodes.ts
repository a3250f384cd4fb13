import type { Mutant } from '../mutant.ts';

const counting = 'src/fleet/routing/gone.test.ts';
const forgetting = 'test/fleet/forget-by-class.test.ts';

/** Nodes that are gone: when a deletion waits for them no longer. */
export const goneNodeMutants: readonly Mutant[] = [
  {
    name: 'time that another replica has counted is not counted again',
    file: 'src/fleet/routing/gone.ts',
    text: 'if (before === undefined || !isSame(before.gone, gone)) return 0;',
    replacement: 'if (before === undefined) return 0;',
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
    file: 'src/fleet/controller/keepers/gone-nodes.ts',
    text: 'gone === undefined || gone.seconds < limit',
    replacement: 'gone === undefined',
    killer: forgetting,
  },
  {
    name: 'a Node that is there again is asked for when it counts',
    file: 'src/fleet/controller/keepers/gone-nodes.ts',
    text: '(await isNodeThere(api, node)) || this.#isKnown(node)',
    replacement: 'this.#isKnown(node)',
    killer: forgetting,
  },
  {
    name: 'a node that was there for a moment is counted anew',
    file: 'src/fleet/controller/keepers/gone-nodes.ts',
    text: 'if (state.node(node) !== undefined || this.#sighted.has(node)) return false;',
    replacement: 'if (state.node(node) !== undefined) return false;',
    killer: forgetting,
  },
  {
    name: 'a node that one replica knew at its last look is counted by none of them yet',
    file: 'src/fleet/controller/keepers/gone-nodes.ts',
    text: 'for (const { name } of state.nodes) this.#sight(name);',
    replacement: '',
    killer: forgetting,
  },
  {
    name: 'only Kubernetes says that there is no Node',
    file: 'src/fleet/kubernetes/classes.ts',
    text: "error.status === notFound && error.reason === 'NotFound'",
    replacement: 'error.status === notFound',
    killer: forgetting,
  },
  {
    name: 'a class forgets no node within a day',
    file: 'src/controller/volumes/parameters.ts',
    text: 'seconds >= minForgetSeconds',
    replacement: 'seconds >= 0',
    killer: forgetting,
  },
];
