import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { didYouMean } from '../settings/nearest.ts';
import { FailedPrecondition, InvalidArgument, NotFound, Unavailable } from '../volume/errors.ts';
import { finishAll } from '../volume/flow/finish-all.ts';
import { pause } from '../volume/flow/pause.ts';
import {
  type GroupId,
  isVolumeId,
  parseSnapshotId,
  parseVolumeId,
  type SnapshotId,
  type VolumeId,
} from '../volume/id.ts';
import { type LabelSelector, type Labels, selects } from '../volume/labels.ts';
import type { Noted } from '../volume/move/rule.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { GroupRecord, SnapshotRecord } from '../volume/snapshot-record.ts';
import { volumeByName } from './kinds.ts';
import type { CopyState, PoolMoves } from './moves.ts';
import type { ListedSnapshot, Pool, Seen, SeenVolume } from './pool.ts';
import { type PoolOpener, type PoolState, PoolSupervisor, type SupervisorLog } from './supervisor/supervisor.ts';

export type { PoolOpener } from './supervisor/supervisor.ts';

export const poolStates = ['opening', 'open', 'failed', 'quarantined'] as const;

export interface PoolsOptions {
  /** The number of worker threads of each pool. */
  readonly threadsEach: number;
  /** A disk that has not answered for this time is sick. */
  readonly sickAfterMs: (poolName: string) => number;
  readonly labels: (poolName: string) => Labels;
  /** The section that it comes from, if that stands for several pools. */
  readonly sectionOf: (poolName: string) => string | undefined;
  /** Sections that stand for several pools: which they are is not all known at first (`add`, `settle`). */
  readonly sections: readonly string[];
  readonly log: SupervisorLog;
}

const quiet: SupervisorLog = { info: () => undefined, warn: () => undefined, error: () => undefined };
const readyPollMs = 500;
const usual: PoolsOptions = {
  threadsEach: 4,
  sickAfterMs: () => 20_000,
  labels: () => ({}),
  sectionOf: () => undefined,
  sections: [],
  log: quiet,
};

/** The state of a configured pool. */
export interface PoolStatus {
  readonly name: string;
  readonly state: (typeof poolStates)[number];
  /** The reason why it cannot be used; undefined while it is open, or on its way. */
  readonly reason: string | undefined;
}

/** A volume, snapshot or group, and the pool that has it. */
export interface Found<Kind> {
  readonly pool: Pool;
  readonly record: Kind;
}

export type FoundVolume = Found<VolumeRecord>;

/** A volume that is seen. `pool` is undefined if the pool is not open: the volume can still be unmounted (UP08). */
export interface OwnedVolume extends SeenVolume {
  readonly pool: Pool | undefined;
}

type FoundRecord = VolumeRecord | ListedSnapshot | GroupRecord;

type LookUp<Kind> = (pool: Pool) => Promise<Kind | undefined>;

/** The configured pools of this node. Each has its own supervisor: a sick one is reported and disturbs no other. */
export class Pools {
  readonly #supervisors = new Map<string, PoolSupervisor>();
  readonly #defaultName: string;
  readonly #options: PoolsOptions;
  /** Pools that are not yet among the others, as they might not be openable at all. */
  readonly #added = new Set<PoolSupervisor>();
  #isSettled: boolean;
  /**
   * The node that a snapshot is coming from, and may be on still; undefined: none. Asked only if no pool has the snapshot.
   * @throws Unavailable while that is not known
   */
  comingFrom: (id: SnapshotId) => Promise<string | undefined> = async () => undefined;

  constructor(openers: ReadonlyMap<string, PoolOpener>, defaultName: string, options: Partial<PoolsOptions> = {}) {
    this.#options = { ...usual, ...options };
    this.#defaultName = defaultName;
    this.#isSettled = this.#options.sections.length === 0;
    for (const [name, opener] of openers) this.#supervisors.set(name, this.#supervisorFor(name, opener));
  }

