import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import type { CrashPoint, StepName } from '../../../src/volume/step.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { openCloudPool, type TestCloud } from '../clouds.ts';
import { FakeMachines } from '../fake-machine.ts';

const program = fileURLToPath(new URL('../node-process.ts', import.meta.url));

async function run(words: readonly string[]): Promise<{ readonly output: string; readonly signal: string | null }> {
  const child = spawn(process.execPath, [program, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk));
  const [, signal] = await once(child, 'close');
  return { output, signal };
}

async function liveAndDie(
  cloud: TestCloud,
  point: CrashPoint,
  fsType: 'ext4' | 'xfs' | 'btrfs',
  { isAtEnd = false, isRestored = false } = {},
): Promise<void> {
  const [instance] = cloud.machines;
  using scratch = new Scratch('cloud-node-killed');
  await using fake = await cloud.start();
  const machines = FakeMachines.at(fake, scratch.join('cloud'));
  fake.instance(instance);
  const pool = await openCloudPool(cloud, scratch, fake.url);
  try {
    const content = { type: 'mount', fsType } as const;
    const made = await pool.create(volumeSpec('a', { content, sizeBytes: 1n << 30n }));
    const [volume] = fake.volumes.values();
    let record = made;
    if (isRestored) {
      execFileSync(`mkfs.${fsType}`, ['-q', machines.file(volume?.id ?? '')]);
      const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: made.id, parameters: {} };
      await pool.takeSnapshots([snapshot]);
      await fake.settled();
      record = await pool.create(volumeSpec('b', { content, sizeBytes: 1n << 30n }), {
        type: 'snapshot',
        id: snapshot.id,
      });
    }
    const published = (await pool.cluster?.publisher?.publish(record, instance)) ?? {};
    const context = { kind: cloud.kind, ...pool.cluster?.contextOf(record) };
    const words = (work: string) => [
      ...[cloud.kind, scratch.path, machines.links(instance), work, fsType, record.id],
      ...[JSON.stringify(context), JSON.stringify(published)],
    ];
    if (isAtEnd) {
      const { output, signal } = await run(words('up'));
      assert.equal(signal, null, output);
    }
    const killed = await run([...words(isAtEnd ? 'down' : 'up'), JSON.stringify(point)]);
    assert.equal(killed.signal, 'SIGKILL', killed.output);
    const { output, signal } = await run(words('down'));
    assert.equal(signal, null, output);
    assert.deepEqual(JSON.parse(output), { mounts: [], notes: [] });
    await pool.cluster?.publisher?.unpublish(record.id, instance);
  } finally {
    await fake.settled();
    await pool.close();
  }
}

const made: readonly StepName[] = [
  'volume-note/write',
  'cloud/note',
  'cloud/mark',
  'cloud/format',
  'cloud/unmark',
  'stage/mount',
  'publish/target',
  'publish/mount',
];
const ended: readonly StepName[] = ['unpublish/unmount', 'unpublish/target', 'unstage/unmount', 'volume-note/remove'];

/** A node service is killed at each step of a volume's life; the next one makes a filesystem of it, if there is none, and leaves nothing. */
export function nodeKilledTests(cloud: TestCloud): void {
  describe(`a node service that is killed in the life of a volume of kind ${cloud.kind}`, () => {
    for (const when of ['before', 'after'] as const) {
      for (const step of made) {
        test(`${when} ${step}`, () => liveAndDie(cloud, { when, step }, 'ext4'));
      }
      for (const step of ended) {
        test(`${when} ${step} at its end`, () => liveAndDie(cloud, { when, step }, 'ext4', { isAtEnd: true }));
      }
    }

    for (const step of ['cloud/mark', 'cloud/identity', 'cloud/unmark'] as const) {
      test(`after ${step} of a restored one`, () =>
        liveAndDie(cloud, { when: 'after', step }, 'xfs', { isRestored: true }));
    }
  });
}
