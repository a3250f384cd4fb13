import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { ImagePoolOptions } from '../../src/pool/kinds/image/open.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { OutOfRange, ResourceExhausted } from '../../src/volume/errors.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Random, testSeed } from '../support/random.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;
const rounds = Number(process.env['HOLDFAST_TEST_SPACE_ROUNDS'] ?? 2);
const stepsEach = 30;
const block = { content: { type: 'block' } } as const;

interface Kind {
  readonly location: (scratch: Scratch) => ImagePoolOptions['location'];
  /** Where its filesystem is mounted. */
  readonly root: (scratch: Scratch) => string;
  readonly settle: (root: string) => void;
  /** undefined: what a pool has that nobody chose one for. */
  readonly reserveBytes?: bigint;
}

/** XFS frees what was unlinked in the background; a freeze waits for it. */
function freeze(root: string): void {
  execFileSync('fsfreeze', ['--freeze', root]);
  execFileSync('fsfreeze', ['--unfreeze', root]);
}

const sync = (root: string) => void execFileSync('sync', ['--file-system', root]);

const kinds: Readonly<Record<string, Kind>> = {
  'XFS in a file': {
    location: (scratch) => ({ type: 'file', path: scratch.join('pool.img'), sizeBytes: 512n * mebibyte }),
    root: (scratch) => scratch.join('data/pools/test'),
    settle: freeze,
  },
  'an XFS that others use too': disk('xfs', freeze),
  // What it writes over it writes elsewhere first, and keeps an extent as long as a part of it is used: docs/space.md.
  'btrfs with room to write anew': { ...disk('btrfs', sync), reserveBytes: 200n * mebibyte },
  'ext4, which copies': disk('ext4', sync),
};

function disk(fsType: string, settle: Kind['settle']): Kind {
  return {
    location: (scratch) => {
      mkdirSync(scratch.join('disk'));
      execFileSync('truncate', ['--size=512M', scratch.join('disk.img')]);
      execFileSync(`mkfs.${fsType}`, ['-q', scratch.join('disk.img')]);
      execFileSync('mount', ['-o', 'loop', scratch.join('disk.img'), scratch.join('disk')]);
      return { type: 'directory', path: scratch.join('disk/pool') };
    },
    root: (scratch) => scratch.join('disk'),
    settle,
  };
}

for (const [kind, { location, reserveBytes, root, settle }] of Object.entries(kinds)) {
  describe(`GC04 CS10: ${kind}: whatever volumes, snapshots and trash went through`, () => {
    for (let round = 0; round < rounds; round++) {
      test(`a promised write never meets a full disk, and GetCapacity is what create gives (${round + 1})`, async (t) => {
        const seed = testSeed();
        t.diagnostic(`HOLDFAST_TEST_SEED=${seed}`);
        using scratch = new Scratch('space');
        const pool = await openTestPool(scratch, { location: location(scratch), reserveBytes });
        const life = new Life(pool, new Random(seed, `${kind} ${round}`), () => settle(root(scratch)));
        try {
          for (let step = 0; step < stepsEach; step++) await life.step();
          await life.writeAll();
        } catch (error) {
          throw new Error(`HOLDFAST_TEST_SEED=${seed}, after:\n${life.story.join('\n')}`, { cause: error });
        }
        await pool.close();
      });
    }
  });
}

/** A pool and what befalls it. */
class Life {
  readonly story: string[] = [];
  readonly #pool: Pool;
  readonly #random: Random;
  readonly #settle: () => void;
  #names = 0;

  constructor(pool: Pool, random: Random, settle: () => void) {
    this.#pool = pool;
    this.#random = random;
    this.#settle = settle;
  }

