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

/** A client that serves a mount, and no other process that gets its number later. */
export interface ClientProcess {
  readonly pid: number;
  readonly startTicks: string;
}

/** The work for a volume on this node. */
export interface GlusterNote {
  readonly handle: VolumeHandle;
  /** Mounts and processes end with the boot. */
  readonly boot: string;
  /** The client of the first of `mounts`; undefined: none of them has one. */
  readonly client: ClientProcess | undefined;
  /** The numbers of its filesystems. Those after the first have no client any more, and pods may still have them. */
  readonly mounts: readonly DeviceNumber[];
}

const number = z.strictObject({ major: z.int(), minor: z.int() });

/** A key more, of a newer driver, is no mistake: `format` tells what this one cannot read. */
const storedNote = z.object({
  format: z.literal(1),
  handle: z.string(),
  boot: z.string(),
  client: z.strictObject({ pid: z.int().positive(), startTicks: z.string() }).optional(),
  mounts: z.array(number),
});

export function serializeGlusterNote({ client, mounts, ...note }: GlusterNote): string {
  // A look at processes knows more of a client, and a key more makes a note that the next driver cannot read.
  const noted = client && { client: { pid: client.pid, startTicks: client.startTicks } };
  const stored: z.input<typeof storedNote> = { format: 1, ...note, mounts: [...mounts], ...noted };
  return indented(stored);
}

export function parseGlusterNote(text: string): ParsedInput<GlusterNote> {
  const parsed = parseJsonInput(storedNote, text);
  if ('mistakes' in parsed) return parsed;
  const { boot, client, handle: given, mounts } = parsed.data;
  const handle = parseHandle(given);
  if (handle === undefined) return { mistakes: ['handle: it cannot be the id of a volume'] };
  return { data: { handle, boot, client, mounts } };
}

const format: HandleNoteFormat<GlusterNote> = {
  serialize: serializeGlusterNote,
  parse: parseGlusterNote,
  steps: { write: 'gluster/note', remove: 'gluster/forget' },
  subject: 'a volume on GlusterFS',
};

export const fuseType = 'fuse.glusterfs';

/** Answers if a mount shows a volume, or something in it: no other volume has its client. */
export function isNoted(note: GlusterNote | undefined, { device, fsType }: Pick<Mount, 'device' | 'fsType'>): boolean {
  return fsType === fuseType && note !== undefined && note.mounts.some((each) => sameDevice(each, device));
}

/** Notes on volumes on GlusterFS: durable before a client is started, and gone after it has ended. */
export class GlusterNotes {
  readonly boot = bootId();
  readonly #notes: HandleNotes<GlusterNote>;

  private constructor(notes: HandleNotes<GlusterNote>) {
    this.#notes = notes;
  }

  static async open(directory: string, queue: DiskQueue, log: PoolLog): Promise<GlusterNotes> {
    const notes = new HandleNotes(directory, queue, format);
    await notes.load(log);
    return new GlusterNotes(notes);
  }

  /** One of before a reboot says only that there was something. */
  read(handle: VolumeHandle): GlusterNote | undefined {
    const note = this.#notes.read(handle);
    return note === undefined || note.boot === this.boot ? note : { ...note, client: undefined, mounts: [] };
  }

  /** Volumes that have a note. */
  handles(): VolumeHandle[] {
    return this.#notes.all().map(({ handle }) => handle);
  }

  /** Before a client is started, and after the end of the one before, which is noted until then. */
  async begin(handle: VolumeHandle, mounts: readonly DeviceNumber[]): Promise<void> {
    await this.#notes.write({ handle, boot: this.boot, client: undefined, mounts });
  }

  /** Answers if a start has begun in this boot that may have been cut short: no pod has its mount. */
  isBegun(handle: VolumeHandle): boolean {
    const note = this.#notes.read(handle);
    return note?.boot === this.boot && note.client === undefined;
  }

  /** The kernel has given the number to this mount: others that had it are gone. */
  async complete(handle: VolumeHandle, client: ClientProcess, device: DeviceNumber): Promise<void> {
    const isOther = (each: DeviceNumber) => !sameDevice(each, device);
    for (const note of this.#notes.all()) {
      const mounts = note.mounts.filter(isOther);
      if (note.handle !== handle && mounts.length < note.mounts.length) await this.#notes.write({ ...note, mounts });
    }
    const earlier = this.read(handle)?.mounts.filter(isOther) ?? [];
    await this.#notes.write({ handle, boot: this.boot, client, mounts: [device, ...earlier] });
  }

  async remove(handle: VolumeHandle): Promise<void> {
    await this.#notes.remove(handle);
  }
}
