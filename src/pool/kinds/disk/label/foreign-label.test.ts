import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { DataLoss } from '../../../../volume/errors.ts';
import { volumeIdFor } from '../../../../volume/id.ts';
import type { VolumeRecord } from '../../../../volume/record.ts';
import { Wiper } from '../../../wipe/wiper.ts';
import { DiskBackend } from '../disk-backend.ts';
import type { MappedParts } from '../mapped.ts';
import type { DiskLabel } from './disk-label.ts';
import type { ObjectState } from './payload.ts';

const id = volumeIdFor('node', 'test', 'v');
const name = `${id}.00000000`;
const lengthBytes = 1n << 29n;
const foreign = new DataLoss('somebody else has written the label');
const unheard = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** The state of the object, or a draft that comes from another pool. */
type Found = ObjectState | 'incoming';

/** A pool whose label another node has written since this one read it. @returns it, and the devices that it opened */
function poolWith(state: Found, lost: AbortSignal = new AbortController().signal) {
  const opened: string[] = [];
  const queue = new DiskQueue('test', 2);
  const refuse = async () => {
    throw foreign;
  };
  const label: DiskLabel = {
    payload: {
      poolId: '7d0f1f4c-64ab-4a3e-8e69-2a3d6a1c7a77',
      disk: { name: 'wwid t10.disk', sizeBytes: 1n << 30n },
      data: { offsetBytes: 2n << 20n, lengthBytes },
      object: state === 'incoming' ? { name, state: 'draft', incoming: 'a move' } : { name, state },
    },
    obstacle: undefined,
    lost,
    refresh: refuse,
    settled: refuse,
    change: refuse,
    probe: refuse,
    leave: refuse,
    [Symbol.asyncDispose]: async () => undefined,
  };
  const mapped = {
    data: () => ({ name, uuid: name }),
    find: () => undefined,
    async open() {
      opened.push(name);
      throw new Error('opened');
    },
    remove: async () => true,
  } as unknown as MappedParts;
  const backend = new DiskBackend({
    ...{ poolName: 'test', queue, calls: queue, formatQueue: queue, label, mapped },
    ...{ wiper: new Wiper({ poolName: 'test', log: unheard, queue, atOnce: 1 }), wipePolicy: 'zero' },
    ...{ blockSizeBytes: 512, mayAdopt: false },
  });
  return { backend, opened };
}

const destruction = { isNeeded: true, isShared: false, signal: new AbortController().signal };

/** All that reads or writes the disk's content: the state that it needs, and the call. */
const ways: Readonly<Record<string, readonly [Found, (backend: DiskBackend) => Promise<unknown>]>> = {
  'an attach': ['volume', ({ attacher }) => attacher.attach({ id } as VolumeRecord)],
  'a wipe': ['removed', ({ provisioner }) => provisioner.destroy(name, destruction)],
  'a move from there': [
    'volume',
    async ({ extras }) => extras.transfer?.read({ kind: 'volume', record: { id } as VolumeRecord }),
  ],
  'a move to there': ['incoming', async ({ extras }) => extras.transfer?.incoming(id).open()],
  'the ends of a draft': ['draft', ({ provisioner }) => provisioner.destroy(name, destruction)],
  'what destroys the keys': ['removed', ({ provisioner }) => provisioner.openInTrash(name)],
  'mkfs, and a layer over it': [
    'draft',
    ({ provisioner }) => {
      const draft = provisioner.draft(id);
      assert.ok(draft.withDevice !== undefined);
      return draft.withDevice(512, async () => undefined);
    },
  ],
};

describe('H4: the label is read before the first byte of what the disk has, by', () => {
  for (const [way, [state, go]] of Object.entries(ways)) {
    test(way, async () => {
      const { backend, opened } = poolWith(state);
      await assert.rejects(go(backend), foreign);
      assert.deepEqual(opened, []);
    });
  }
});

test('H4: the condition of the volume tells it', async () => {
  const { backend } = poolWith('volume', AbortSignal.abort(foreign));
  const condition = await backend.provisioner.conditionOf({ id } as VolumeRecord);
  assert.equal(condition?.abnormal, true);
  assert.match(condition?.message ?? '', /^Another node has written to its disk\./);
});