  async step(): Promise<void> {
    const acts = [
      () => this.#create(),
      () => this.#write(),
      () => this.#write(),
      () => this.#write(),
      () => this.#snapshot(),
      () => this.#snapshot(),
      () => this.#restoreSnapshot(),
      () => this.#clone(),
      () => this.#remove(),
      () => this.#removeSnapshot(),
      () => this.#restore(),
      () => this.#purge(),
      () => this.#modify(),
      () => this.#grow(),
      () => this.#takeAll(),
    ];
    try {
      await this.#random.pick(acts)?.();
    } catch (error) {
      if (!(error instanceof ResourceExhausted || error instanceof OutOfRange)) throw error;
      this.#tell('  refused');
    }
  }

  async writeAll(): Promise<void> {
    for (const volume of await this.#pool.list(undefined, undefined)) {
      this.#tell(`write all of ${volume.name}`);
      const attached = await attachDevice(this.#pool, volume.id, { persistent: true });
      const { devicePath, release } = attached;
      await release();
      // Past the cache: of a write that found no room a later sync does not always tell.
      const what = ['if=/dev/zero', `of=${devicePath}`, 'bs=1M', `count=${volume.sizeBytes}`];
      execFileSync('dd', [...what, 'iflag=count_bytes', 'oflag=direct'], { stdio: 'pipe' });
      await this.#pool.detach(attached);
    }
  }

  async #create(): Promise<void> {
    const provisioning = this.#random.pick(['thin', 'thin', 'thick'] as const) ?? 'thin';
    const spec = { ...block, provisioning, sizeBytes: this.#size(64), undeleteSeconds: this.#undelete() };
    this.#tell(`create ${this.#names + 1}: ${provisioning}, ${spec.sizeBytes}, kept ${spec.undeleteSeconds} s`);
    await this.#pool.create(volumeSpec(this.#name(), spec));
  }

  async #write(): Promise<void> {
    const volume = await this.#anyVolume();
    if (volume === undefined) return;
    const sizeBytes = Number(volume.sizeBytes);
    const ranges = Array.from({ length: this.#random.integer(1, 40) }, (): [number, number] => {
      const from = Math.floor(this.#random.below(sizeBytes / 4096)) * 4096;
      const length = this.#random.pick([4096, 16_384, 1 << 20, 16 << 20]) ?? 0;
      return [from, Math.min(length, sizeBytes - from)];
    });
    this.#tell(`write ${ranges.length} times to ${volume.name}`);
    await this.#writeTo(volume, ranges);
  }

  async #snapshot(): Promise<void> {
    const volume = await this.#anyVolume();
    if (volume === undefined) return;
    const name = this.#name();
    this.#tell(`snapshot ${name} of ${volume.name}`);
    await this.#pool.takeSnapshots([{ id: snapshotIdFor('node', name), name, sourceId: volume.id, parameters: {} }]);
  }

  async #restoreSnapshot(): Promise<void> {
    const snapshot = this.#random.pick(await this.#pool.listSnapshots(undefined, undefined));
    if (snapshot === undefined) return;
    this.#tell(`create ${this.#names + 1} from ${snapshot.name}`);
    const spec = { ...block, sizeBytes: snapshot.sizeBytes, undeleteSeconds: this.#undelete() };
    await this.#pool.create(volumeSpec(this.#name(), spec), { type: 'snapshot', id: snapshot.id });
  }

  async #clone(): Promise<void> {
    const volume = await this.#anyVolume();
    if (volume === undefined) return;
    this.#tell(`create ${this.#names + 1} from ${volume.name}`);
    const spec = { ...block, sizeBytes: volume.sizeBytes, undeleteSeconds: this.#undelete() };
    await this.#pool.create(volumeSpec(this.#name(), spec), { type: 'volume', id: volume.id });
  }

