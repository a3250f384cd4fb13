import assert from 'node:assert/strict';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool, VolumeSpec } from '../../../src/pool/pool.ts';
import { ResourceExhausted } from '../../../src/volume/errors.ts';
import { snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import type { VolumeRecord, VolumeSource } from '../../../src/volume/record.ts';
import type { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { overwrite } from '../luks/bytes.ts';
import { assertNobodys, assertOwn, patternOf } from './pattern.ts';
import type { Place } from './place.ts';

/** What was deleted is still being wiped, on a busy machine. */
const patienceMs = 300_000;
const grownBytes = 4n << 20n;

/** One that has written over all of its volume. */
interface Owner {
  readonly number: number;
  readonly record: VolumeRecord;
}

const nameOf = (owner: number) => `owner-${owner}`;
const idOf = (owner: number) => volumeIdFor('node', 'test', nameOf(owner));

/** Those who come to a pool one after another, read all that they get, and write over it. */
export class Owners {
  readonly #pool: Pool;
  readonly #place: Place;
  readonly #random: SeededRandom;
  readonly #tell: (words: string) => void;
  readonly #present: Owner[] = [];

  constructor(pool: Pool, place: Place, random: SeededRandom, tell: (words: string) => void) {
    this.#pool = pool;
    this.#place = place;
    this.#random = random;
    this.#tell = tell;
  }

  /** A new one comes, and if there is no room for it, the first one goes before. */
  async come(owner: number): Promise<void> {
    while (this.#present.length >= this.#place.atOnce) await this.#go();
    const spec = this.#spec(owner);
    const record = await this.#create(spec);
    await this.#withDevice(record, (devicePath) => {
      assertNobodys(devicePath, 0, Number(record.sizeBytes));
      overwrite(devicePath, patternOf(owner, Number(record.sizeBytes)));
    });
    this.#tell(`clean ${owner}`);
    this.#present.push({ number: owner, record });
    if (!this.#place.copies) return;
    const then = this.#random.below(7);
    if (then === 0) await this.#copy(owner);
    if (then === 1) await this.#grow();
  }

  /** All go, also those of a driver that was killed. */
  async leave(): Promise<void> {
    this.#present.length = 0;
    for (const { id } of await this.#pool.listSnapshots(undefined, undefined)) await this.#pool.removeSnapshot(id);
    for (const { id } of await this.#pool.list(undefined, undefined)) {
      await this.#pool.modify(id, { undeleteSeconds: 0 });
      await this.#pool.remove(id);
    }
    await this.#pool.purge();
  }

  /** The first one's volume is deleted, in one of the ways there are. */
  async #go(): Promise<void> {
    const owner = this.#present.shift();
    if (owner === undefined) return;
    const { id, sizeBytes, undeleteSeconds } = owner.record;
    await this.#pool.remove(id);
    this.#tell(`deleted ${owner.number}`);
    if (undeleteSeconds === undefined || undeleteSeconds === 0) return;
    if (this.#random.chance(0.5)) {
      await this.#pool.restore(id);
      await this.#withDevice(owner.record, (devicePath) => assertOwn(devicePath, owner.number, Number(sizeBytes)));
      await this.#pool.remove(id);
    }
    await this.#pool.purge(id);
    this.#tell(`purged ${owner.number}`);
  }

  /** By a snapshot, to a larger volume: all that is beyond it was nobody's. Both go at once. */
  async #copy(owner: number): Promise<void> {
    const [snapshot, name] = [snapshotIdFor('node', nameOf(owner)), `copy-of-${owner}`];
    const from = this.#present.at(-1)?.record;
    if (from === undefined) return;
    await this.#pool.takeSnapshots([{ id: snapshot, name: nameOf(owner), sourceId: from.id, parameters: {} }]);
    const sizeBytes = from.sizeBytes + grownBytes;
    const spec = volumeSpec(name, { content: { type: 'block' }, sizeBytes, provisioning: from.provisioning });
    const copied = await this.#create(spec, { type: 'snapshot', id: snapshot });
    await this.#withDevice(copied, (devicePath) => {
      assertOwn(devicePath, owner, Number(from.sizeBytes));
      assertNobodys(devicePath, Number(from.sizeBytes), Number(sizeBytes));
    });
    await this.#pool.remove(copied.id);
    await this.#pool.removeSnapshot(snapshot);
    this.#tell(`copied ${owner}`);
  }

  /** What a volume gets more was nobody's, either. */
  async #grow(): Promise<void> {
    const owner = this.#present.pop();
    if (owner === undefined) return;
    const { sizeBytes } = owner.record;
    const grow = () => this.#pool.grow(owner.record.id, sizeBytes + grownBytes);
    const record = await this.#whenThereIsRoom(grownBytes, grow);
    await this.#withDevice(record, (devicePath) => {
      assertOwn(devicePath, owner.number, Number(sizeBytes));
      assertNobodys(devicePath, Number(sizeBytes), Number(record.sizeBytes));
      overwrite(devicePath, patternOf(owner.number, Number(record.sizeBytes)));
    });
    this.#tell(`grown ${owner.number}`);
    this.#present.push({ ...owner, record });
  }

  #spec(owner: number): VolumeSpec {
    const { sizesBytes, wipes } = this.#place;
    const { granularityBytes, isOneVolume, provisioning } = this.#pool.traits;
    return volumeSpec(nameOf(owner), {
      id: idOf(owner),
      content: { type: 'block' },
      // A disk is as large as it is.
      sizeBytes: isOneVolume && granularityBytes !== undefined ? granularityBytes : this.#random.pick(sizesBytes),
      provisioning: provisioning[0] ?? 'thick',
      undeleteSeconds: this.#random.chance(0.25) ? 3600 : 0,
      // As the pool has it, now and then.
      wipe: wipes[this.#random.below(wipes.length + 1)],
    });
  }

  #create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord> {
    return this.#whenThereIsRoom(spec.sizeBytes, () => this.#pool.create(spec, source));
  }

  /** The place of those who went is free once it is wiped. */
  async #whenThereIsRoom<T>(sizeBytes: bigint, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ResourceExhausted)) throw error;
    }
    await eventually(async () => {
      const { availableBytes } = await this.#pool.capacity();
      assert.ok(availableBytes >= sizeBytes, `${availableBytes} bytes are free`);
    }, patienceMs);
    return await work();
  }

  async #withDevice(record: VolumeRecord, work: (devicePath: string) => void): Promise<void> {
    const attachment = await attachDevice(this.#pool, record.id, { persistent: true });
    await attachment.release();
    work(attachment.devicePath);
    await this.#pool.detach(attachment);
  }
}
