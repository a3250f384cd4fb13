import assert from 'node:assert/strict';
import { constants, truncateSync } from 'node:fs';
import { describe, test } from 'node:test';
import { type Descriptor, openFile } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { readAt, syncFile, writeAt } from '../../src/kernel/file/file.ts';
import { LabelCopies, type LabelMemory, newMemory } from '../../src/pool/kinds/disk/label/label-copies.ts';
import { type Payload, serializePayload } from '../../src/pool/kinds/disk/label/payload.ts';
import { encodeSlot, probeAt, slotBytes } from '../../src/pool/kinds/disk/label/slots.ts';
import { DiskLost } from '../../src/pool/quarantine.ts';
import { DataLoss } from '../../src/volume/errors.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 1);
const poolId = '0b7e6a52-2f4f-4c0e-8a3d-9f1c5d2e7a11';
const payloadOf = (age: string): Payload => ({
  ...{ poolId, age, disk: { name: 'wwid t10.disk', sizeBytes: 1n << 25n } },
  data: { offsetBytes: 2n << 20n, lengthBytes: 16n << 20n },
});

/** The label of a disk that two nodes see, as one of them has it open. */
class Seen implements AsyncDisposable {
  readonly copies: LabelCopies;
  readonly #device: Descriptor;

  private constructor(device: Descriptor, memory: LabelMemory) {
    this.#device = device;
    this.copies = new LabelCopies({ queue, poolName: 'test', poolId, path: '/dev/sdx', device, memory });
  }

  /** @param memory of the process; unset: it is another one */
  static async open(path: string, flags: number = constants.O_RDWR, memory = newMemory()): Promise<Seen> {
    const seen = new Seen(await openFile(queue, path, flags), memory);
    try {
      await seen.copies.read();
      return seen;
    } catch (error) {
      await seen[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** As `Label` changes it. */
  async change(age: string): Promise<void> {
    await this.copies.read();
    for (const isMirrored of [false, true]) await this.copies.write(payloadOf(age), isMirrored);
  }

  get age(): string | undefined {
    return this.copies.known.payload.age;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#device[Symbol.asyncDispose]();
  }
}

async function writeSlot(path: string, index: number, bytes: Buffer): Promise<void> {
  await using device = await openFile(queue, path, constants.O_RDWR);
  await writeAt(queue, device, bytes, BigInt(index * slotBytes));
  await syncFile(queue, device);
}

async function labelled(scratch: Scratch): Promise<string> {
  const path = attachDisk(sparseFile(scratch.join('disk.img'), 1));
  await writeSlot(path, 0, encodeSlot(1n, serializePayload(payloadOf('first'))));
  return path;
}

const foreign = (error: unknown) =>
  error instanceof DataLoss && /another program has written the label/.test(error.message);

describe('the label of a disk that another node sees, too', () => {
  test('H4: what that one has written is not written over, however often it is tried', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    await using own = await Seen.open(path);
    await own.change('own');
    {
      await using other = await Seen.open(path);
      await other.change('of the other');
    }
    for (const age of ['again', 'and again']) await assert.rejects(own.change(age), foreign);
    assert.equal(own.age, 'own');
    await using after = await Seen.open(path);
    assert.equal(after.age, 'of the other');
    // Nor when it looks as if nothing had been.
    const { sequence, text } = own.copies.known.slot;
    for (const index of [0, 1]) await writeSlot(path, index, encodeSlot(sequence, text));
    await assert.rejects(own.change('at last'), foreign);
  });

  test('H4: nor after the label was only read', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    await using own = await Seen.open(path);
    await own.change('own');
    await using other = await Seen.open(path);
    await other.change('of the other');
    await assert.rejects(own.copies.read(), foreign);
    await assert.rejects(own.change('again'), foreign);
    // It is the pool of whoever has written last.
    await other.change('once more');
    assert.equal(other.age, 'once more');
  });

  test('H4: a health check notices it, and ends what was begun on the disk; nor does it take own writes for those of others', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    await using own = await Seen.open(path);
    const health = new DiskQueue('health', 1);
    let isChanging = true;
    const changes = async () => {
      for (let age = 0; age < 50; age++) await own.change(`${age}`);
      isChanging = false;
    };
    const checks = async () => {
      while (isChanging) await own.copies.check(health);
    };
    await Promise.all([changes(), checks()]);
    assert.equal(own.copies.lost.aborted, false);
    await using other = await Seen.open(path);
    await other.change('of the other');
    await assert.rejects(own.copies.check(health), foreign);
    assert.equal(foreign(own.copies.lost.reason), true);
    await assert.rejects(own.change('again'), foreign);
  });

  test('a copy of its own that is damaged, and a write that failed, are no writes of others', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    await using own = await Seen.open(path);
    for (const age of ['one', 'two', 'three']) {
      await own.change(age);
      await writeSlot(path, own.copies.known.slot.index, Buffer.alloc(slotBytes, 0x5a));
      await own.copies.read();
      assert.equal(own.age, age);
    }
    // Whether it failed before or after the disk had it, either is its own.
    await using readonly = await Seen.open(path, constants.O_RDONLY);
    for (const isThere of [true, false]) {
      const { payload, slot } = readonly.copies.known;
      const age = isThere ? 'four' : 'five';
      await assert.rejects(readonly.copies.write(payloadOf(age), false), /EBADF/);
      const bytes = encodeSlot(slot.sequence + 1n, serializePayload(payloadOf(age)));
      if (isThere) await writeSlot(path, 1 - slot.index, bytes);
      await readonly.copies.read();
      assert.equal(readonly.age, isThere ? 'four' : payload.age);
    }
  });

