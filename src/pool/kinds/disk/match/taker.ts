import type { Disk } from '../../../../kernel/block/disks.ts';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import { whileAnswering } from '../../../../kernel/call/while-answering.ts';
import { Unavailable } from '../../../../volume/errors.ts';
import { LastReasons } from '../../../../volume/flow/last-reasons.ts';
import type { Configured, WatchContext } from '../../../kind.ts';
import type { Users } from '../../../location/disk/disk-survey.ts';
import { FormatMarker } from '../../../location/format-marker.ts';
import { deviceAgeMs, isLongThere } from '../../../location/match/age.ts';
import { type Member, rememberMember } from '../../../location/match/members.ts';
import type { NamedDevices } from '../../../location/match/named-devices.ts';
import { markerPathOf, readMarker } from '../../../records/pool-file.ts';
import { poolsDirectory } from '../../../records/pools-directory.ts';
import type { DiskOptions } from '../config.ts';
import { originalOf } from '../twins.ts';
import type { MatchClaim } from './claim.ts';
import { type Examined, examine } from './examine.ts';
import { pathsWithIdentity } from './open-matched.ts';
import { memberPool } from './section.ts';

/** A disk that has not answered for 10 s is not waited for. */
const silentAfterMs = 10_000;
const silence = `it has not answered for ${silentAfterMs / 1000} s`;

type Candidate = Extract<MatchClaim, { kind: 'candidate' }>;

/** The known facts when the disk was seen. */
export interface Around {
  /**
   * Time since a look first found it as the kernel and udev describe it now; undefined: this is the first look.
   */
  readonly seenMs: number | undefined;
  readonly members: readonly Member[];
  readonly others: NamedDevices;
  readonly users: () => Promise<Users>;
}

/**
 * Makes pools of disks that sections match. A disk that is passed over is reported once, and is no failure of the driver. Each
 * disk is examined separately, and one that hangs holds up no other.
 */
export class Taker {
  readonly #sections: readonly Configured<DiskOptions>[];
  readonly #context: WatchContext<DiskOptions>;
  /** For the kernel's lists, and the driver's own files. */
  readonly #queue: DiskQueue;
  /** By what the kernel calls the disk now. */
  readonly #busy = new Map<string, Promise<void>>();
  readonly #silent = new Map<string, DiskQueue>();
  readonly #told = new LastReasons();
  #added = 0;
  #isWaiting = false;
  #isStopping = false;

  constructor(sections: readonly Configured<DiskOptions>[], context: WatchContext<DiskOptions>, queue: DiskQueue) {
    this.#sections = sections;
    this.#context = context;
    this.#queue = queue;
  }

  /** True if a disk must be looked at again soon. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Another look begins. */
  begin(): void {
    this.#isWaiting = false;
  }

  /** Resolves when nothing is under way. */
  async settled(): Promise<void> {
    await Promise.all(this.#busy.values());
  }

  stop(): void {
    this.#isStopping = true;
  }

  passOver(disk: Disk, sections: readonly string[], reason: string): void {
    if (!this.#told.isNew(disk.name, reason)) return;
    this.#context.log.warn({ disk: disk.devicePath, pools: sections, reason }, 'a disk that matches is not taken');
  }

  /** Examines the disk, and takes it if it may. Returns at once. */
  consider(disk: Disk, candidate: Candidate, around: Around): void {
    const isAsked = this.#silent.get(disk.name)?.isIdle === false;
    if (this.#isStopping || isAsked || this.#busy.has(disk.name)) return;
    const work = this.#whyNotTaken(disk, candidate, around)
      .catch((error: unknown) => explain(error).replace(`pool ${candidate.poolName}: `, ''))
      .then((reason) => {
        if (reason !== undefined) this.passOver(disk, [candidate.section], reason);
      });
    this.#busy.set(
      disk.name,
      work.finally(() => this.#busy.delete(disk.name)),
    );
  }

  /** @returns undefined: it is taken, or looked at again soon @throws what speaks against it */
  async #whyNotTaken(disk: Disk, candidate: Candidate, around: Around): Promise<string | undefined> {
    const { members, others, users } = around;
    const found = await this.#examine(disk, candidate, users);
    if (found.kind === 'not-free') return found.reason;
    if (found.kind === 'labelled') {
      const owner = others.poolsById.get(found.poolId);
      if (owner !== undefined) return `it is of pool ${owner}`;
      const member = await this.#memberWithId(members, found.poolId);
      if (member !== undefined) return this.#recognise(disk, found.poolId, member, candidate);
    }
    if (found.kind === 'free') {
      const [awaited] = others.awaited;
      if (awaited !== undefined) {
        return `pool ${awaited.poolName} names ${awaited.path}, which is not there yet: it could be this disk`;
      }
      const deviceMs = await deviceAgeMs(this.#queue, disk.devicePath);
      const { seenMs } = around;
      if (seenMs === undefined || !isLongThere({ seenMs, deviceMs })) {
        this.#isWaiting = true;
        return undefined;
      }
    }
    return this.#take(candidate);
  }

  async #take({ identity, poolName, section: name }: Candidate): Promise<string | undefined> {
    const { add, log, maxPools } = this.#context;
    const section = this.#sections.find((each) => each.name === name);
    if (section === undefined || this.#isStopping) return undefined;
    if (this.#added >= maxPools) return 'there are no threads for another disk: restart the driver';
    this.#added++;
    const error = await add(memberPool(section, { poolName, section: name, identity }));
    if (error === undefined) {
      log.info({ pool: poolName, section: name, disk: identity }, 'a disk that matches is a pool from now on');
      return undefined;
    }
    this.#added--;
    throw error;
  }

  async #memberWithId(members: readonly Member[], poolId: string): Promise<Member | undefined> {
    for (const member of members) {
      const path = markerPathOf(this.#context.dataDirectory, member.poolName);
      if ((await readMarker(this.#queue, path)) === poolId) return member;
    }
    return undefined;
  }

  /** The disk of a pool has another name than before: e.g. another kernel reads more of a disk. Its label is what counts. */
  async #recognise(disk: Disk, poolId: string, member: Member, { identity }: Candidate): Promise<string | undefined> {
    const paths = await pathsWithIdentity(this.#queue, member.identity);
    const original = await this.#ask(disk, (queue) => originalOf(queue, disk.devicePath, paths, poolId));
    if (original !== undefined) {
      return `it has the label of pool ${member.poolName}, whose disk is there, too (${original}): one is a copy of the other`;
    }
    await rememberMember(this.#queue, this.#context.dataDirectory, { ...member, identity });
    this.#context.log.info(
      { pool: member.poolName, disk: identity },
      'the disk of a pool has another name than before',
    );
    return undefined;
  }

  async #examine(disk: Disk, { poolName }: Candidate, users: () => Promise<Users>): Promise<Examined> {
    const directory = poolsDirectory(this.#context.dataDirectory);
    const begun = await new FormatMarker(this.#queue, directory, poolName).read();
    return this.#ask(disk, (queue) => examine(queue, disk, users, begun?.disk));
  }

  #ask<T>(disk: Disk, work: (queue: DiskQueue) => Promise<T>): Promise<T> {
    const queue = new DiskQueue(disk.name, 1);
    this.#silent.set(disk.name, queue);
    return whileAnswering(queue, { limitMs: silentAfterMs, silence: new Unavailable(silence) }, work);
  }
}
