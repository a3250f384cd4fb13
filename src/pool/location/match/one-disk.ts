import { type Disk, linksToDisks, listDisks, namesakesOf } from '../../../kernel/block/disks.ts';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { whileAnswering } from '../../../kernel/call/while-answering.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import type { NamedDevice } from '../../kind.ts';
import { markerPathOf, readMarker } from '../../records/pool-file.ts';
import { type Users, usersOnce } from '../disk/disk-survey.ts';
import { deviceAgeMs, isLongThere } from './age.ts';
import { type Candidate, chooseFree } from './choose.ts';
import { type DiskMatch, type MatchSection, matches, sectionsMatching } from './criteria.ts';
import { type Member, readMembers, rememberMember } from './members.ts';
import { namedDevices } from './named-devices.ts';
import { describeMatch } from './read-match.ts';
import { survey } from './survey.ts';

/** The devices that other pools of the configuration name, or may take. */
export interface OtherPools {
  readonly named: readonly NamedDevice[];
  readonly sections: readonly MatchSection[];
}

export interface MatchedPool {
  /** For the kernel's lists, and the driver's own files. */
  readonly queue: DiskQueue;
  readonly dataDirectory: string;
  readonly poolName: string;
  readonly match: DiskMatch;
  /** All pools of the configuration, this one too. */
  readonly others?: OtherPools | undefined;
  /** The content of the disk of such a pool, in the words of blkid(8). */
  readonly holds: string;
}

/** The disk of a pool with `match`, as it is now. */
export interface PoolDisk {
  readonly path: string;
  readonly identity: string;
  /** This node has noted it as the pool's. */
  readonly isKnown: boolean;
  /** Notes permanently that this is the pool's disk. To be called when the disk is held, before anything is written to it. */
  remember(): Promise<void>;
}

const silentAfterMs = 10_000;

/**
 * The disk of a pool with `match`: the one that this node has noted, wherever it is now; if there is no note, the only free one
 * that matches. Writes nothing.
 * @throws FailedPrecondition if it is not there, or it is not clear which one is meant; Unavailable if it may be later
 */
export async function diskOfPool(pool: MatchedPool): Promise<PoolDisk> {
  const { dataDirectory, poolName, queue } = pool;
  const disks = await listDisks(queue);
  const members = await readMembers(queue, dataDirectory);
  const known = members.find((member) => member.poolName === poolName);
  if (known !== undefined) return knownDisk(poolName, known.identity, disks);
  if ((await readMarker(queue, markerPathOf(dataDirectory, poolName))) !== undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: this node had it before it had match, which is for new pools. Name its disk with device, as before.`,
    );
  }
  const { identity, path } = await chooseNew(pool, disks, members);
  const member: Member = { poolName, section: poolName, identity };
  return { identity, path, isKnown: false, remember: () => rememberMember(queue, dataDirectory, member) };
}

function knownDisk(poolName: string, identity: string, disks: readonly Disk[]): PoolDisk {
  const paths = disks.filter((disk) => disk.identity === identity).map(({ devicePath }) => devicePath);
  const [path, second] = paths;
  if (path === undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: its disk (${identity}) is not on this node. Was it pulled? (holdfast disks shows those that are there.)`,
    );
  }
  if (second !== undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${paths.join(' and ')} all say that they are ${identity}. Take all but one out.`,
    );
  }
  return { path, identity, isKnown: true, remember: async () => undefined };
}

async function chooseNew(pool: MatchedPool, disks: readonly Disk[], members: readonly Member[]) {
  const { dataDirectory, match, others, poolName, queue } = pool;
  // Without them, one of their disks could be taken.
  if (others === undefined) throw new Error(`pool ${poolName}: the other pools are not known`);
  const links = await linksToDisks(queue);
  const named = await namedDevices(
    queue,
    dataDirectory,
    others.named.filter((each) => each.poolName !== poolName),
  );
  const [awaited] = named.awaited;
  if (awaited !== undefined) {
    throw new Unavailable(
      `pool ${poolName}: pool ${awaited.poolName} names ${awaited.path}, which is not there yet: a disk that matches could be it.`,
    );
  }
  const sections = others.sections.filter(({ name }) => name !== poolName);
  const users = usersOnce(queue);
  const wanted = disks.filter((disk) => matches(match, disk, links.get(disk.name) ?? []));
  const candidates = await Promise.all(
    wanted.map(async (disk) => {
      const ofMembers = members.filter(
        (each) => each.identity === disk.identity && sections.some(({ name }) => name === each.section),
      );
      const against = {
        owners: [...named.ownersOf(disk), ...ofMembers.map((each) => `pool ${each.poolName}`)],
        namesakes: namesakesOf(disk, disks),
      };
      const rivals = sectionsMatching(sections, disk, links.get(disk.name) ?? []);
      return candidateOf(pool, disk, await users(), { ...against, rivals });
    }),
  );
  const chosen = chooseFree(poolName, describeMatch(match), candidates);
  if (!isLongThere({ seenMs: 0, deviceMs: await deviceAgeMs(queue, chosen.path) })) {
    throw new Unavailable(
      `pool ${poolName}: ${chosen.path} has been there for less than a minute: it is taken after that, if it is still free.`,
    );
  }
  return chosen;
}

interface Around {
  readonly owners: readonly string[];
  readonly namesakes: readonly string[];
  readonly rivals: readonly string[];
}

/** A disk that does not answer is not waited for. */
async function candidateOf(
  { holds }: MatchedPool,
  disk: Disk,
  users: Users,
  { rivals, ...against }: Around,
): Promise<Candidate> {
  const { devicePath: path, identity } = disk;
  const silence = new Unavailable(`it has not answered for ${silentAfterMs / 1000} s`);
  try {
    const { facts, isIdle, reasons } = await whileAnswering(
      new DiskQueue(disk.name, 1),
      { limitMs: silentAfterMs, silence },
      (own) => survey(own, disk, users, against),
    );
    const { content } = facts;
    const found = typeof content === 'object' ? content.found : undefined;
    const type = found?.kind === 'filesystem' || found?.kind === 'other' ? found.type : undefined;
    return { path, identity, reasons, rivals, mayBeOwn: isIdle && type === holds ? holds : undefined };
  } catch (error) {
    return { path, identity, reasons: [explain(error)], rivals, mayBeOwn: undefined };
  }
}