  test('H42: a health check writes nothing to what is somebody else’s, nor where the label is gone', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    const health = new DiskQueue('health', 1);
    const tried = async () => {
      await using device = await openFile(queue, path, constants.O_RDONLY);
      return await readAt(queue, device, { offsetBytes: Number(probeAt), lengthBytes: slotBytes });
    };
    await using own = await Seen.open(path);
    await own.copies.writeStamp(health, 'holdfast health');
    const before = await tried();
    assert.match(before.toString('latin1'), /^holdfast health/);
    await using later = await Seen.open(path);
    await using other = await Seen.open(path);
    await other.change('of the other');
    await assert.rejects(own.copies.writeStamp(health, 'holdfast health'), foreign);
    assert.deepEqual(await tried(), before);
    // Another program has the disk, or the other node has cleared it.
    const { sequence, text } = other.copies.known.slot;
    for (const index of [0, 1]) await writeSlot(path, index, Buffer.alloc(slotBytes));
    const gone = (error: unknown) => error instanceof DiskLost && /both of its copies are damaged/.test(error.message);
    await assert.rejects(later.copies.writeStamp(health, 'holdfast health'), gone);
    assert.equal(later.copies.lost.aborted, true);
    assert.deepEqual(await tried(), before);
    await writeSlot(path, 0, encodeSlot(sequence, text));
    await assert.rejects(later.copies.writeStamp(health, 'holdfast health'), gone);
  });

  test('H42: a label that the disk cannot read just now is not lost', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    await using own = await Seen.open(path);
    const { slot } = own.copies.known;
    truncateSync(scratch.join('disk.img'), 0);
    await assert.rejects(own.copies.check(queue), /EIO/);
    assert.equal(own.copies.lost.aborted, false);
    truncateSync(scratch.join('disk.img'), 1 << 20);
    await writeSlot(path, slot.index, encodeSlot(slot.sequence, slot.text));
    await own.change('after that');
  });

  test('H34: what another node has written while the pool was not open here is not believed by this process', async () => {
    using scratch = new Scratch('label');
    const path = await labelled(scratch);
    const memory = newMemory();
    {
      await using own = await Seen.open(path, constants.O_RDWR, memory);
      await own.change('own');
    }
    const openAgain = () => Seen.open(path, constants.O_RDWR, memory);
    await (await openAgain())[Symbol.asyncDispose]();
    await using other = await Seen.open(path);
    await other.change('of the other');
    for (let openings = 0; openings < 2; openings++) await assert.rejects(openAgain(), foreign);
  });
});
