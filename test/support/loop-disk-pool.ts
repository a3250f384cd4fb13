import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { constants, existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { MappedState } from '../../src/kernel/block/device-mapper.ts';
import { type Descriptor, openFile } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { DiskBackend } from '../../src/pool/kinds/disk/disk-backend.ts';
import type { DiskLabel } from '../../src/pool/kinds/disk/label/disk-label.ts';
import type { Extent } from '../../src/pool/kinds/disk/label/layout.ts';
import { type Payload, parsePayload, serializePayload } from '../../src/pool/kinds/disk/label/payload.ts';
import { LabelTurns } from '../../src/pool/kinds/disk/label/turns.ts';
import type { MappedParts } from '../../src/pool/kinds/disk/mapped.ts';
import { openOver } from '../../src/pool/open.ts';
import { Wiper } from '../../src/pool/wipe/wiper.ts';
import { attachDisk, sparseFile } from './disk.ts';
import { eventually } from './eventually.ts';
import { quiet } from './pool-log.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

const mebibyte = 1n << 20n;

/** A disk that is a sparse file, and its label beside it: both outlive the pool that has them, and its process. */
export class LoopDisk {
  readonly path: string;
  readonly sectorBytes: number;
  readonly #labelPath: string;
  /** The number of writes of the label. */
  writes = 0;
  /** Set: the next write reaches the disk, and fails. */
  failsNext = false;
  /** As long as it is set, the label cannot be read again. */
  failsReads = false;

  constructor(scratch: Pick<Scratch, 'join'>, name: string, { dataMebibytes = 64, sectorBytes = 512 } = {}) {
    this.path = sparseFile(scratch.join(`${name}.disk`), dataMebibytes + 4);
    this.sectorBytes = sectorBytes;
    this.#labelPath = `${this.path}.label`;
    if (existsSync(this.#labelPath)) return;
    this.#write({
      poolId: '7d0f1f4c-64ab-4a3e-8e69-2a3d6a1c7a77',
      disk: { name: `wwid t10.${name}`, sizeBytes: BigInt(dataMebibytes + 4) * mebibyte },
      data: { offsetBytes: 2n * mebibyte, lengthBytes: BigInt(dataMebibytes) * mebibyte },
    });
  }

  get payload(): Payload {
    return parsePayload(readFileSync(this.#labelPath, 'utf8'), 'in a test');
  }

  /** Atomically, for a process that is killed. */
  #write(payload: Payload): void {
    writeFileSync(`${this.#labelPath}.new`, serializePayload(payload));
    renameSync(`${this.#labelPath}.new`, this.#labelPath);
    this.writes++;
  }

  label(): DiskLabel {
    let known = this.payload;
    const turns = new LabelTurns(async () => {
      if (this.failsReads) throw new Error('the disk fails');
      known = this.payload;
    });
    return {
      get payload() {
        return known;
      },
      obstacle: undefined,
      lost: new AbortController().signal,
      refresh: () => turns.inTurn(() => turns.read()),
      settled: () =>
        turns.inTurn(async () => {
          await turns.settle();
          return known;
        }),
      change: (edit) =>
        turns.inTurn(async () => {
          await turns.write(async () => {
            const payload = edit(this.payload);
            this.#write(payload);
            const fails = this.failsNext;
            this.failsNext = false;
            if (fails) throw new Error('the disk fails');
            known = payload;
          });
        }),
      probe: async () => undefined,
      leave: async () => undefined,
      [Symbol.asyncDispose]: async () => undefined,
    };
  }
}

interface Wanted {
  readonly name: string;
  readonly uuid: string;
}

/** Loop devices in place of those of device-mapper, which the kernel of a test may not have. */
class LoopParts {
  readonly poolId = '7d0f1f4c-64ab-4a3e-8e69-2a3d6a1c7a77';
  readonly label = { name: 'label', uuid: 'label' };
  readonly #disk: LoopDisk;
  readonly #shown = new Map<string, { readonly devicePath: string; isGoing: boolean }>();

  constructor(disk: LoopDisk) {
    this.#disk = disk;
    // Those of a process that was killed.
    const left = execFileSync('losetup', ['--associated', disk.path, '--output', 'NAME', '--noheadings'], {
      encoding: 'utf8',
    });
    for (const each of left.split('\n').filter((line) => line !== ''))
      execFileSync('losetup', ['--detach', each.trim()]);
  }

  data(name: string): Wanted {
    return { name, uuid: name };
  }

  find({ name }: Wanted): MappedState | undefined {
    const there = this.#there(name);
    return there?.isGoing === false ? there : undefined;
  }

  objectOf({ minor }: { readonly minor: number }): string | undefined {
    return [...this.#shown].find(([, { devicePath }]) => devicePath === `/dev/loop${minor}`)?.[0];
  }

  async objects(): Promise<string[]> {
    return [...this.#shown.keys()].filter((name) => this.#there(name) !== undefined);
  }

  isOverDisk(): boolean {
    return true;
  }

  async open(queue: DiskQueue, { name }: Wanted, { lengthBytes, offsetBytes }: Extent, flags = constants.O_RDONLY) {
    await eventually(() => assert.notEqual(this.#there(name)?.isGoing, true, `${name} is going, and open`), 4_000);
    if (this.#there(name) === undefined) {
      const sectors = ['--sector-size', `${this.#disk.sectorBytes}`];
      const part = ['--offset', `${offsetBytes}`, '--sizelimit', `${lengthBytes}`];
      this.#shown.set(name, { devicePath: attachDisk(this.#disk.path, ...sectors, ...part), isGoing: false });
    }
    const { devicePath = '' } = this.#shown.get(name) ?? {};
    const descriptor = await openFile(queue, devicePath, flags | constants.O_NONBLOCK);
    return { descriptor, devicePath, device: deviceNumber(statSync(devicePath, { bigint: true }).rdev) };
  }

  async openGoing(queue: DiskQueue, { name }: Wanted): Promise<Descriptor | undefined> {
    const there = this.#there(name);
    return there?.isGoing ? openFile(queue, this.#shown.get(name)?.devicePath ?? '', constants.O_RDONLY) : undefined;
  }

  async remove(_queue: DiskQueue, { name }: Wanted): Promise<boolean> {
    await this.letGo(_queue, { name, uuid: name });
    return this.#there(name) === undefined;
  }

  /** The kernel detaches it once nothing has it open (LOOP_CLR_FD of loop(4)). */
  async letGo(_queue: DiskQueue, { name }: Wanted): Promise<void> {
    const there = this.#there(name);
    const shown = this.#shown.get(name);
    if (there === undefined || shown === undefined) return;
    execFileSync('losetup', ['--detach', shown.devicePath]);
    shown.isGoing = true;
  }

  #there(name: string): MappedState | undefined {
    const shown = this.#shown.get(name);
    if (shown === undefined) return undefined;
    if (!isBackedBy(shown.devicePath, this.#disk.path)) {
      this.#shown.delete(name);
      return undefined;
    }
    const device = deviceNumber(statSync(shown.devicePath, { bigint: true }).rdev);
    return { name, uuid: name, device, openCount: 1, isGoing: shown.isGoing, isLive: true, isSuspended: false };
  }
}

function isBackedBy(devicePath: string, path: string): boolean {
  try {
    return readFileSync(`/sys/block/${basename(devicePath)}/loop/backing_file`, 'utf8').trim() === path;
  } catch {
    return false;
  }
}

/** Opens the pool of such a disk. */
export function openLoopDisk(
  scratch: Pick<Scratch, 'join'>,
  disk: LoopDisk,
  options: TestPoolOptions<object> = {},
): Promise<Catalog> {
  const chosen = { ...testSettings(scratch), ...options };
  const { name: poolName, queue } = chosen;
  return openOver(
    async () => ({
      backend: new DiskBackend({
        ...{ poolName, queue, calls: queue, formatQueue: new DiskQueue('mkfs', 1), label: disk.label() },
        mapped: new LoopParts(disk) as unknown as MappedParts,
        wiper: new Wiper({ poolName, log: quiet, queue, atOnce: 1 }),
        ...{ wipePolicy: 'zero', blockSizeBytes: disk.sectorBytes, mayAdopt: false },
      }),
      facts: {},
    }),
    { ...chosen, path: disk.path },
  );
}
