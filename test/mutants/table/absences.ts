import type { Mutant } from '../mutant.ts';

const absences = 'src/fleet/routing/absences.test.ts';
const told = 'test/fleet/claims-told.test.ts';
const taint = 'test/fleet/quarantine-taint.test.ts';

/** Nodes that are away or sick: what Kubernetes is told of them. */
export const absenceMutants: readonly Mutant[] = [
  {
    name: 'an absence is told when nobody has contradicted it for a while',
    file: 'src/fleet/routing/absences.ts',
    text: 'told !== true && isCertain(node, absence)',
    replacement: 'told !== true',
    killer: absences,
  },
  {
    name: 'who was not told that a node is away is not told that it is back',
    file: 'src/fleet/routing/absences.ts',
    text: 'told === true ? { ...absence, back: dateTime(nowMs) } : undefined',
    replacement: '{ ...absence, back: dateTime(nowMs) }',
    killer: absences,
  },
  {
    name: 'replicas give the event of an absence one name',
    file: 'src/fleet/kubernetes/claim-events.ts',
    text: "[claim.uid, node, since, kind].join('\\n')",
    replacement: "[claim.uid, node, since, kind, Math.random()].join('\\n')",
    killer: told,
  },
  {
    name: 'no more claims are told than the API server should hold',
    file: 'src/fleet/controller/claim-teller.ts',
    text: 'notices.slice(0, maxNotices)',
    replacement: 'notices.slice(0)',
    killer: told,
  },
  {
    name: 'what is told is told once',
    file: 'src/fleet/controller/claim-teller.ts',
    text: 'this.#toldAtMs.set(name, this.#now());',
    replacement: '',
    killer: told,
  },
  {
    name: 'only our own taint is taken away',
    file: 'src/fleet/kubernetes/taints.ts',
    text: 'taints.filter((one) => one.key !== key)',
    replacement: '[]',
    killer: 'src/fleet/kubernetes/taints.test.ts',
  },
  {
    name: 'a node that nobody has named yet keeps its taint',
    file: 'src/fleet/controller/keepers/quarantine-keeper.ts',
    text: 'if (!state.areNodesKnown) return;',
    replacement: '',
    killer: taint,
  },
  {
    name: 'a pool that is well for a moment does not end the taint',
    file: 'src/fleet/controller/keepers/quarantine-keeper.ts',
    text: 'wellForMs >= wellMs',
    replacement: 'wellForMs >= 0 && !sick.has(name) && state.node(name)?.isLinked === true',
    killer: taint,
  },
];
