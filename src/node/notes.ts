import { createHmac } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Lane } from '../kernel/lane.ts';
import { type AccessMode, accessModes, type VolumeCapability, type VolumeContent } from '../volume/capability.ts';
import { parseVolumeId, type VolumeId } from '../volume/id.ts';
import { step } from '../volume/step.ts';

/*
 * The kernel shows what is mounted where, but not which capability it was asked for with. That much is kept beside it,
 * so that the same call can be told from a different one (ST06, PB07, PB10). A note proves nothing: whether something
 * is mounted, the mount table says, and without a note what it shows is all there is to compare with.
 */

/** What a target was published with. */
export interface TargetNote {
  readonly readonly: boolean;
  readonly mode: AccessMode;
  readonly digest: string;
}

/** What is kept of one volume's calls; nothing of it is true after a reboot. */
export interface VolumeNote {
  readonly staging: { readonly path: string; readonly digest: string } | undefined;
  readonly targets: Readonly<Record<string, TargetNote>>;
}

const emptyNote: VolumeNote = { staging: undefined, targets: {} };

const storedNote = z.strictObject({
  bootId: z.string(),
  staging: z.strictObject({ path: z.string(), digest: z.string() }).optional(),
  targets: z.record(
    z.string(),
    z.strictObject({ readonly: z.boolean(), mode: z.enum(accessModes), digest: z.string() }),
  ),
});

const bootIdFile = '/proc/sys/kernel/random/boot_id';
const suffix = '.json';

/**
 * The notes on this node's volumes, one file for each in a directory of the driver's own. They are written for the case
 * that the driver is restarted while the node lives on, so nothing here needs to reach the disk: no fsync.
 */
export class Notes {
  readonly #directory: string;
  readonly #lane: Lane;
  readonly #bootId: string;
  /** All there are: this process is the only one that writes them. */
  readonly #notes = new Map<VolumeId, VolumeNote>();

  private constructor(directory: string, lane: Lane, bootId: string) {
    this.#directory = directory;
    this.#lane = lane;
    this.#bootId = bootId;
  }

  /** Makes the directory if need be, and removes what belongs to an earlier boot or was never finished. */
  static async open(directory: string, lane: Lane): Promise<Notes> {
    const bootId = (await readFile(bootIdFile, 'utf8')).trim();
    const notes = new Notes(directory, lane, bootId);
    await lane.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    const names = await lane.run(() => readdir(directory));
    await Promise.all(names.map((name) => notes.#load(name)));
    return notes;
  }

  /** An empty note if there is none, or none that can be understood. */
  read(id: VolumeId): VolumeNote {
    return this.#notes.get(id) ?? emptyNote;
  }

  /**
   * Keeps what is left of a note after something was undone. If that fails, what stays behind claims too much, which
   * does no harm, while the call that undid its work would fail for it.
   */
  async forget(id: VolumeId, note: VolumeNote): Promise<void> {
    try {
      await this.write(id, note);
    } catch {
      this.#notes.delete(id);
    }
  }

  /** Keeps `note`; one that says nothing is removed. Whole or not at all: written beside its place, then renamed. */
  async write(id: VolumeId, note: VolumeNote): Promise<void> {
    const path = this.#path(id);
    if (note.staging === undefined && Object.keys(note.targets).length === 0) {
      this.#notes.delete(id);
      await step('note/write', () => this.#lane.run(() => rm(path, { force: true })));
      return;
    }
    const stored: z.infer<typeof storedNote> = { bootId: this.#bootId, targets: note.targets };
    if (note.staging !== undefined) stored.staging = note.staging;
    const draft = `${path}.draft`;
    await step('note/write', () =>
      this.#lane.run(async () => {
        await writeFile(draft, JSON.stringify(stored), { mode: 0o600 });
        await rename(draft, path);
      }),
    );
    this.#notes.set(id, note);
  }

  /**
   * Stands for a capability: equal for equal ones, and nothing can be read out of it, for mount flags may be sensitive
   * (X02). A filesystem that is left to us counts as the one the volume has (A06).
   */
  digest(capability: VolumeCapability, content: VolumeContent): string {
    const { access, mode } = capability;
    // In their order: of two that contradict each other the last one wins.
    const flags = access.type === 'mount' ? access.mountFlags.join(',') : '';
    const text = JSON.stringify([mode, content.type === 'mount' ? content.fsType : 'block', flags]);
    return createHmac('sha256', this.#bootId).update(text).digest('base64url');
  }

  #path(id: VolumeId): string {
    return join(this.#directory, `${id}${suffix}`);
  }

  async #load(name: string): Promise<void> {
    const path = join(this.#directory, name);
    const id = name.endsWith(suffix) ? parseVolumeId(name.slice(0, -suffix.length)) : undefined;
    const note = id === undefined ? undefined : this.#parse(await this.#lane.run(() => readFile(path, 'utf8')));
    if (id !== undefined && note !== undefined) this.#notes.set(id, note);
    else await this.#lane.run(() => rm(path, { force: true }));
  }

  #parse(text: string): VolumeNote | undefined {
    const parsed = storedNote.safeParse(parseJson(text));
    if (!parsed.success || parsed.data.bootId !== this.#bootId) return undefined;
    return { staging: parsed.data.staging, targets: parsed.data.targets };
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
