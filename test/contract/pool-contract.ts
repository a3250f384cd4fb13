import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice, attachedDevices } from '../../src/pool/attached-device.ts';
import type { Pool, Traits } from '../../src/pool/pool.ts';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { FailedPrecondition, NotFound, OutOfRange, ResourceExhausted } from '../../src/volume/errors.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { seenAs } from '../support/seen-device.ts';

const mebibyte = 1n << 20n;

/** A pool under test that can be closed and opened again, as by a restart of the driver. */
export interface PoolUnderTest {
  open(scratch: Scratch): Promise<Pool>;
  /** What its volumes hold, where a test does not say; unset: ext4. */
  readonly content?: VolumeContent;
  /** What each volume takes beside what its user has; unset: nothing. */
  readonly headerBytes?: bigint;
  /** A pool is one volume of 64 MiB, and has no room for another. */
  readonly isOneVolume?: true;
}

/** All that volumes of the pool can be mounted as. */
export function mountableContents({ directories, filesystems }: Traits): VolumeContent[] {
  const formatted = filesystems.map((fsType) => ({ type: 'mount', fsType }) as const);
  return directories ? [{ type: 'directory' }, ...formatted] : formatted;
}

/** What every kind of pool must do, whatever it is made of. */
export function describePool(kind: string, { content, isOneVolume, open }: PoolUnderTest): void {
  const specOf = specsOf(content);
  /** What takes no time to make. */
  const plain = { content: content ?? { type: 'block' } } as const;
  describe(`${kind}: the pool contract`, () => {
    test('CV31 T03: what is created is found and listed, also after a restart', async () => {
      using scratch = new Scratch('contract');
      const specs = (isOneVolume ? ['one'] : ['one', 'two', 'three']).map((name) => specOf(name));
      const pool = await open(scratch);
      for (const spec of specs) await pool.create(spec);
      const before = await pool.list(undefined, undefined);
      await pool.close();
      const again = await open(scratch);
      assert.deepEqual(await again.list(undefined, undefined), before);
      assert.deepEqual(
        before.map(({ id }) => id),
        specs.map(({ id }) => id).sort(),
      );
      const [first] = specs;
      assert.equal((await again.find(first?.id ?? volumeIdFor('', '', '')))?.name, 'one');
      await again.close();
    });

    test('DV03 DV04: a removed volume is gone, also after a restart; removing it again is fine', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('gone'));
      await pool.remove(id);
      await pool.remove(id);
      assert.equal(await pool.find(id), undefined);
      await pool.close();
      const again = await open(scratch);
      assert.equal(await again.find(id), undefined);
      await again.close();
    });

    test('unknown volumes: grow and attach say NOT_FOUND, remove and detach are fine', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const id = volumeIdFor('node', 'test', 'never');
      await assert.rejects(pool.grow(id, 1n << 30n), NotFound);
      await assert.rejects(pool.attach(id, { persistent: true }), NotFound);
      await pool.remove(id);
      const device = { major: 7, minor: 1_000_000 };
      await pool.detach({ kind: 'device', device, devicePath: '/dev/loop1000000', readonly: false });
      assert.deepEqual(await pool.attached(id), []);
      await pool.close();
    });

    if (isOneVolume) return;

    test('N01 N02: list goes on after an id, also one that is gone', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      for (const name of ['a', 'b', 'c', 'd']) await pool.create(volumeSpec(name, plain));
      const [first, second, ...rest] = await pool.list(undefined, undefined);
      assert.ok(first && second);
      assert.deepEqual(await pool.list(undefined, 1), [first]);
      await pool.remove(second.id);
      assert.deepEqual(await pool.list(second.id, undefined), rest);
      await pool.close();
    });

    test('T04: a mounted volume keeps its data across detach, restart and attach', async () => {
      using scratch = new Scratch('contract');
      const bytes = randomBytes(1 << 20);
      const pool = await open(scratch);
      const contents = mountableContents(pool.traits);
      for (const each of contents) {
        const spec = volumeSpec(JSON.stringify(each), { content: each, sizeBytes: 320n * mebibyte });
        await pool.create(spec);
        await withMounted(pool, spec.id, scratch, (path) => writeFileSync(`${path}/file`, bytes));
        await eventually(async () => assert.deepEqual(await pool.attached(spec.id), []));
      }
      await pool.close();
      const again = await open(scratch);
      for (const each of contents) {
        await withMounted(again, volumeSpec(JSON.stringify(each)).id, scratch, (path) =>
          assert.ok(readFileSync(`${path}/file`).equals(bytes)),
        );
      }
      await again.close();
    });

    test('CV20 GC03 GC04: more than is available is refused and changes nothing; all of it is granted', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { availableBytes } = await pool.capacity();
      const wanted = availableBytes - (availableBytes % 4096n);
      await assert.rejects(
        pool.create(volumeSpec('large', { ...plain, sizeBytes: availableBytes * 2n })),
        ResourceExhausted,
      );
      assert.deepEqual(await pool.list(undefined, undefined), []);
      // Other users of the disk take a little in between.
      const half = wanted / 2n - ((wanted / 2n) % 4096n);
      await pool.create(volumeSpec('first', { ...plain, sizeBytes: half }));
      const { id } = await pool.create(volumeSpec('rest', { ...plain, sizeBytes: wanted - half - 64n * mebibyte }));
      await assert.rejects(pool.grow(id, wanted * 2n), OutOfRange);
      await pool.close();
    });

    test('K02 GC04: two volumes at once are never promised the same space', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { availableBytes } = await pool.capacity();
      const sizeBytes = ((availableBytes * 2n) / 3n / 4096n) * 4096n;
      const outcomes = await Promise.allSettled(
        ['a', 'b'].map((name) => pool.create(volumeSpec(name, { sizeBytes, ...plain }))),
      );
      assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
      await pool.close();
    });
  });
}

