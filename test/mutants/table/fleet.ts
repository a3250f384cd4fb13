import type { Mutant } from '../mutant.ts';

const routes = 'src/fleet/routing/route.test.ts';
const hostile = 'test/fleet/hostile.test.ts';
const strays = 'test/fleet/strays.test.ts';

/** Many nodes: where a call goes, whose word counts, and what may be put away. */
export const fleetMutants: readonly Mutant[] = [
  {
    name: 'an id that nobody has is asked of the nodes only when all have told',
    file: 'src/fleet/routing/by-id.ts',
    text: 'requireAllTold(view, id);',
    replacement: '',
    killer: routes,
  },
  {
    name: 'a node that has a link and has not told all is missing',
    file: 'src/fleet/routing/missing.ts',
    text: '!(hasTold && isLinked)',
    replacement: '!isLinked',
    killer: routes,
  },
  {
    name: 'a node that has told all and lost its link is missing',
    file: 'src/fleet/routing/missing.ts',
    text: '!(hasTold && isLinked)',
    replacement: '!hasTold',
    killer: routes,
  },
  {
    name: 'nobody knows which nodes have the driver before Kubernetes has said it',
    file: 'src/fleet/routing/missing.ts',
    text: 'if (!view.areNodesKnown) {',
    replacement: 'if (view.nodes.length < 0) {',
    killer: routes,
  },
  {
    name: 'the id of another node is believed only when all have told',
    file: 'src/fleet/routing/owner.ts',
    text: 'owner.isNative ? [] : untold(view)',
    replacement: '[]',
    killer: routes,
  },
  {
    name: 'a node that made an id goes before one that says it has it',
    file: 'src/fleet/routing/owner.ts',
    text: 'native.length > 0 ? native : owners',
    replacement: 'owners',
    killer: routes,
  },
  {
    name: 'the node of a PersistentVolume must be there before a deletion of its volume is answered',
    file: 'src/fleet/controller/calls.ts',
    text: "if (route.to === 'all' && method.name === 'DeleteVolume') await requireNowhere(parts, request);",
    replacement: '',
    killer: 'test/fleet/gone-node.test.ts',
  },
  {
    name: 'of nodes that are asked, one that fails otherwise than by "not found" is heard',
    file: 'src/fleet/controller/forward.ts',
    text: 'failures.find((error) => !isNotFound(error))',
    replacement: 'failures.find(() => false)',
    killer: 'test/fleet/forward.test.ts',
  },
  {
    name: 'a node speaks for the node of its token',
    file: 'src/fleet/controller/node-session.ts',
    text: 'if (node_id !== node) return',
    replacement: "if (node_id === '') return",
    killer: hostile,
    only: 'nobody is heard',
  },
  {
    name: 'a new token is of the same node',
    file: 'src/fleet/controller/fleet-server.ts',
    text: 'renewed.node !== bearer.node',
    replacement: "renewed.node === ''",
    killer: hostile,
    only: 'nobody is heard',
  },
  {
    name: "a token is of the nodes' account",
    file: 'src/fleet/kubernetes/tokens.ts',
    text: 'status.user?.username !== user',
    replacement: 'status.user === undefined',
    killer: hostile,
    only: 'nobody is heard',
  },
  {
    name: 'a token is bound to a node',
    file: 'src/fleet/kubernetes/tokens.ts',
    text: "if (node === undefined || others.length > 0) throw new BadToken('The token is not bound to a pod on a node.');",
    replacement: '',
    killer: hostile,
    only: 'nobody is heard',
  },
  {
    name: 'what a PersistentVolume stands for is no stray',
    file: 'src/fleet/routing/strays.ts',
    text: 'recorded.has(id)',
    replacement: 'false',
    killer: strays,
  },
  {
    name: 'what a snapshot was cut of is no stray',
    file: 'src/fleet/routing/strays.ts',
    text: 'view.isSource(id)',
    replacement: 'false',
    killer: strays,
  },
  {
    name: 'a stray is one only if another node has what is recorded',
    file: 'src/fleet/routing/strays.ts',
    text: 'other.id === chosen && ',
    replacement: '',
    killer: strays,
  },
  {
    name: 'a stray stays for a while',
    file: 'src/fleet/controller/stray-keeper.ts',
    text: '< strayDelayMs',
    replacement: '< 0',
    killer: strays,
  },
  {
    name: 'a stray can be brought back',
    file: 'src/fleet/controller/stray-keeper.ts',
    text: "await call('ControllerModifyVolume', { volume_id: id, mutable_parameters: { undelete } });",
    replacement: '',
    killer: strays,
  },
];