  async #remove(): Promise<void> {
    const volume = await this.#anyVolume();
    if (volume === undefined) return;
    this.#tell(`remove ${volume.name}`);
    await this.#pool.remove(volume.id);
  }

  async #removeSnapshot(): Promise<void> {
    const snapshot = this.#random.pick(await this.#pool.listSnapshots(undefined, undefined));
    if (snapshot === undefined) return;
    this.#tell(`remove snapshot ${snapshot.name}`);
    await this.#pool.removeSnapshot(snapshot.id);
  }

  async #restore(): Promise<void> {
    const entry = this.#random.pick(await this.#pool.trash());
    if (entry === undefined) return;
    this.#tell(`restore ${entry.record.name}`);
    await this.#pool.restore(entry.record.id);
  }

  async #purge(): Promise<void> {
    const entry = this.#random.pick(await this.#pool.trash());
    if (entry === undefined) return;
    this.#tell(`purge ${entry.record.name}`);
    await this.#pool.purge(entry.record.id);
  }

  async #modify(): Promise<void> {
    const volume = await this.#anyVolume();
    if (volume === undefined) return;
    const provisioning = this.#random.pick(['thin', 'thick'] as const) ?? 'thin';
    this.#tell(`make ${volume.name} ${provisioning}`);
    await this.#pool.modify(volume.id, { provisioning });
  }

  async #grow(): Promise<void> {
    const volume = await this.#anyVolume();
    if (volume === undefined) return;
    const sizeBytes = volume.sizeBytes + this.#size(16);
    this.#tell(`grow ${volume.name} to ${sizeBytes}`);
    await this.#pool.grow(volume.id, sizeBytes);
  }

  /** What is said to be available can be had, and not one granule more. */
  async #takeAll(): Promise<void> {
    // All that is on its way out is gone then.
    await this.#pool.purge(volumeIdFor('node', 'test', 'nothing'));
    this.#settle();
    const { availableBytes } = await this.#pool.capacity();
    const sizeBytes = availableBytes - (availableBytes % 4096n);
    this.#tell(`create ${this.#names + 1} of all that is available: ${sizeBytes}`);
    const name = this.#name();
    const more = volumeSpec(name, { ...block, sizeBytes: sizeBytes + 4096n });
    const given = await this.#pool.create(more).catch((error) => {
      if (!(error instanceof ResourceExhausted)) throw error;
      return undefined;
    });
    if (given !== undefined) {
      await this.#pool.remove(given.id);
      // A filesystem frees some blocks late: then they are available now.
      await this.#pool.purge(volumeIdFor('node', 'test', 'nothing'));
      this.#settle();
      assert.ok((await this.#pool.capacity()).availableBytes > sizeBytes, 'more was given than was available');
      return;
    }
    if (sizeBytes === 0n) return;
    const { id } = await this.#pool.create(volumeSpec(name, { ...block, sizeBytes }));
    if (this.#random.below(4) < 3) await this.#pool.remove(id);
    else this.#tell('  and keep it');
  }

  /** Through its device, as its user would, and on the disk when it returns. */
  async #writeTo({ id }: VolumeRecord, ranges: readonly [number, number][]): Promise<void> {
    const attached = await attachDevice(this.#pool, id, { persistent: true });
    const { devicePath, release } = attached;
    await release();
    const file = openSync(devicePath, 'r+');
    try {
      const bytes = Buffer.alloc(1 << 20, this.#random.integer(1, 255));
      for (const [from, length] of ranges) {
        for (let done = 0; done < length; ) {
          done += writeSync(file, bytes, 0, Math.min(bytes.length, length - done), from + done);
        }
      }
      fsyncSync(file);
    } finally {
      closeSync(file);
      await this.#pool.detach(attached);
    }
  }

  async #anyVolume(): Promise<VolumeRecord | undefined> {
    return this.#random.pick(await this.#pool.list(undefined, undefined));
  }

  #size(mostMebibytes: number): bigint {
    return BigInt(this.#random.integer(1, mostMebibytes * 256)) * 4096n;
  }

  #undelete(): number {
    return this.#random.pick([0, 3600]) ?? 0;
  }

  #name(): string {
    return `${++this.#names}`;
  }

  #tell(line: string): void {
    this.story.push(line);
  }
}
