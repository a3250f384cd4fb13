import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { LinkFinder } from '../../../src/pool/cloud-disk/attached/finder.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import type { VolumeRecord } from '../../../src/volume/record.ts';
import { CallError } from '../../support/client.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { mountCapability } from '../../support/node-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { openCloudPool, type TestCloud } from '../clouds.ts';
import type { FakeCloud } from '../fake-cloud.ts';
import { FakeMachines } from '../fake-machine.ts';

/** Volumes of a cloud on a node: loop devices in the place of its disks. */
export function nodeTests(cloud: TestCloud): void {
  const [instance, other] = cloud.machines;
  let fake: FakeCloud;
  let machines: FakeMachines;
  let harness: ContextHarness;
  let pool: Catalog;

  beforeEach(async () => {
    fake = await cloud.start();
    const scratch = new Scratch('cloud-node');
    machines = FakeMachines.at(fake, scratch.join('cloud'));
    for (const id of [instance, other]) fake.instance(id);
    harness = await ContextHarness.open([cloud.nodeKind(new LinkFinder(machines.links(instance)))], scratch);
    pool = await openCloudPool(cloud, scratch, fake.url);
  });
  afterEach(async () => {
    await pool.close();
    await fake.settled();
    await harness[Symbol.asyncDispose]();
    await fake[Symbol.asyncDispose]();
  });

  const make = (fsType: 'ext4' | 'xfs' | 'btrfs' = 'ext4', more: object = {}) =>
    pool.create(volumeSpec(fsType, { content: { type: 'mount', fsType }, sizeBytes: 1n << 30n, ...more }));

  /** A made volume at a node: the calls about it, with what the home has answered. */
  async function published(record: VolumeRecord, node = instance) {
    const publish_context = (await pool.cluster?.publisher?.publish(record, node)) ?? {};
    const volume_context = { kind: cloud.kind, ...pool.cluster?.contextOf(record) };
    const fsType = record.content.type === 'mount' ? record.content.fsType : '';
    const volume = harness.volume(record.id, mountCapability('SINGLE_NODE_WRITER', [], fsType));
    return { volume, stage: () => volume.stage({ publish_context, volume_context }), volume_context };
  }

  async function gone(record: VolumeRecord, node = instance): Promise<void> {
    await pool.cluster?.publisher?.unpublish(record.id, node);
  }

  function refused(call: Promise<unknown>, code: string, message: RegExp): Promise<void> {
    return assert.rejects(call, (error) => {
      assert.ok(error instanceof CallError && message.test(error.message), String(error));
      assert.equal(error.code, code);
      return true;
    });
  }

  const deviceOf = (record: VolumeRecord) => {
    const id = pool.cluster?.contextOf(record)['volumeId'] ?? '';
    return { file: machines.file(id), id };
  };

  describe(`a volume of kind ${cloud.kind} on a node`, () => {
    for (const fsType of ['ext4', 'xfs', 'btrfs'] as const) {
      test(`gets its ${fsType} at its first use, and keeps its data from then on`, async () => {
        const record = await make(fsType);
        const first = await published(record);
        await first.stage();
        await first.stage();
        await first.volume.publish({ volume_context: first.volume_context });
        writeFileSync(join(first.volume.target, 'file'), 'data');
        await first.volume.down();
        // The same publication again: pods come and go.
        await first.stage();
        await first.volume.unstage();
        await gone(record);
        const second = await published(record);
        await second.stage();
        await second.volume.publish({ volume_context: second.volume_context });
        assert.equal(readFileSync(join(second.volume.target, 'file'), 'utf8'), 'data');
        await second.volume.down();
        await gone(record);
        assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
      });
    }

    test('is not formatted when it is blank after its first node', async () => {
      const record = await make();
      const { stage, volume } = await published(record);
      await stage();
      await volume.unstage();
      await gone(record);
      execFileSync('truncate', ['--size', '0', deviceOf(record).file]);
      execFileSync('truncate', ['--size', '1G', deviceOf(record).file]);
      // Another node knows nothing of the first one.
      rmSync(harness.scratch.join('data', cloud.kind), { recursive: true });
      const again = await published(record);
      await refused(again.stage(), 'FAILED_PRECONDITION', /is blank, and was published to a node before/);
      await gone(record);
    });

    test('is not formatted twice by its first node', async () => {
      const record = await make();
      const { stage, volume } = await published(record);
      await stage();
      await volume.unstage();
      const { file } = deviceOf(record);
      const bytes = openSync(file, 'r+');
      for (let at = 0; at < 64; at++) writeSync(bytes, Buffer.alloc(1 << 20), 0, 1 << 20, at << 20);
      closeSync(bytes);
      execFileSync('wipefs', ['--all', '--quiet', file]);
      execFileSync('blockdev', [
        '--flushbufs',
        execFileSync('losetup', ['-j', file], { encoding: 'utf8' }).split(':')[0] ?? '',
      ]);
      await refused(stage(), 'FAILED_PRECONDITION', /not formatted|not mounted|cannot be mounted|is blank/);
      await gone(record);
    });

    for (const [what, spoil] of [
      ['a signature', (file: string) => void execFileSync('mkswap', ['-q', file])],
      ['data at its beginning', (file: string) => writeInto(file, 4096)],
      ['data at its end', (file: string) => writeInto(file, 2 ** 30 - 8192)],
    ] as const) {
      test(`is not formatted if it has ${what}`, async () => {
        const record = await make();
        spoil(deviceOf(record).file);
        const { stage } = await published(record);
        const before = readFileSync(deviceOf(record).file);
        await refused(stage(), 'FAILED_PRECONDITION', /must have ext4, but its device shows/);
        assert.ok(readFileSync(deviceOf(record).file).equals(before));
        await gone(record);
      });
    }

    test('that was named by a person is never formatted, and is used under its own id', async () => {
      const foreign = fake.foreignVolume();
      await fake.settled();
      const volume_context = { kind: cloud.kind, volumeId: foreign.id };
      const publish_context = { firstUse: 'true' };
      await pool.cluster?.publisher?.publishProvided(foreign.id, instance);
      const wrong = harness.volume('mine', mountCapability());
      await refused(
        wrong.stage({ volume_context, publish_context }),
        'INVALID_ARGUMENT',
        /is its id: write (vol-|projects\/)/,
      );
      const volume = harness.volume(foreign.id, mountCapability('SINGLE_NODE_WRITER', [], 'ext4'));
      await refused(
        volume.stage({ volume_context, publish_context }),
        'FAILED_PRECONDITION',
        /It is not formatted here/,
      );
      execFileSync('mkfs.ext4', ['-q', machines.file(foreign.id)]);
      await volume.stage({ volume_context, publish_context });
      await volume.unstage();
      await pool.cluster?.publisher?.unpublishProvided(foreign.id, instance);
    });

    test('without a device is UNAVAILABLE', async () => {
      const record = await make();
      const { stage } = await published(record, other);
      await refused(stage(), 'UNAVAILABLE', /no disk with serial number (vol|holdfast-)/);
      await gone(record, other);
    });

    test('grows in use', async () => {
      const record = await make('xfs');
      const { stage, volume, volume_context } = await published(record);
      await stage();
      await volume.publish({ volume_context });
      await pool.grow(record.id, 2n << 30n);
      assert.equal((await volume.expand(2n << 30n)).capacity_bytes, 2n << 30n);
      const size = Number(execFileSync('stat', ['-f', '-c', '%b', volume.target], { encoding: 'utf8' }));
      assert.ok(size * 4096 > 1.8 * 2 ** 30);
      await volume.down();
      await gone(record);
    });

    for (const fsType of ['ext4', 'xfs', 'btrfs'] as const) {
      test(`restored from a snapshot is mounted beside its source (${fsType})`, async () => {
        const record = await make(fsType);
        const source = await published(record);
        await source.stage();
        await source.volume.publish({ volume_context: source.volume_context });
        writeFileSync(join(source.volume.target, 'file'), 'data');
        execFileSync('sync', ['-f', source.volume.target]);
        const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: record.id, parameters: {} };
        await pool.takeSnapshots([snapshot]);
        await fake.settled();
        const restored = await pool.create(volumeSpec('restored', { content: record.content, sizeBytes: 2n << 30n }), {
          type: 'snapshot',
          id: snapshot.id,
        });
        const copy = await published(restored);
        await copy.stage();
        await copy.volume.publish({ volume_context: copy.volume_context });
        assert.equal(readFileSync(join(copy.volume.target, 'file'), 'utf8'), 'data');
        await copy.volume.down();
        await copy.stage();
        await eventually(async () => void (await copy.volume.unstage()));
        await source.volume.down();
        for (const each of [record, restored]) await gone(each);
        assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
      });
    }
  });
}

function writeInto(path: string, at: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, 'some bytes', at);
  closeSync(file);
}
