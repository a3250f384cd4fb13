import { randomUUID } from 'node:crypto';
import { type Disk, readDisk } from '../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition, ResourceExhausted } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { formatBytes } from '../../../volume/size.ts';
import type { Piece, SizeRange } from '../../backend.ts';
import type { PoolLog } from '../../log.ts';
import type { FoundLabel, Use } from './label.ts';
import { dataPlace } from './layout.ts';
import { type DiskMatch, mismatchOf } from './match.ts';
import type { Notes } from './notes.ts';
import { OwnDisk, openDiskAlone, takeDisk } from './own-disk.ts';
import { blankGeneration, disksFor, type SurveyedDisk, surveyDisk } from './survey.ts';

export interface DisksOptions {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly match: DiskMatch;
  readonly notes: Notes;
  readonly log: PoolLog;
}

/** How long it is believed of a disk without a label what it looked like: somebody may have wiped it, or filled it. */
const beliefMs = 30_000;

/** Of one disk: its calls come one after the other, but for a wipe's. */
const placesForDisk = 2;

/** The disks of a pool, as they come and go: which are its own, by their labels, and which it could take. */
export class Disks {
  readonly #options: DisksOptions;
  /** By what the kernel calls a disk, with its sequence: what a look has told. */
  readonly #surveyed = new Map<string, SurveyedDisk>();
  readonly #surveyedMs = new Map<string, number>();
  readonly #queues = new Map<string, DiskQueue>();
  #own: readonly OwnDisk[] = [];
  /** Two disks or more with one label. */
  #copies = new Map<string, readonly OwnDisk[]>();
  #scanning: Promise<void> | undefined;
  #choosing: Promise<unknown> = Promise.resolve();
  /** Hears which volumes came, or went with their disks. */
  onChange: ((ids: readonly VolumeId[]) => void) | undefined;

  constructor(options: DisksOptions) {
    this.#options = options;
  }

  /** Those with labels of this pool that are here, and told apart. */
  own(): readonly OwnDisk[] {
    return this.#own;
  }

  /** @throws FailedPrecondition if its disk is not here, or twice */
  require(id: VolumeId): OwnDisk {
    const found = this.find(id);
    if (found !== undefined) return found;
    throw new FailedPrecondition(`volume ${id}: ${this.absence(id)}`);
  }

  find(id: VolumeId): OwnDisk | undefined {
    return this.#own.find(({ use }) => volumeOf(use) === id);
  }

  findRef(ref: string): OwnDisk | undefined {
    return this.#own.find(({ use }) => 'ref' in use && use.ref === ref);
  }

  /** Why the disk of a volume cannot be used. */
  absence(id: VolumeId): string {
    for (const copies of this.#copies.values()) {
      if (!copies.some(({ use }) => volumeOf(use) === id)) continue;
      const names = copies.map(({ disk }) => disk.devicePath).join(' and ');
      return `${names} have the same label: one is a copy of the other. Take one of them out.`;
    }
    const words = this.#options.notes.get(id)?.words;
    return `its disk${words === undefined ? '' : ` (${words})`} is not here, or does not answer: put it back.`;
  }

