import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { dropCache } from '../../../../kernel/block/block.ts';
import type { Descriptor } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { readAtMost, syncDirectory, syncFile } from '../../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../../volume/errors.ts';
import { Held } from '../../../../volume/held.ts';
import { takeLock } from '../../../location/lock.ts';
import type { DiskLabel } from './disk-label.ts';
import type { LabelOptions } from './label.ts';
import type { FilesystemName, Note, NoteFile } from './note-file.ts';
import type { Payload } from './payload.ts';
import { LabelTurns } from './turns.ts';

const probeBytes = 4096;

/**
 * The label of a disk that was adopted, or can be: a note in the driver's directory. There is one as long as the disk has a
 * volume, or something that was one.
 */
export class NoteLabel implements DiskLabel {
  /** Never aborted: no other node sees the note. */
  readonly lost = new AbortController().signal;
  readonly #file: NoteFile;
  readonly #lock: Descriptor;
  /** Held open, so that no other disk can have its number as long as the pool is open. */
  readonly #device: Descriptor;
  readonly #poolName: string;
  #note: Note;
  readonly #turns = new LabelTurns(() => this.#read());

  private constructor(file: NoteFile, poolName: string, note: Note, lock: Descriptor, device: Descriptor) {
    this.#file = file;
    this.#poolName = poolName;
    this.#note = note;
    this.#lock = lock;
    this.#device = device;
  }

  /**
   * @param empty the state of the disk if there is no note
   * @param device the disk, which is closed with the label, and if there is none
   * @throws FailedPrecondition if another driver has it
   */
  static async open(options: LabelOptions, file: NoteFile, empty: Payload, device: Descriptor): Promise<NoteLabel> {
    const { poolName, queue } = options;
    await using held = new Held();
    held.use(device);
    await queue.run(async () => {
      await mkdir(dirname(file.lockPath), { recursive: true, mode: 0o700 });
      await writeFile(file.lockPath, '', { flag: 'a', mode: 0o600 });
    });
    // The note must be found after a power cut.
    await syncDirectory(queue, dirname(dirname(file.lockPath)));
    const lock = held.use(await takeLock(options, file.lockPath));
    // A driver that had the lock until now may have changed it.
    const note = (await file.read()) ?? { payload: empty, filesystem: undefined };
    held.giveUp();
    return new NoteLabel(file, poolName, note, lock, device);
  }

  get payload(): Payload {
    return this.#note.payload;
  }

  /** The state of the disk when it was adopted, and its changes since. */
  get note(): Note {
    return this.#note;
  }

  get obstacle(): FailedPrecondition | undefined {
    if (this.payload.object !== undefined) return undefined;
    return new FailedPrecondition(
      `pool ${this.#poolName}: its disk can be adopted (holdfast adopt), and holds no volume. If it is blank by now, restart the driver.`,
    );
  }

  refresh(): Promise<void> {
    return this.#turns.inTurn(() => this.#turns.read());
  }

  settled(): Promise<Payload> {
    return this.#turns.inTurn(async () => {
      await this.#turns.settle();
      return this.payload;
    });
  }

  /** The volume may change, but no new one is made on the disk: it has no label of ours. */
  change(edit: (payload: Payload) => Payload): Promise<void> {
    return this.#turns.inTurn(async () => {
      await this.#turns.settle();
      const { filesystem, payload: before } = this.#note;
      const payload = edit(before);
      if (payload === before) return;
      const { obstacle } = this;
      if (obstacle !== undefined && payload.object !== undefined) throw obstacle;
      await this.#write({ filesystem, payload });
    });
  }

  /** The disk has a volume from now on. */
  adopt(payload: Payload, filesystem: FilesystemName | undefined): Promise<void> {
    return this.#turns.inTurn(() => this.#write({ filesystem, payload }));
  }

  /** @returns where it is noted that another pool has adopted a disk of this name @throws DataLoss */
  otherNoteOf(diskName: string): Promise<string | undefined> {
    return this.#file.otherWith(diskName);
  }

  /** Not from memory. What lies on the disk is another's: nothing is written. */
  async probe(queue: DiskQueue): Promise<void> {
    await this.dropCache(queue);
    await readAtMost(queue, this.#device, { lengthBytes: probeBytes, offsetBytes: 0 });
    await syncFile(queue, this.#device);
  }

  /** The disk says nothing of it. */
  async leave(): Promise<void> {}

  /** From now on, writes of others to the disk are on it, and reads do not come from the page cache. */
  dropCache(queue: DiskQueue): Promise<void> {
    return dropCache(queue, this.#device);
  }

  /** From now on another driver may have it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device[Symbol.asyncDispose]();
    await this.#lock[Symbol.asyncDispose]();
  }

  #write(note: Note): Promise<void> {
    return this.#turns.write(async () => {
      if (note.payload.object === undefined) await this.#file.remove();
      else await this.#file.write(note);
      this.#note = note;
    });
  }

  async #read(): Promise<void> {
    const { filesystem, payload } = this.#note;
    this.#note = (await this.#file.read()) ?? { filesystem, payload: { ...payload, object: undefined } };
  }
}