  #supervisorFor(name: string, opener: PoolOpener): PoolSupervisor {
    const { log, sickAfterMs, threadsEach } = this.#options;
    const makeQueue = () => new DiskQueue(name, threadsEach);
    return new PoolSupervisor({ name, opener, makeQueue, sickAfterMs: sickAfterMs(name), log });
  }

  /**
   * Opens another pool. It is one of the node's if that succeeds, or if it could have volumes anyway.
   * @returns why it does not
   */
  async add(name: string, opener: PoolOpener, isKnown: () => Promise<boolean>): Promise<unknown> {
    const supervisor = this.#supervisorFor(name, opener);
    this.#added.add(supervisor);
    try {
      const error = await supervisor.open();
      if (error === undefined || (await isKnown())) this.#supervisors.set(name, supervisor);
      else await supervisor.stop();
      return error;
    } finally {
      this.#added.delete(supervisor);
    }
  }

  /** All pools that were there at the start have been found: a volume that is in none of them is not on this node. */
  settle(): void {
    this.#isSettled = true;
  }

  /**
   * Opens all pools at once; resolves when each is open or has failed.
   * @returns why the failed ones failed
   */
  async open(): Promise<{ readonly name: string; readonly error: unknown }[]> {
    const failures: { name: string; error: unknown }[] = [];
    await Promise.all(
      Array.from(this.#supervisors, async ([name, supervisor]) => {
        const error = await supervisor.open();
        if (error !== undefined) failures.push({ name, error });
      }),
    );
    return failures;
  }

  /** True if every pool is open or has failed, or takes so long to open that its disk must be sick. */
  ready(): boolean {
    return this.#isSettled && [...this.#supervisors.values()].every(({ isSettled }) => isSettled);
  }

  /** Resolves once it is `ready`, or the signal is aborted: no disk that hangs keeps back what waits for that. */
  async whenReady(signal: AbortSignal): Promise<void> {
    while (!this.ready() && !signal.aborted) await pause(readyPollMs, signal);
  }

  /** The reasons why the driver is not healthy: the pools that failed, if there is none that ever worked (I08). */
  problems(): string[] {
    const states = [...this.#supervisors.values()].map(({ state }) => state);
    // No restart of the driver would cure a sick disk.
    if (!states.every(({ state }) => state === 'failed')) return [];
    return states.flatMap((state) => (state.state === 'failed' ? [state.error.message] : []));
  }

  statuses(): PoolStatus[] {
    return Array.from(this.#supervisors, ([name, { state }]) => {
      const reason = state.state === 'failed' || state.state === 'quarantined' ? state.error.message : undefined;
      return { name, state: state.state, reason };
    });
  }

  names(): string[] {
    return [...this.#supervisors.keys()];
  }

  /** The pools with these labels, open or not. */
  selected(selector: LabelSelector): string[] {
    return this.names().filter((name) => selects(selector, this.#options.labels(name)));
  }

  /** The pools that a class means by a name: that one, or all of a section that stands for several. */
  named(name: string): string[] {
    const { sectionOf, sections } = this.#options;
    return sections.includes(name) ? this.names().filter((each) => sectionOf(each) === name) : [name];
  }

  /** True if a name is that of a section which stands for several pools. */
  isSection(name: string): boolean {
    return this.#options.sections.includes(name);
  }

  get defaultName(): string {
    return this.#defaultName;
  }

  /** The pools that are open. */
  all(): Pool[] {
    return [...this.#supervisors.values()].flatMap(({ state }) => (state.state === 'open' ? [state.pool] : []));
  }

  /** The pools that are not open: they may have what no other has. Asked before the others are looked at, as one may open meanwhile. */
  closed(): string[] {
    const open = new Set(this.all().map(({ name }) => name));
    return this.names().filter((name) => !open.has(name));
  }

  /** The first of them. */
  firstClosed(): string | undefined {
    return this.closed()[0];
  }

  isOpen(name: string): boolean {
    return this.all().some((pool) => pool.name === name);
  }

  /** True if all pools are found, and open: what none of them has is nowhere on this node. */
  areAllOpen(): boolean {
    return this.ready() && this.firstClosed() === undefined;
  }

  /** The pools whose records are known: the open ones, and those in quarantine, which answer all else with an error. */
  known(): Pool[] {
    return this.names().flatMap((name) => this.#known(name) ?? []);
  }

  /** @throws InvalidArgument if there is no such pool, Unavailable while it cannot be used */
  get(name: string): Pool {
    const { state } = this.#supervisor(name);
    if (state.state === 'open') return state.pool;
    throw this.#closed(name, state);
  }

  /** For what needs the records only. @throws InvalidArgument, Unavailable */
  getKnown(name: string): Pool {
    return this.#known(name) ?? this.get(name);
  }

  /**
   * A volume that lives longer than a pod: an ephemeral one is known to its publish and unpublish only.
   * @throws Unavailable if no open pool has it but another one, not open, might: "not found" could be a lie (DV08)
   */
  find(id: VolumeId): Promise<FoundVolume | undefined> {
    return this.#search(`volume ${id}`, async (pool) => {
      const record = await pool.find(id);
      return record?.ephemeral === undefined ? record : undefined;
    });
  }

  /** An ephemeral volume of the pools whose records are known: one broken disk does not stop those on the others. */
  async findEphemeral(id: VolumeId): Promise<FoundVolume | undefined> {
    for (const pool of this.known()) {
      const record = await pool.find(id);
      if (record?.ephemeral !== undefined) return { pool, record };
    }
    return undefined;
  }

  /** Like `find`, for calls that need the volume. @throws NotFound, Unavailable */
  async require(id: VolumeId): Promise<FoundVolume> {
    const found = await this.find(id);
    if (found === undefined) throw new NotFound(`There is no volume ${id} on this node${await this.#whereElse(id)}.`);
    return found;
  }

  /** The rest of a sentence about a volume that has left this node: its pod may wait here for ever. */
  async #whereElse(id: VolumeId): Promise<string> {
    // The answer does not depend on it.
    const { at } = (await this.noteOf(id).catch(() => undefined)) ?? {};
    if (at === undefined) return '';
    return `: it went to node ${at}. If its pod waits here: kubectl holdfast move --resume CLAIM makes the PersistentVolume name the node that has it; then delete the pod`;
  }

  /** The note of this node about a volume or snapshot, which its pools share; undefined: no pool is open whose volumes can move. */
  async noteOf(id: SnapshotId | VolumeId): Promise<Noted | undefined> {
    const moves = this.anyMoves;
    return isVolumeId(id) ? moves?.noted(id) : moves?.snapshots.noted(id);
  }

  /** The moves of one open pool whose volumes can move: all of them share the notes of this node. */
  get anyMoves(): PoolMoves | undefined {
    return this.all().find(({ moves }) => moves !== undefined)?.moves;
  }

  /** The same as `find`, for snapshots. @throws Unavailable also while it is being handed over to another pool */
  async findSnapshot(id: SnapshotId): Promise<Found<SnapshotRecord> | undefined> {
    const look = () => this.#search(`snapshot ${id}`, (pool) => pool.findSnapshot(id));
    // It may have moved in the first look, to a pool that had been asked already.
    const found = (await look()) ?? (await look());
    if (found === undefined) await this.#requireNotLeft(id);
    return found;
  }

  /** @throws Unavailable if a pool has a copy that was handed over, and no pool has the snapshot yet */
  async #requireNotLeft(id: SnapshotId): Promise<void> {
    const node = await this.comingFrom(id);
    if (node !== undefined) {
      throw new Unavailable(
        `snapshot ${id} is coming from node ${node}, and has not arrived yet: see holdfast move status.`,
      );
    }
    const left = this.known().find(({ moves }) => moves?.snapshots.isLeft(id) === true);
    if (left === undefined) return;
    const { sourceId } = left.moves?.snapshots.find(id) ?? {};
    throw new Unavailable(
      `snapshot ${id} was handed over by pool ${left.name}, and has not arrived in another one, as far as is known: see holdfast move status. If that other pool is lost: holdfast move cancel ${sourceId}.`,
    );
  }

  /** The same as `find`, for groups of snapshots. */
  findGroup(id: GroupId): Promise<Found<GroupRecord> | undefined> {
    return this.#search(`group ${id}`, (pool) => pool.findGroup(id));
  }

  /**
   * The same as `findSnapshot`, for a call that is about to make it. A pool that could not be opened is passed over, and
   * operations in one that is in quarantine, too: one broken disk does not stop snapshots on the others.
   * @throws Unavailable while a pool is being opened
   */
  async findMadeSnapshot(id: SnapshotId): Promise<Found<SnapshotRecord> | undefined> {
    const found = await this.#searchMade(`snapshot ${id}`, (pool) => pool.findSnapshot(id));
    if (found === undefined) await this.#requireNotLeft(id);
    return found;
  }

  /** The same as `findMadeSnapshot`, for groups. */
  findMadeGroup(id: GroupId): Promise<Found<GroupRecord> | undefined> {
    return this.#searchMade(`group ${id}`, (pool) => pool.findGroup(id));
  }

  async #search<Kind extends FoundRecord>(what: string, lookUp: LookUp<Kind>): Promise<Found<Kind> | undefined> {
    // In a pool that is in quarantine too: a call that was cut short may have made it.
    const [closed, isSettled] = [this.firstClosed(), this.#isSettled];
    const found = await this.#searchKnown(what, lookUp);
    if (found !== undefined) return found;
    if (closed !== undefined) {
      throw new Unavailable(`${what} is in no open pool, and pool ${closed} is not open; try again later.`);
    }
    if (!isSettled) throw lookingForDisks();
    return undefined;
  }

  async #searchMade<Kind extends FoundRecord>(what: string, lookUp: LookUp<Kind>): Promise<Found<Kind> | undefined> {
    const why = this.#whyUnsettled(this.names());
    const found = await this.#searchKnown(what, lookUp);
    if (found === undefined && why !== undefined) throw why;
    return found;
  }

  /** @throws Unavailable while one of these is being opened, or others are being looked for: they may have the object */
  requireSettled(names: readonly string[]): void {
    const why = this.#whyUnsettled(names);
    if (why !== undefined) throw why;
  }

  #whyUnsettled(names: readonly string[]): Unavailable | undefined {
    for (const name of names) {
      const { isSettled, state } = this.#supervisor(name);
      if (!isSettled && state.state !== 'open') return this.#closed(name, state);
    }
    return this.#isSettled ? undefined : lookingForDisks();
  }

  /**
   * @throws FailedPrecondition if two pools have it: whatever is done could be done to the wrong one; Unavailable if it has left both by moves
   * that have not ended
   */
  async #searchKnown<Kind extends FoundRecord>(what: string, lookUp: LookUp<Kind>): Promise<Found<Kind> | undefined> {
    const found: Found<Kind>[] = [];
    for (const pool of this.known()) {
      const record = await lookUp(pool);
      if (record !== undefined) found.push({ pool, record });
    }
    if (found.length > 1) {
      const { areLeft, valid } = await this.#judge(found);
      if (valid !== undefined) return valid;
      const names = found.map(({ pool }) => pool.name).join(' and ');
      if (areLeft) {
        throw new Unavailable(
          `${what} waits for the end of a move: the copies in pools ${names} were left, or are being handed over, and none of them is used. See holdfast move status ${found[0]?.record.id}.`,
        );
      }
      throw new FailedPrecondition(
        `${what} is in pools ${names}, under one id. Stop the driver, and move its directory out of the pool that should not have it.`,
      );
    }
    return found[0];
  }

  /** Leaves out the copies that a volume has left, and which are not in the trash yet, and those that a snapshot has left. */
  async withoutLeft<Kind extends FoundRecord>(found: readonly Found<Kind>[]): Promise<Found<Kind>[]> {
    const kept: Found<Kind>[] = [];
    for (const all of Map.groupBy(found, ({ record }) => record.id).values()) {
      const current = all.filter(({ record }) => !isLeft(record));
      // One that no pool has waits for the end of its move.
      const copies = current.length > 0 ? current : all.slice(0, 1);
      const { areLeft, valid } = copies.length > 1 ? await this.#judge(copies) : { areLeft: true };
      kept.push(...(valid !== undefined ? [valid] : areLeft ? copies.slice(0, 1) : copies));
    }
    return kept;
  }

  /**
   * Finds the one that is the volume or snapshot, if all others are known to be copies that it has left when it moved (docs/move.md).
   * @returns `areLeft`: all are known to be such copies, or to be on their way, and no pool that is open has the volume
   */
  async #judge<Kind extends FoundRecord>(
    found: readonly Found<Kind>[],
  ): Promise<{ readonly valid?: Found<Kind> | undefined; readonly areLeft: boolean }> {
    const judged = await Promise.all(
      found.map(async (each) => {
        const state = await stateOfCopy(each.pool, each.record.id).catch(() => undefined);
        return { each, state };
      }),
    );
    const [valid, ...others] = judged.filter(({ state }) => state?.why === undefined && state !== undefined);
    const areKnown = judged.every(({ state }) => state !== undefined);
    if (valid === undefined || others.length > 0) return { areLeft: areKnown && valid === undefined };
    // A pool that cannot be asked has the copy that the volume has left, if this one has come by a move.
    const isSure = areKnown || (valid.state?.mark.generation ?? 0) > 0;
    return { valid: isSure ? valid.each : undefined, areLeft: false };
  }

  #supervisor(name: string): PoolSupervisor {
    const supervisor = this.#supervisors.get(name);
    if (supervisor !== undefined) return supervisor;
    const names = this.names();
    if (this.isSection(name)) {
      throw new InvalidArgument(
        `pool ${name} stands for several disks, each with its own pool: name one of those (holdfast pools).`,
      );
    }
    throw new InvalidArgument(
      `There is no pool '${name}' on this node. Its pools: ${names.join(', ')}${didYouMean(name, names)}.`,
    );
  }

  #known(name: string): Pool | undefined {
    const { state } = this.#supervisor(name);
    return state.state === 'open' || state.state === 'quarantined' ? state.pool : undefined;
  }

  #closed(name: string, state: Exclude<PoolState, { state: 'open' }>): Unavailable {
    if (state.state !== 'opening') return state.error;
    const isSlow = this.#supervisor(name).isSettled;
    return new Unavailable(
      isSlow
        ? `pool ${name} is still being opened, and has been for long: its disk does not answer, it seems.`
        : `pool ${name} is still being opened; try again.`,
    );
  }

  /**
   * Which volume it is that is seen, also when the volume's record is gone. Its name tells which pool has it: that one
   * alone is asked, so no other disk is waited for.
   */
  async volumeSeen(seen: Seen): Promise<OwnedVolume | undefined> {
    const supervisors = [...this.#supervisors.values()];
    const isOnlyPoolOpen = supervisors.length === 1 && supervisors[0]?.state.state === 'open';
    const named = isOnlyPoolOpen ? undefined : volumeByName(seen);
    const first = named === undefined ? undefined : await this.#poolOf(named.id);
    for (const pool of first === undefined ? this.known() : [first]) {
      const volume = await pool.volumeSeen(seen);
      if (volume !== undefined) return { ...volume, pool };
    }
    return named === undefined ? undefined : { ...named, pool: undefined };
  }

  async #poolOf(id: VolumeId): Promise<Pool | undefined> {
    for (const pool of this.known()) {
      // A damaged record is one, too.
      const isThere = await pool.find(id).then(
        (record) => record !== undefined,
        () => true,
      );
      if (isThere) return pool;
    }
    return undefined;
  }

  /** The driver is stopping: pools that are not open yet need not be. */
  stopOpening(): void {
    for (const supervisor of this.#all()) supervisor.stopOpening();
  }

  async close(): Promise<void> {
    await finishAll(this.#all().map((supervisor) => supervisor.stop()));
  }

  #all(): PoolSupervisor[] {
    return [...this.#supervisors.values(), ...this.#added];
  }
}

function isLeft(record: object): boolean {
  return 'isLeft' in record && record.isLeft === true;
}

/** undefined: it does not move. */
async function stateOfCopy({ moves }: Pool, text: string): Promise<CopyState | undefined> {
  const [volumeId, snapshotId] = [parseVolumeId(text), parseSnapshotId(text)];
  if (volumeId !== undefined) return moves?.stateOf(volumeId);
  return snapshotId && moves?.snapshots.stateOf(snapshotId);
}

/** One of them may have what no pool has. */
function lookingForDisks(): Unavailable {
  return new Unavailable('the disks of this node are still being looked for; try again.');
}