  async pieces(): Promise<readonly Piece[]> {
    await this.scan();
    const own = this.#own.map(({ data, use }): Piece => {
      const isFree = use.state === 'free';
      return { sizeBytes: data.lengthBytes, use: isFree ? 'free' : 'used', ref: 'ref' in use ? use.ref : undefined };
    });
    const blank = this.#blank().map((disk): Piece => {
      return { sizeBytes: dataPlace(disk).lengthBytes, use: 'free', ref: undefined };
    });
    return [...own, ...blank];
  }

  /** Looks which disks there are: those that were not seen before are read, and those that could not be. */
  scan(): Promise<void> {
    this.#scanning ??= this.#scan().finally(() => {
      this.#scanning = undefined;
    });
    return this.#scanning;
  }

  async #scan(): Promise<void> {
    const { match, queue } = this.#options;
    const disks = await disksFor(queue, match);
    const keys = new Set(disks.map(keyOf));
    for (const each of [this.#surveyed, this.#surveyedMs, this.#queues]) {
      for (const key of each.keys()) if (!keys.has(key)) each.delete(key);
    }
    await Promise.all(disks.map((disk) => this.#survey(disk)));
    await this.#sort();
  }

  async #survey(disk: Disk): Promise<void> {
    const key = keyOf(disk);
    const before = this.#surveyed.get(key);
    const isFresh = performance.now() - (this.#surveyedMs.get(key) ?? Number.NEGATIVE_INFINITY) < beliefMs;
    if (before !== undefined && (before.kind === 'ours' || isFresh)) return;
    const queue = this.#queueOf(disk);
    // Somebody waits for it already.
    if (queue.running >= placesForDisk) return;
    const surveyed = await surveyDisk(queue, disk, mismatchOf(disk, this.#options.match) === undefined);
    // It was taken meanwhile: what was seen of that is half of it.
    if (this.#surveyed.get(key) !== before) return;
    this.#surveyed.set(key, surveyed);
    if (surveyed.kind === 'refused' && surveyed.isPassing === true) this.#surveyedMs.delete(key);
    else this.#surveyedMs.set(key, performance.now());
  }

  /** What the next look is to read again. */
  #forget(disk: Disk): void {
    this.#surveyed.delete(keyOf(disk));
  }

  async #sort(): Promise<void> {
    const { poolName: pool } = this.#options;
    const found = [...this.#surveyed.values()].flatMap((surveyed) => {
      if (surveyed.kind !== 'ours' || (surveyed.label?.label.pool ?? '') !== pool) return [];
      const { disk, diskId, label, sizeBytes } = surveyed;
      const known = [...this.#own, ...[...this.#copies.values()].flat()].find(
        (own) => own.diskId === diskId && keyOf(own.disk) === keyOf(disk),
      );
      return known ?? new OwnDisk({ disk, diskId, sizeBytes, found: label, pool, queue: this.#queueOf(disk) });
    });
    const before = this.#own;
    const byId = Map.groupBy(found, ({ diskId }) => diskId);
    this.#copies = new Map([...byId].filter(([, disks]) => disks.length > 1));
    this.#own = [...byId.values()].flatMap((disks) => (disks.length === 1 ? disks : []));
    for (const own of before) own.isGone = !this.#own.includes(own);
    await this.#tellChanges(before);
  }

  async #tellChanges(before: readonly OwnDisk[]): Promise<void> {
    const { log, notes, poolName: pool } = this.#options;
    for (const [diskId, disks] of this.#copies) {
      const paths = disks.map(({ disk }) => disk.devicePath);
      log.error({ pool, disk_id: diskId, paths }, 'two disks have the same label; neither is used');
    }
    const gone = before.filter(({ isGone }) => isGone);
    const come = this.#own.filter((own) => !before.includes(own));
    for (const { diskId, words } of gone) log.warn({ pool, disk_id: diskId, disk: words }, 'a disk is gone');
    for (const { diskId, use, words } of come) {
      log.info({ pool, disk_id: diskId, disk: words, use: use.state }, 'a disk of the pool is here');
    }
    for (const own of come) await this.#takeNote(own);
    const ids = [...gone, ...come].flatMap(({ use }) => volumeOf(use) ?? []);
    for (const { isDeleted, record } of notes.all()) if (isDeleted) ids.push(record.id);
    if (ids.length > 0) this.onChange?.(ids);
  }

  /** The label is the truth; but what was deleted while its disk was away is deleted. */
  async #takeNote(own: OwnDisk): Promise<void> {
    const { notes } = this.#options;
    const { diskId, use, words } = own;
    if (use.state === 'volume') {
      const { record } = use;
      const note = notes.get(record.id);
      if (note?.isDeleted === true && note.diskId === diskId) {
        await own.write({ state: 'trash', id: record.id, ref: newRef(record.id), record, deletion: undefined });
        await notes.remove(record.id);
      } else if (note === undefined || note.diskId !== diskId) {
        await notes.write({ diskId, words, record, isDeleted: false });
      }
    }
    const stale = notes.all().filter((note) => note.diskId === diskId && note.record.id !== volumeOf(own.use));
    for (const { record } of stale) await notes.remove(record.id);
  }

  /** Chooses the smallest disk that is free and large enough, and makes it the volume's draft. @throws ResourceExhausted */
  take(id: VolumeId, size: SizeRange): Promise<OwnDisk> {
    const turn = this.#choosing.then(() => this.#choose(size)).then((own) => this.#begin(own, id));
    this.#choosing = turn.catch(() => undefined);
    return turn;
  }

  async #begin(own: OwnDisk, id: VolumeId): Promise<OwnDisk> {
    await own.write({ state: 'draft', id, ref: newRef(id) });
    return own;
  }

  async #choose(size: SizeRange): Promise<OwnDisk> {
    const passedOver = new Set<string>();
    // As often as there are disks that turn out to be others' by now.
    for (;;) {
      await this.scan();
      const own = this.#own.filter(({ diskId, use }) => use.state === 'free' && !passedOver.has(diskId));
      const choice = [
        ...own.map((each) => ({ disk: each.disk, own: each, bytes: each.data.lengthBytes })),
        ...this.#blank().map((disk) => ({ disk, own: undefined, bytes: dataPlace(disk).lengthBytes })),
      ]
        .filter(({ bytes }) => bytes >= size.sizeBytes && (size.limitBytes === undefined || bytes <= size.limitBytes))
        // Of equal ones, one that is ours already.
        .toSorted((a, b) =>
          a.bytes === b.bytes ? Number(b.own !== undefined) - Number(a.own !== undefined) : a.bytes < b.bytes ? -1 : 1,
        )
        .at(0);
      if (choice === undefined) throw this.#noneFits(size);
      const taken = choice.own === undefined ? await this.#label(choice.disk) : await this.#stillFree(choice.own);
      if (taken !== undefined) return taken;
      if (choice.own !== undefined) passedOver.add(choice.own.diskId);
    }
  }

  /** undefined: it was changed behind our back, or somebody has it. */
  async #stillFree(own: OwnDisk): Promise<OwnDisk | undefined> {
    const { log, poolName: pool } = this.#options;
    const isFree = await own.isStillFree().catch((error) => {
      log.warn({ pool, disk: own.words, err: error }, 'a free disk cannot be looked at');
      return false;
    });
    if (isFree) return own;
    log.warn(
      { pool, disk: own.words },
      'a free disk is passed over: somebody has it, or wrote over its partition table',
    );
    this.#forget(own.disk);
    return undefined;
  }

  /** Makes a blank disk ours. @returns undefined if it is not blank any more, or somebody has it */
  async #label(disk: Disk): Promise<OwnDisk | undefined> {
    const queue = this.#queueOf(disk);
    // Looked at again in any case, once this is over.
    this.#surveyed.set(keyOf(disk), { disk, kind: 'refused', reason: 'it is being labelled' });
    this.#surveyedMs.set(keyOf(disk), performance.now());
    try {
      return await this.#labelAlone(queue, disk);
    } catch (error) {
      this.#forget(disk);
      throw error;
    }
  }

  async #labelAlone(queue: DiskQueue, disk: Disk): Promise<OwnDisk | undefined> {
    await using device = await openDiskAlone(queue, disk);
    const again = await readDisk(queue, disk.name);
    if (device === undefined || again === undefined || keyOf(again) !== keyOf(disk)) return undefined;
    // Nobody else writes to it from here on; who had it a moment ago may have.
    const generation = await blankGeneration(queue, device, again);
    if (generation === undefined) return undefined;
    const { poolName: pool } = this.#options;
    const diskId = randomUUID();
    const found: FoundLabel = { label: { diskId, pool, use: { state: 'free' } }, generation: generation + 1n };
    await takeDisk(queue, device, again, found);
    const { sizeBytes } = again;
    const own = new OwnDisk({ disk: again, diskId, sizeBytes, queue, pool, found });
    this.#surveyed.set(keyOf(again), { disk: again, kind: 'ours', diskId, sizeBytes, label: found });
    this.#own = [...this.#own, own];
    this.#options.log.info({ pool, disk_id: diskId, disk: own.words }, 'a blank disk was labelled');
    return own;
  }

  #blank(): Disk[] {
    const { match } = this.#options;
    return [...this.#surveyed.values()].flatMap(({ disk, kind }) =>
      kind === 'blank' && mismatchOf(disk, match) === undefined ? [disk] : [],
    );
  }

  #noneFits({ limitBytes, sizeBytes }: SizeRange): ResourceExhausted {
    const most = limitBytes === undefined ? '' : ` and at most ${formatBytes(limitBytes)}`;
    return new ResourceExhausted(
      `pool ${this.#options.poolName} has no free disk with at least ${formatBytes(sizeBytes)}${most}. Delete volumes or add disks.`,
    );
  }

  #queueOf(disk: Disk): DiskQueue {
    const key = keyOf(disk);
    const queue = this.#queues.get(key) ?? this.#options.queue.beside(disk.name, placesForDisk);
    this.#queues.set(key, queue);
    return queue;
  }
}

function keyOf({ name, sequence, sizeBytes }: Disk): string {
  return `${name} ${sequence} ${sizeBytes}`;
}

export function volumeOf(use: Use): VolumeId | undefined {
  return use.state === 'volume' ? use.record.id : undefined;
}

/** What a disk is named by in the trash, once: it may have had another volume before, and will have one again. */
export function newRef(id: VolumeId): string {
  return `${id}.${randomUUID().slice(0, 8)}`;
}
