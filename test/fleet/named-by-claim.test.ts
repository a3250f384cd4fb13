import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { changeFleet } from '../../src/cli/fleet/change.ts';
import type { Output } from '../../src/cli/output/output.ts';
import { contract, decode, encode } from '../../src/csi/contract.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import type { FleetMoves } from '../../src/fleet/controller/fleet-moves.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import type { Sessions } from '../../src/fleet/controller/sessions.ts';
import type { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import type { ChangeWishes } from '../../src/fleet/view/request.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { tell } from './support/told-fleet.ts';

const one = volumeIdFor('a', 'data', 'one');
const two = volumeIdFor('a', 'data', 'two');

/** A PersistentVolume of that claim. */
const recorded = (name: string, volumeHandle: string | undefined = one, driver = 'holdfast.csi.dev') => ({
  metadata: { name },
  spec: { csi: { driver, volumeHandle }, claimRef: { namespace: 'shop', name: 'data-db-0' } },
});

const listedVolume = {
  ...{ name: 'pv', claim: { namespace: 'shop', name: 'data-db-0' }, pool: 'data', sizeBytes: '1', parameters: {} },
  ...{ content: { type: 'block' }, accessModes: ['SINGLE_NODE_WRITER'], provisioning: 'thin', blockSizeBytes: 4096 },
  ...{ createdAt: '2026-11-01T10:00:00.000Z', undeleteSeconds: 0, state: 'detached', devices: [], stagedAt: [] },
  ...{ publishedAt: [], snapshots: [] },
};

/** The volumes of some nodes that have that claim. */
type Listed = Readonly<Record<string, readonly string[]>>;

function listing(ids: readonly string[]) {
  const items = ids.map((id) => JSON.stringify({ ...listedVolume, id }));
  return {
    async *stream({ request }: { readonly request: Buffer }) {
      const { list } = decode<wire.LookRequest>(contract.lookupType('holdfast.fleet.v1.LookRequest'), request);
      yield encode(contract.lookupType('holdfast.fleet.v1.LookPart'), { items: list === 'volumes' ? items : [] });
    },
  };
}

describe('a volume whose record is lost with its node', () => {
  const scratch = new Scratch('named-by-claim');
  let double: ApiDouble;
  let api: KubernetesApi;
  before(async () => {
    double = await ApiDouble.start();
    api = double.client(scratch);
    const metadata = { name: 'holdfast-controller', namespace: 'holdfast', resourceVersion: '1' };
    double.known.objects.set('secrets/holdfast-controller', { apiVersion: 'v1', kind: 'Secret', metadata, data: {} });
  });
  after(async () => {
    api.close();
    await double[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  /** @returns the volume that node b is ordered to finish the move of */
  async function finished(volume: string, items: readonly object[], listed: Listed = {}): Promise<string> {
    double.known.answers.set('/persistentvolumes', [200, { metadata: {}, items }]);
    const state = new FleetState();
    state.expect(['a', 'b']);
    state.forget(['a']);
    for (const node of ['b', ...Object.keys(listed)]) tell(state, node, []);
    const ordered: string[] = [];
    const calls = {
      async call({ request }: { readonly request: Buffer }) {
        const { volume_id: id } = decode<wire.ChangeRequest>(
          contract.lookupType('holdfast.fleet.v1.ChangeRequest'),
          request,
        );
        ordered.push(id);
        throw new FailedPrecondition('it has heard enough.');
      },
    };
    const wishes: ChangeWishes = {
      ...{ change: 'finish', node: 'b', volume, lostNode: 'a', lostPool: undefined, toPool: undefined },
      withSnapshots: false,
      ...{ json: true, progress: false, dryRun: false, evenSo: false, undo: false, limitBytesPerSecond: undefined },
    };
    const fleet = {
      ...{ api, state, driverName: 'holdfast.csi.dev', place: { namespace: 'holdfast', name: 'holdfast-controller' } },
      moves: {
        list: () => [],
        handedOver: () => undefined,
        copyAt: async () => ({ generation: 0, isVolume: false }),
      } as unknown as FleetMoves,
      sessions: {
        find: (node: string) => ({ calls: listing(listed[node] ?? []) }),
        get: () => ({ calls }),
      } as unknown as Sessions,
    };
    await changeFleet(fleet, wishes, {} as Output, new AbortController().signal).catch((error: unknown) => {
      if (ordered.length === 0) throw error;
    });
    return ordered.join(' ');
  }

  test('is known by the claim or the name of its PersistentVolume', async () => {
    assert.equal(await finished('shop/data-db-0', [recorded('pv')]), one);
    assert.equal(await finished('pv', [recorded('pv')]), one);
    // As while it moves.
    assert.equal(await finished('shop/data-db-0', [recorded('pv'), recorded('pv-moved-1')]), one);
    const others = [recorded('pv', 'not-one-of-ours'), recorded('pv', two, 'other.csi.dev')];
    assert.equal(await finished('shop/data-db-0', [recorded('pv'), ...others]), one);
  });

  test('is the one that a node lists, if any does, and the one of the node that is named before those of others', async () => {
    const claim = 'shop/data-db-0';
    assert.equal(await finished(claim, [recorded('pv')], { c: [two] }), two);
    assert.equal(await finished(claim, [recorded('pv')], { b: [one], c: [two] }), one);
    await assert.rejects(finished(claim, [recorded('pv')], { c: [one], d: [two] }), {
      name: 'FailedPrecondition',
      message: /is 2 volumes, vol-.*claim shop\/data-db-0, pool data of node c\), vol-.*, pool data of node d\)/,
    });
  });

  test('is not guessed', async () => {
    await assert.rejects(finished('shop/data-db-0', [recorded('pv'), recorded('older', two)]), {
      name: 'FailedPrecondition',
      message: /name one by its id: 'shop\/data-db-0' is 2 volumes, vol-/,
    });
    await assert.rejects(finished('shop/data', [recorded('pv')]), {
      name: 'NotFound',
      message: /no volume 'shop\/data' on the nodes that answered, or in a PersistentVolume/,
    });
  });
});
