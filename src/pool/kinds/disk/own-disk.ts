import { constants } from 'node:fs';
import { openDeviceAlone } from '../../../kernel/block/block.ts';
import { type Disk, readDisk } from '../../../kernel/block/disks.ts';
import { openBlockNode, openUnwatched } from '../../../kernel/block/partition.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readAt, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { beginningBytes, buildTable, endBytes, judgeTable, type Piece, type TableVerdict } from './gpt.ts';
import {
  decodeLabel,
  encodeLabel,
  type FoundLabel,
  judgeRemnant,
  type Label,
  type Remnant,
  type Use,
} from './label.ts';
import { dataPlace, type Geometry, labelPlace } from './layout.ts';

/**
 * Opens a disk by its name, and makes sure that it is the one that was seen under that name: neither another one in its
 * place, nor another one's node.
 */
export function openDisk(queue: DiskQueue, disk: Disk): Promise<Descriptor> {
  return sameDisk(queue, disk, openBlockNode(queue, disk.devicePath, disk.device, constants.O_RDONLY));
}

/** The same, to write to it: udev does not hear of it. */
export function openDiskToWrite(queue: DiskQueue, disk: Disk): Promise<Descriptor> {
  return sameDisk(
    queue,
    disk,
    openUnwatched(queue, disk, (node) => openFile(queue, node, constants.O_RDWR)),
  );
}

async function sameDisk(queue: DiskQueue, disk: Disk, opening: Promise<Descriptor | undefined>): Promise<Descriptor> {
  const opened = await opening;
  const now = opened === undefined ? undefined : await readDisk(queue, disk.name);
  if (opened !== undefined && now?.sequence === disk.sequence) return opened;
  await opened?.[Symbol.asyncDispose]();
  throw anotherDisk(disk);
}

/** The same, to write to it, so that nobody mounts or formats it meanwhile. @returns undefined if somebody has it for himself already */
export async function openDiskAlone(queue: DiskQueue, disk: Disk): Promise<Descriptor | undefined> {
  const alone = await openUnwatched(queue, disk, (node) => openDeviceAlone(queue, node));
  if (alone === undefined) return undefined;
  const now = await readDisk(queue, disk.name);
  if (now?.sequence === disk.sequence) return alone;
  await alone[Symbol.asyncDispose]();
  throw anotherDisk(disk);
}

function anotherDisk({ devicePath }: Disk): Unavailable {
  return new Unavailable(`${devicePath} is another disk than a moment ago; try again.`);
}

/** What a disk has of ours. */
export type ReadTable =
  /** @property label undefined: it has none of this disk */
  | {
      readonly table: Extract<TableVerdict, { kind: 'ours' }>;
      readonly label: FoundLabel | undefined;
    }
  | { readonly table: Exclude<TableVerdict, { kind: 'ours' }>; readonly remnant: Remnant };

export async function readTable(queue: DiskQueue, device: Descriptor, disk: Disk): Promise<ReadTable> {
  const beginning = await readAt(queue, device, { offsetBytes: 0, lengthBytes: beginningBytes });
  const end = await readAt(queue, device, {
    offsetBytes: Number(disk.sizeBytes) - endBytes,
    lengthBytes: endBytes,
  });
  const place = { offsetBytes: Number(labelPlace.startBytes), lengthBytes: Number(labelPlace.lengthBytes) };
  const bytes = await readAt(queue, device, place);
  const table = judgeTable(disk, beginning, end);
  if (table.kind === 'ours') return { table, label: decodeLabel(bytes, table.diskId, disk.devicePath) };
  return { table, remnant: judgeRemnant(bytes, disk.sectorBytes, disk.devicePath) };
}

/**
 * Makes a blank disk ours: the label first, the first sector of the table last. Cut short anywhere before that, the disk
 * is as good as blank, and can be taken anew.
 */
export async function takeDisk(
  queue: DiskQueue,
  device: Descriptor,
  geometry: Geometry,
  { generation, label }: FoundLabel,
): Promise<void> {
  const { backup, primary, protective } = buildTable(geometry, label.diskId);
  await step('disk/label', () => writeLabel(queue, device, label, generation, geometry.sectorBytes));
  await step('disk/backup', () => writePiece(queue, device, backup));
  await step('disk/primary', () => writePiece(queue, device, primary));
  await step('disk/protect', () => writePiece(queue, device, protective));
}

async function writePiece(queue: DiskQueue, device: Descriptor, { bytes, offsetBytes }: Piece): Promise<void> {
  await writeAt(queue, device, bytes, offsetBytes);
  await syncFile(queue, device);
}

