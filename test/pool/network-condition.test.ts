import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { noteFormat } from '../../src/pool/kinds/iscsi/connections.ts';
import { ConnectionNotes } from '../../src/pool/network-disk/connection-notes.ts';
import { NetworkDiskSide } from '../../src/pool/network-disk/side.ts';
import type { Target, TargetConnection } from '../../src/pool/network-disk/target.ts';
import { TargetState } from '../../src/pool/network-disk/target-state.ts';
import type { VolumeOnNode } from '../../src/pool/node-side.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 1);
const volume: VolumeOnNode = {
  handle: 'a' as VolumeOnNode['handle'],
  ...{ content: { type: 'block' }, accessModes: [], provisioning: 'thick', context: {} },
};
const one = (name: string, isLive: boolean): TargetConnection => ({ name, isLive, isOurs: true });

const disk = { name: 'sda', devicePath: '/dev/sda', device: { major: 8, minor: 0 }, sizeBytes: 1n };

type Part = Pick<Target<never>, 'connections'> & Partial<Pick<Target<never>, 'devicesOf' | 'pathsOf' | 'faultOf'>>;

async function conditionOf(part: Part): Promise<string> {
  using scratch = new Scratch('condition');
  const done = async () => undefined;
  const target: Target<never> = {
    ...{ name: 'iqn.a', nameKey: 'iqn', noun: 'logical unit', lossKey: 'replacementTimeout' },
    ...{ connect: done, disconnect: done, rescan: done, devicesOf: () => [disk], devicesOfOurs: () => [] },
    notThere: () => assert.fail(),
    isTwice: () => assert.fail(),
    ...part,
  };
  const notes = await ConnectionNotes.open<never>(queue, scratch.path, 'iqn.a', {
    ...noteFormat,
    schema: noteFormat.schema.transform((note) => ({ ...note, connections: [] })),
  });
  const context = { server: 'iqn.a', dataDirectory: scratch.path, queue, log: quiet };
  const { abnormal, message } = await new NetworkDiskSide('iscsi', context, target, new TargetState(notes)).condition(
    volume,
  );
  return `${abnormal ? 'abnormal' : 'normal'}: ${message}`;
}

describe('the condition of a volume on a network', () => {
  test('is normal while all connections work', async () => {
    assert.equal(await conditionOf({ connections: () => [one('session1', true)] }), 'normal: The target is connected.');
  });

  test('names the connections that do not, and says if none does', async () => {
    const connections = () => [one('nvme0', true), one('nvme1', false)];
    assert.equal(await conditionOf({ connections }), 'abnormal: 1 of 2 paths to the target are down: nvme1.');
    const none = 'abnormal: No connection to the target of this volume works now.';
    assert.equal(await conditionOf({ connections: () => [one('nvme1', false)] }), none);
    assert.equal(
      await conditionOf({ connections: () => [], pathsOf: async () => [one('10.0.0.1:3260', false)] }),
      none,
    );
  });

  test('names a path that the volume should have and has not', async () => {
    const pathsOf = async () => [one('10.0.0.1:3260', true), one('10.0.0.2:3260', false)];
    assert.equal(
      await conditionOf({ connections: () => [one('session1', true)], pathsOf }),
      'abnormal: 1 of 2 paths to the target are down: 10.0.0.2:3260.',
    );
  });

  test('says that the volume has no device, while its target is connected', async () => {
    const connections = () => [one('session1', true)];
    assert.equal(
      await conditionOf({ connections, devicesOf: () => [] }),
      'abnormal: This node has no device of the volume any more.',
    );
  });

  test('names a fault of the node, also beside paths that do not work', async () => {
    const connections = () => [one('session1', true)];
    const faultOf = async () => 'multipathd does not run.';
    assert.equal(await conditionOf({ connections, faultOf }), 'abnormal: multipathd does not run.');
    const pathsOf = async () => [one('10.0.0.1:3260', true), one('10.0.0.2:3260', false)];
    assert.equal(
      await conditionOf({ connections, pathsOf, faultOf }),
      'abnormal: 1 of 2 paths to the target are down: 10.0.0.2:3260. multipathd does not run.',
    );
  });
});
