import { diskNames, linksToDisks, listDisks, namesakesOf } from '../../../../kernel/block/disks.ts';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import type { Configured, PoolWatch, WatchContext } from '../../../kind.ts';
import { usersOnce } from '../../../location/disk/disk-survey.ts';
import { membersOf, readMembers } from '../../../location/match/members.ts';
import { namedDevices } from '../../../location/match/named-devices.ts';
import type { DiskOptions } from '../config.ts';
import { claimOn } from './claim.ts';
import { sectionsIn } from './section.ts';
import { Taker } from './taker.ts';

/** The pause between two looks for other disks than before: only two directories are read for that. */
const glanceEveryMs = 2_000;
/** A disk that was passed over may have been cleared since. */
const lookEveryMs = 30_000;

/** Looks again and again for disks that sections match, and has a pool made of each that is free. */
export class MatchWatch implements PoolWatch {
  readonly #sections: readonly Configured<DiskOptions>[];
  readonly #context: WatchContext<DiskOptions>;
  readonly #queue = new DiskQueue('disks that match', 2);
  readonly #taker: Taker;
  /** The description of each disk at the last look, and the time since which it is the same. */
  #before: ReadonlyMap<string, { readonly looks: string; readonly sinceMs: number }> = new Map();
  #names = '';
  #lookedMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #isStopping = false;

  constructor(sections: readonly Configured<DiskOptions>[], context: WatchContext<DiskOptions>) {
    this.#sections = sections;
    this.#context = context;
    this.#taker = new Taker(sections, context, this.#queue);
  }

  /** Two looks: a blank disk is taken only if it was there, and the same, both times, and has been there for a minute. */
  async start(): Promise<void> {
    await this.#lookAgain();
    // From now on, also while a disk hangs that was found now.
    this.#next();
    await this.#taker.settled();
    await this.#lookAgain();
    await this.#taker.settled();
  }

  stop(): void {
    this.#isStopping = true;
    clearTimeout(this.#timer);
    this.#taker.stop();
  }

  #next(): void {
    if (this.#isStopping) return;
    const glance = () => this.#glance().finally(() => this.#next());
    this.#timer = setTimeout(glance, glanceEveryMs).unref();
  }

  async #glance(): Promise<void> {
    const names = await diskNames(this.#queue).catch(() => '');
    const isDue = performance.now() - this.#lookedMs >= lookEveryMs;
    // Once more after a change: a blank disk must have been there for a while.
    if (names === this.#names && !isDue && !this.#taker.isWaiting) return;
    this.#names = names;
    await this.#lookAgain();
  }

  async #lookAgain(): Promise<void> {
    this.#lookedMs = performance.now();
    try {
      await this.#look();
    } catch (error) {
      this.#context.log.warn({ reason: explain(error) }, 'the disks of this node cannot be looked at');
    }
  }

  async #look(): Promise<void> {
    const { dataDirectory, named, rivals } = this.#context;
    const isRival = (section: string) => rivals.some(({ name }) => name === section);
    const sections = [...sectionsIn(this.#sections), ...rivals];
    const disks = await listDisks(this.#queue);
    const links = await linksToDisks(this.#queue);
    const others = await namedDevices(this.#queue, dataDirectory, named);
    const members = membersOf(
      await readMembers(this.#queue, dataDirectory),
      sections.map(({ name }) => name),
    );
    const users = usersOnce(this.#queue);
    const nowMs = performance.now();
    const seen = new Map<string, { looks: string; sinceMs: number }>();
    this.#taker.begin();
    for (const disk of disks) {
      const linked = links.get(disk.name) ?? [];
      const at = {
        disk,
        links: linked,
        owners: others.ownersOf(disk),
        namesakes: namesakesOf(disk, disks),
      };
      const looks = JSON.stringify({ ...disk, sizeBytes: `${disk.sizeBytes}`, linked });
      const before = this.#before.get(disk.name);
      const sinceMs = before?.looks === looks ? before.sinceMs : nowMs;
      seen.set(disk.name, { looks, sinceMs });
      const claim = claimOn(at, sections, members);
      if (claim.kind === 'passed-over' && !claim.sections.every(isRival))
        this.#taker.passOver(disk, claim.sections, claim.reason);
      if (claim.kind !== 'candidate' || isRival(claim.section)) continue;
      const seenMs = before?.looks === looks ? nowMs - sinceMs : undefined;
      this.#taker.consider(disk, claim, { seenMs, members, others, users });
    }
    this.#before = seen;
  }
}
