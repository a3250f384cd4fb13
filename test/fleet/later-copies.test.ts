import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, mock, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { changeFleet } from '../../src/cli/fleet/change.ts';
import type { Output } from '../../src/cli/output/output.ts';
import { contract, decode, encode } from '../../src/csi/contract.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import type { FleetMoves } from '../../src/fleet/controller/fleet-moves.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import type { Sessions } from '../../src/fleet/controller/sessions.ts';
import type { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import type { ChangeWishes } from '../../src/fleet/view/request.ts';
import { topologyKey } from '../../src/volume/topology.ts';
import { deviceOf, digestOf, write } from '../move/devices.ts';
import { Broker, blockSpec, filled, MovingNode, moveAlong } from '../move/two-nodes.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { tell } from './support/told-fleet.ts';

const { id } = blockSpec;
const place = { namespace: 'holdfast', name: 'holdfast-controller' };
const usual: Omit<ChangeWishes, 'change' | 'node' | 'volume'> = {
  ...{ lostNode: undefined, lostPool: undefined, toPool: undefined, limitBytesPerSecond: undefined },
  withSnapshots: false,
  ...{ json: true, progress: false, dryRun: false, evenSo: false, undo: false },
};
const requestType = contract.lookupType('holdfast.fleet.v1.ChangeRequest');
const answerType = contract.lookupType('holdfast.fleet.v1.ChangeAnswer');

async function digestIn(node: MovingNode): Promise<string> {
  await using shown = await deviceOf(node, id);
  return digestOf(shown.devicePath);
}

/** The PersistentVolume of the volume names a node. */
function recorded(node: string) {
  const terms = [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: [node] }] }];
  return {
    metadata: { name: 'pv' },
    spec: {
      csi: { driver: 'holdfast.csi.dev', volumeHandle: id },
      nodeAffinity: { required: { nodeSelectorTerms: terms } },
    },
  };
}