async function writeLabel(
  queue: DiskQueue,
  device: Descriptor,
  label: Label,
  generation: bigint,
  sectorBytes: number,
): Promise<void> {
  const { header, text } = encodeLabel(label, generation, sectorBytes);
  for (const { bytes, offset } of [text, header]) {
    await writePiece(queue, device, { bytes, offsetBytes: labelPlace.startBytes + BigInt(offset) });
  }
}

/** A disk of this pool, with what its label says. */
export class OwnDisk {
  readonly disk: Disk;
  readonly diskId: string;
  readonly geometry: Geometry;
  readonly queue: DiskQueue;
  readonly #pool: string;
  #use: Use;
  #generation: bigint;
  /** Set once the kernel shows it no more. */
  isGone = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: {
    readonly disk: Disk;
    readonly queue: DiskQueue;
    readonly diskId: string;
    /** Of the disk when its table was made: it may be larger now. */
    readonly sizeBytes: bigint;
    readonly pool: string;
    readonly found: FoundLabel | undefined;
  }) {
    const { disk, diskId, found, pool, queue, sizeBytes } = options;
    this.disk = disk;
    this.queue = queue;
    this.diskId = diskId;
    this.geometry = { sizeBytes, sectorBytes: disk.sectorBytes };
    this.#pool = pool;
    this.#use = found?.label.use ?? { state: 'free' };
    this.#generation = found?.generation ?? 0n;
  }

  get use(): Use {
    return this.#use;
  }

  get data(): ReturnType<typeof dataPlace> {
    return dataPlace(this.geometry);
  }

  /** For people: what to look for on the shelf. */
  get words(): string {
    return describeDisk(this.disk);
  }

  /** Open for reading, and known to have the label of this disk. @throws Unavailable if it is another one by now */
  async open(): Promise<Descriptor> {
    return await this.#checked(await openDisk(this.queue, this.disk));
  }

  async openToWrite(): Promise<Descriptor> {
    return await this.#checked(await openDiskToWrite(this.queue, this.disk));
  }

  async #checked(device: Descriptor): Promise<Descriptor> {
    try {
      await this.#check(device);
      return device;
    } catch (error) {
      await device[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Makes sure that the label is there. @returns whether the table is, both times */
  async #check(device: Descriptor): Promise<boolean> {
    const read = await readTable(this.queue, device, this.disk);
    if (!('label' in read) || read.label === undefined || read.table.diskId !== this.diskId) {
      throw new Unavailable(`${this.disk.devicePath} no longer has the label that it had; look with: holdfast disks`);
    }
    if (read.label.generation >= this.#generation) this.#learn(read.label);
    return read.table.isWhole;
  }

  /** Whether a volume can be made of it: nobody has it, or has written over its table. */
  async isStillFree(): Promise<boolean> {
    await using device = await openDiskAlone(this.queue, this.disk);
    return device !== undefined && (await this.#check(device)) && this.#use.state === 'free';
  }

  /** Whether the kernel shows it still. It is not asked itself, nor does this wait for it. @param queue not its own */
  async isPresent(queue: DiskQueue): Promise<boolean> {
    return (await readDisk(queue, this.disk.name))?.sequence === this.disk.sequence;
  }

  /** Reads the label again. */
  async reread(): Promise<Use> {
    await using _device = await this.open();
    return this.#use;
  }

  /** Changes the label as a whole, durably; one change at a time. */
  write(use: Use): Promise<void> {
    const turn = this.#last.then(() => this.#write(use));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Puts on the disk what was written to its label. */
  async sync(): Promise<void> {
    await using device = await openDiskToWrite(this.queue, this.disk);
    await syncFile(this.queue, device);
  }

  async #write(use: Use): Promise<void> {
    await using device = await this.openToWrite();
    const label = { diskId: this.diskId, pool: this.#pool, use };
    const generation = this.#generation + 1n;
    await writeLabel(this.queue, device, label, generation, this.geometry.sectorBytes);
    this.#learn({ label, generation });
  }

  #learn({ generation, label }: FoundLabel): void {
    this.#generation = generation;
    this.#use = label.use;
  }
}

/** For people: what to look for on the shelf. */
export function describeDisk({ identities, model, name }: Pick<Disk, 'identities' | 'model' | 'name'>): string {
  const serial = identities.at(-1);
  return [name, model, serial === undefined ? undefined : `serial ${serial}`]
    .filter((each) => each !== undefined)
    .join(', ');
}