/** Specs for volumes that hold this, unless they say otherwise. */
export function specsOf(content: VolumeContent | undefined): typeof volumeSpec {
  return (name, changes) => volumeSpec(name, content === undefined ? changes : { content, ...changes });
}

/** What kinds of pool must do whose volumes are devices. */
export function describeDevices(kind: string, { headerBytes = 0n, isOneVolume, open }: PoolUnderTest): void {
  describe(`${kind}: the contract of devices`, () => {
    test('DV05: what a removed volume took is free again', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const provisioning = pool.traits.provisioning.includes('thick') ? 'thick' : 'thin';
      const { id } = await pool.create(volumeSpec('all', { provisioning, content: { type: 'block' } }));
      const taken = await pool.capacity();
      assert.equal(taken.provisionedBytes, 64n * mebibyte + headerBytes);
      if (provisioning === 'thick') assert.equal(taken.usedBytes, 64n * mebibyte + headerBytes);
      // Nothing was written to it but what a layer has of its own.
      else assert.ok(taken.usedBytes <= headerBytes, `${taken.usedBytes} bytes`);
      await pool.remove(id);
      await pool.close();
      const again = await open(scratch);
      const { provisionedBytes, usedBytes } = await again.capacity();
      assert.deepEqual({ provisionedBytes, usedBytes }, { provisionedBytes: 0n, usedBytes: 0n });
      await again.close();
    });

    test('DV06: an attached volume is neither removed nor repaired, and its data stays', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { id } = await pool.create(volumeSpec('busy', { content: { type: 'block' } }));
      const attachment = await attachDevice(pool, id, { persistent: true });
      await assert.rejects(pool.remove(id), FailedPrecondition);
      await assert.rejects(pool.repair(id, 'ext4'), FailedPrecondition);
      assert.ok(await pool.find(id));
      await attachment.release();
      await pool.detach(attachment);
      await pool.remove(id);
      await pool.close();
    });

    test('T05: attach is idempotent, a device names its volume, detach is idempotent', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { id } = await pool.create(volumeSpec('device', { content: { type: 'block' } }));
      const first = await attachDevice(pool, id, { persistent: true });
      await first.release();
      const second = await attachDevice(pool, id, { persistent: true });
      await second.release();
      assert.deepEqual(second.device, first.device);
      assert.equal(await seenAs(pool, first.device), id);
      assert.deepEqual(
        (await attachedDevices(pool, id)).map(({ devicePath }) => devicePath),
        [first.devicePath],
      );
      await pool.detach(first);
      await pool.detach(first);
      // Somebody else may be looking at the device at this moment: then the kernel detaches it when they are done.
      await eventually(async () => assert.deepEqual(await pool.attached(id), []));
      assert.notEqual(await seenAs(pool, first.device), id);
      await pool.close();
    });

    test('T04: a persistent device that nobody shows goes at the next start', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { id } = await pool.create(volumeSpec('orphan', { content: { type: 'block' } }));
      await (await pool.attach(id, { persistent: true })).release();
      await pool.close();
      const again = await open(scratch);
      await eventually(async () => assert.deepEqual(await again.attached(id), []));
      await again.close();
    });

    if (isOneVolume) return;

    test('CE03 CE04: grow grows the volume and its device, keeps the data, and never shrinks', async () => {
      using scratch = new Scratch('contract');
      const pool = await open(scratch);
      const { id } = await pool.create(volumeSpec('grow', { content: { type: 'block' } }));
      const attachment = await attachDevice(pool, id, { persistent: true });
      await attachment.release();
      writeFileSync(attachment.devicePath, Buffer.alloc(4096, 7));
      assert.equal((await pool.grow(id, 128n * mebibyte)).sizeBytes, 128n * mebibyte);
      assert.equal((await pool.grow(id, 96n * mebibyte)).sizeBytes, 128n * mebibyte);
      const sectors = readFileSync(`/sys/dev/block/${attachment.device.major}:${attachment.device.minor}/size`, 'utf8');
      assert.equal(BigInt(sectors.trim()) * 512n, 128n * mebibyte);
      assert.equal(readFileSync(attachment.devicePath)[4095], 7);
      await pool.detach(attachment);
      await pool.close();
    });
  });
}