describe('a copy of a first node, by the word that the later disk is lost', () => {
  const scratch = new Scratch('later-copies');
  let double: ApiDouble;
  let api: KubernetesApi;
  before(async () => {
    double = await ApiDouble.start();
    api = double.client(scratch);
    double.known.objects.set('secrets/holdfast-controller', {
      ...{ apiVersion: 'v1', kind: 'Secret', data: {} },
      metadata: { name: place.name, namespace: place.namespace, resourceVersion: '1' },
    });
  });
  after(async () => {
    api.close();
    await double[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  /** Restores the copy of a node, by the real calls to its driver. */
  function restore(nodes: Readonly<Record<string, MovingNode>>, known: FleetState, changes: Partial<ChangeWishes>) {
    const nodeOf = (name: string) => nodes[name] ?? assert.fail(`there is no node ${name}`);
    const calls = (name: string) => ({
      async call({ method, request }: { readonly method: string; readonly request: Buffer }) {
        const { mover, objects, pools } = nodeOf(name);
        const order = decode<wire.ChangeRequest>(requestType, request);
        const result = await adminService({ nodeId: name, pools, objects, mover }).restore(
          {
            ...{
              id,
              isTrial: method.endsWith('/CheckRestore'),
              words: order.words,
              lostNode: order.lost_node || undefined,
              lostPool: order.lost_pool || undefined,
            },
            ...{ laterThan: Number(order.later_than) || undefined, disclaimed: Number(order.disclaimed) || undefined },
          },
          { deadline: new Date(Date.now() + 20_000), note: () => undefined },
        );
        return encode(answerType, { result: JSON.stringify(result) });
      },
    });
    const moves = {
      list: () => [],
      handedOver: () => undefined,
      copyAt: (name: string) => nodeOf(name).mover.copies.look(id),
      disclaim: (name: string, given: { generation: number; source: string; lostPool?: string }) =>
        nodeOf(name).mover.copies.disclaim(id, given.generation, given.source, given.lostPool),
      async noteAt(name: string) {
        return (await nodeOf(name).mover.copies.noteOf(id)) ?? assert.fail('no pool is open');
      },
      async handedOverBy(name: string) {
        const { at, generation = 0 } = (await nodeOf(name).mover.copies.noteOf(id)) ?? {};
        return at === undefined ? undefined : { at, generation };
      },
    };
    return changeFleet(
      {
        ...{ api, place, state: known, driverName: 'holdfast.csi.dev', moves: moves as unknown as FleetMoves },
        sessions: { get: (name: string) => ({ calls: calls(name) }) } as unknown as Sessions,
      },
      { ...usual, change: 'restore', node: 'a', volume: id, ...changes },
      { line: () => undefined } as unknown as Output,
      new AbortController().signal,
    );
  }

  for (const lost of ['node', 'pool'] as const) {
    test(`does not become the volume while a third node has a later one in its trash: the ${lost} is lost`, async () => {
      using disks = new Scratch('third');
      const broker = new Broker();
      await using a = await MovingNode.open(disks, broker, 'a');
      await using c = await MovingNode.open(disks, broker, 'c');
      let latest: string;
      {
        await using b = await MovingNode.open(disks, broker, 'b', { poolNames: ['data', 'other'] });
        await filled(a);
        await moveAlong(id, a, b, c);
        await using shown = await deviceOf(c, id);
        write(shown.devicePath, randomBytes(4 << 20), 0n);
        latest = digestOf(shown.devicePath);
      }
      {
        await using b = await MovingNode.open(disks, broker, 'b', { poolNames: ['data', 'other'] });
        await moveAlong(id, c, b);
      }
      await using b = await MovingNode.open(disks, broker, 'b', { poolNames: ['other'] });
      const known = new FleetState();
      known.expect(['a', 'b', 'c']);
      if (lost === 'node') known.forget(['b']);
      for (const node of lost === 'node' ? ['a', 'c'] : ['a', 'b', 'c']) tell(known, node, []);
      double.known.answers.set('/persistentvolumes', [200, { metadata: {}, items: [recorded('b')] }]);
      const word = lost === 'node' ? { lostNode: 'b' } : { lostPool: 'data' };
      await assert.rejects(restore({ a, b, c }, known, word), {
        name: 'FailedPrecondition',
        message: /^node c has a later copy of volume .* in its trash: restore that one, with --node c/,
      });
      await restore({ a, b, c }, known, { ...word, node: 'c' });
      assert.equal(await digestIn(c), latest);
    });
  }

  test('becomes it, by a second word, though a PersistentVolume names a node which has nothing of it', async () => {
    using disks = new Scratch('recorded');
    const broker = new Broker();
    await using a = await MovingNode.open(disks, broker, 'a');
    await using c = await MovingNode.open(disks, broker, 'c');
    let before: string;
    {
      await using b = await MovingNode.open(disks, broker, 'b');
      await filled(a);
      before = await digestIn(a);
      await moveAlong(id, a, b);
    }
    const known = new FleetState();
    known.expect(['a', 'b', 'c']);
    known.forget(['b']);
    for (const node of ['a', 'c']) tell(known, node, []);
    double.known.answers.set('/persistentvolumes', [200, { metadata: {}, items: [recorded('c')] }]);
    const refused = { name: 'FailedPrecondition', message: /may be on node c, .* --even-so/ };
    await assert.rejects(restore({ a, c }, known, { lostNode: 'b' }), refused);
    // By its note the volume may be on a disk that is away.
    const noted = mock.method(c.mover.copies, 'noteOf', async () => ({ generation: 1, node: 'c' }));
    await assert.rejects(restore({ a, c }, known, { lostNode: 'b', evenSo: true }), refused);
    noted.mock.restore();
    await restore({ a, c }, known, { lostNode: 'b', evenSo: true });
    assert.equal(await digestIn(a), before);
  });
});
