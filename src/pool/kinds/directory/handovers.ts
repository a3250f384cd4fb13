import { mkdir, readdir, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { readIfThere, syncDirectory } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { withTimeout } from '../../../volume/flow/with-timeout.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import { step } from '../../../volume/step.ts';
import { parseStored } from '../../../volume/stored-json.ts';
import type { PoolLog } from '../../log.ts';
import { replaceFile } from '../../records/durable-file.ts';
import type { FileParts } from '../../records/file-store.ts';
import { isThere } from '../../records/gone.ts';
import { handoversName } from '../../records/layout.ts';
import type { Projects } from './projects.ts';

export interface HandoversOptions extends FileParts {
  readonly name: string;
  readonly projects: Projects | undefined;
  readonly log: PoolLog;
}

/** A directory that is about to become a volume's data, or to be that no more. */
export interface Handover {
  /** By which it is known, wherever it lies. */
  readonly inode: string;
}

const storedHandover = z.strictObject({ inode: z.string().regex(/^[0-9]+$/) });

/** Deeper than anything that programs make, something mounted in it, or damaged. */
const unwalkable = ['ELOOP', 'EXDEV', 'EUCLEAN', 'EBADMSG', 'EIO'] as const;

/**
 * The time that the opening of the pool, and a call, waits for trees to be put into their projects: a million files
 * take minutes.
 */
const settlingTimeoutMs = 5_000;

/**
 * Volumes that are being adopted or released. Each has a note, `handovers/<id>.json`, from before the first step until after
 * the last. The data gives the note its meaning: without data there is no volume; with data there is one, and the tree may
 * have to be put into the volume's project. A handover that crashed before its one rename is undone, a later one finished.
 */
export class Handovers {
  readonly #options: HandoversOptions;
  readonly #directory: string;
  /** Handovers that are not settled yet, each with the run that settles it; undefined: no run is in progress. */
  readonly #pending = new Map<VolumeId, Promise<void> | undefined>();
  /** Volumes with a tree that cannot be walked to its end: some of it is in no project, or in another one. */
  readonly #unsettled = new Set<VolumeId>();
  readonly #stop = new AbortController();

  constructor(options: HandoversOptions) {
    this.#options = options;
    this.#directory = join(options.layout.root, handoversName);
  }

  async begin(id: VolumeId, handover: Handover): Promise<void> {
    const { layout, queue, reserve, syncs } = this.#options;
    await reserve.withReserve(queue, async () => {
      await queue
        .run(() => mkdir(this.#directory, { mode: 0o700 }))
        .then(() => syncs.sync(queue, layout.root), ifThere);
      await replaceFile(queue, syncs, this.#note(id), JSON.stringify(handover));
    });
  }

  /** Nothing is left to be done. */
  async end(id: VolumeId): Promise<void> {
    const { queue, syncs } = this.#options;
    const isNoted = await queue.run(() => unlink(this.#note(id))).then(() => true, ignoreMissing);
    if (isNoted === true) await syncs.sync(queue, this.#directory);
    this.#pending.delete(id);
    this.#unsettled.delete(id);
  }

  /** The volume has its data: the whole tree belongs to it from now on. */
  async settle(id: VolumeId): Promise<void> {
    const begun = this.#pending.get(id) ?? this.#settle(id);
    this.#pending.set(id, begun);
    try {
      await begun;
    } catch (error) {
      if (this.#pending.get(id) === begun) this.#pending.set(id, undefined);
      throw error;
    }
  }

  /**
   * Before anything is done with a volume. A tree that cannot be walked to its end does not keep the volume from its pod:
   * its size is not enforced then, which `isUnsettled` is for. The next start tries once more.
   * @throws Unavailable while its tree is not settled yet
   */
  async settled(id: VolumeId): Promise<void> {
    if (!this.#pending.has(id) || this.#unsettled.has(id)) return;
    const settling = this.settle(id).catch((error: unknown) => {
      if (!isErrno(error, ...unwalkable)) throw error;
      this.#unsettled.add(id);
    });
    if ((await withTimeout(settlingTimeoutMs, settling)) !== 'late') return;
    throw new Unavailable(`volume ${id}: its files are still being put into its quota project; try again later.`);
  }

  /** True if a part of its tree may be in another project than the volume's. */
  isUnsettled(id: VolumeId): boolean {
    return this.#unsettled.has(id);
  }

  /**
   * Takes up what a killed driver has begun.
   * @returns all that were on their way, and those of them that are no volumes
   */
  async reconcile(): Promise<{ readonly ids: readonly VolumeId[]; readonly dataless: readonly VolumeId[] }> {
    const { layout, log, name, queue } = this.#options;
    const names = await queue.run(() => readdir(this.#directory)).catch((error) => ifMissing(error, []));
    const ids = names.flatMap((each) => parseVolumeId(basename(each, '.json')) ?? []);
    const dataless: VolumeId[] = [];
    const settling: Promise<void>[] = [];
    for (const id of new Set(ids)) {
      if (!(await isThere(queue, layout.volume(id))) || !(await isThere(queue, layout.data(id)))) dataless.push(id);
      else settling.push(this.settle(id));
    }
    const all = settling.map((each) =>
      each.catch((error: unknown) => {
        if (!this.#stop.signal.aborted) log.error({ pool: name, err: error }, 'cannot settle an adopted directory yet');
      }),
    );
    await withTimeout(settlingTimeoutMs, Promise.all(all));
    return { ids, dataless };
  }

  /** Handovers that are not settled yet are left to the next opening. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled([...this.#pending.values()]);
  }

  async #settle(id: VolumeId): Promise<void> {
    const { layout, projects, queue } = this.#options;
    if (!(await this.#verify(id))) return void this.#pending.delete(id);
    await step('adopt/settle', async () => {
      await projects?.take(layout.volume(id), this.#stop.signal).catch((error) => {
        if (!this.#stop.signal.aborted) throw error;
        throw new Unavailable(`volume ${id} is adopted; its files are put into its quota project at the next start.`);
      });
      await syncDirectory(queue, layout.volume(id));
      await this.end(id);
    });
  }

  /**
   * @returns whether there is anything to be settled
   * @throws FailedPrecondition if something else had been put in its place before it was moved
   */
  async #verify(id: VolumeId): Promise<boolean> {
    const { layout, queue } = this.#options;
    const note = this.#note(id);
    const text = await readIfThere(queue, note);
    if (text === undefined) return false;
    const { inode } = parseStored(storedHandover, text, note);
    const status = await statusOf(queue, layout.data(id));
    if (status.kind === 'directory' && status.inode.toString() === inode) return true;
    throw new FailedPrecondition(
      `volume ${id}: ${layout.data(id)} is not the directory that was being adopted. Stop the driver, and move it away.`,
    );
  }

  #note(id: VolumeId): string {
    return join(this.#directory, `${id}.json`);
  }
}

function ifThere(error: unknown): void {
  if (!isErrno(error, 'EEXIST')) throw error;
}

function ifMissing<T>(error: unknown, instead: T): T {
  if (isErrno(error, 'ENOENT')) return instead;
  throw error;
}
