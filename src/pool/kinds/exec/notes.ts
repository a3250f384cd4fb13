import { z } from 'zod';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import type { Mount } from '../../../kernel/mount/mount-table.ts';
import { bootId } from '../../../kernel/process/boot-id.ts';
import { parseHandle, type VolumeHandle } from '../../../volume/handle.ts';
import { type ParsedInput, parseJsonInput } from '../../../volume/parse-input.ts';
import { indented } from '../../../volume/stored-json.ts';
import type { PoolLog } from '../../log.ts';
import { type HandleNoteFormat, HandleNotes } from '../../on-node/handle-notes.ts';

/** A device that a program has attached, as the kernel knows it. */
export interface NotedDevice extends DeviceNumber {
  readonly path: string;
  /** Another one for each time that something is attached under this number (BLKGETDISKSEQ). */
  readonly sequence: string | undefined;
}

/** A mount that a program has made, as the kernel knows it. */
export type NotedMount = Pick<Mount, 'device' | 'fsType' | 'root' | 'source'>;

/**
 * The work of a program for a volume on this node. begun: it was called, and may have done any part of it. done: it has
 * said so, and it is true.
 */
export interface ExecNote {
  readonly handle: VolumeHandle;
  readonly program: string;
  readonly state: 'begun' | 'done';
  /** Devices and mounts end with the boot. */
  readonly boot: string;
  readonly device?: NotedDevice | undefined;
  readonly mount?: NotedMount | undefined;
}

const number = z.strictObject({ major: z.int(), minor: z.int() });

/** A key more, of a newer driver, is no mistake: `format` tells what this one cannot read. */
const storedNote = z.object({
  format: z.literal(1),
  handle: z.string(),
  program: z.string(),
  state: z.enum(['begun', 'done']),
  boot: z.string(),
  device: z.strictObject({ ...number.shape, path: z.string(), sequence: z.string().optional() }).optional(),
  mount: z.strictObject({ device: number, fsType: z.string(), root: z.string(), source: z.string() }).optional(),
});

const format: HandleNoteFormat<ExecNote> = {
  serialize: serializeExecNote,
  parse: parseExecNote,
  steps: { write: 'exec/note', remove: 'exec/forget' },
  subject: 'a volume of a program',
};

/** Notes on volumes of programs: durable before a program is called, and gone after its last call. */
export class ExecNotes {
  readonly boot = bootId();
  readonly #notes: HandleNotes<ExecNote>;
  /** Devices that volumes have from the moment in which that was decided: their notes are written later. */
  readonly #claims = new Map<VolumeHandle, NotedDevice>();

  private constructor(notes: HandleNotes<ExecNote>) {
    this.#notes = notes;
  }

  static async open(directory: string, queue: DiskQueue, log: PoolLog): Promise<ExecNotes> {
    const notes = new HandleNotes(directory, queue, format);
    await notes.load(log);
    return new ExecNotes(notes);
  }

  read(handle: VolumeHandle): ExecNote | undefined {
    return this.#notes.read(handle);
  }

  /**
   * Gives a device to a volume, unless it is another one's on this node. Looks and takes in one go: programs of two
   * volumes may answer the same device at one time.
   * @returns the other one
   */
  claim(handle: VolumeHandle, device: NotedDevice): VolumeHandle | undefined {
    const noted = this.#notes.all().map((note) => [note.handle, note.device] as const);
    for (const [other, its] of [...noted, ...this.#claims]) {
      if (other !== handle && its !== undefined && isSameDevice(its, device)) return other;
    }
    this.#claims.set(handle, device);
    return undefined;
  }

  /** Gives a claim back: the device is none for this volume. */
  release(handle: VolumeHandle): void {
    this.#claims.delete(handle);
  }

  async write(note: ExecNote): Promise<void> {
    await this.#notes.write(note);
    // From now on its note has the device.
    this.release(note.handle);
  }

  async remove(handle: VolumeHandle): Promise<void> {
    await this.#notes.remove(handle);
    this.release(handle);
  }
}

export function isSameDevice(one: NotedDevice, other: NotedDevice): boolean {
  return sameDevice(one, other) && one.sequence === other.sequence;
}

export function serializeExecNote(note: ExecNote): string {
  const stored: z.input<typeof storedNote> = { format: 1, ...note };
  return indented(stored);
}

export function parseExecNote(text: string): ParsedInput<ExecNote> {
  const parsed = parseJsonInput(storedNote, text);
  if ('mistakes' in parsed) return parsed;
  const { device, format: _format, handle: given, mount, ...rest } = parsed.data;
  const handle = parseHandle(given);
  if (handle === undefined) return { mistakes: ['handle: it cannot be the id of a volume'] };
  return {
    data: {
      ...rest,
      handle,
      ...(device === undefined ? {} : { device: { ...device, sequence: device.sequence } }),
      ...(mount === undefined ? {} : { mount }),
    },
  };
}
