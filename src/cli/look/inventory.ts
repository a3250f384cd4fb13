import type { Config } from '../../config/config.ts';
import { explain } from '../../kernel/call/explain.ts';
import { lookAt, othersOf, type PoolConfig, placeOf } from '../../pool/kinds.ts';
import { type PoolContents, type PoolSight, type Wanted, wantsAttachments } from '../../pool/sight.ts';
import { type GroupId, parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import { type Attachments, attachmentsOf } from './attachments.ts';
import type { DriverWord } from './driver-word.ts';
import { DiskSilent, silentAfterMs, silentSight, unlessSilent } from './silence.ts';

/** A configured pool, and what can be seen of it on its own disk and in the kernel. */
export interface SeenPool extends PoolSight {
  readonly config: PoolConfig;
  readonly contents: SeenContents | undefined;
}

export interface SeenContents extends PoolContents {
  /** If wanted: of each volume. */
  readonly attachments: ReadonlyMap<VolumeId, Attachments>;
}

export interface LookOptions {
  readonly wanted: Wanted;
  /** The running driver's statement about the pool, if it cannot use it. */
  readonly word: DriverWord | undefined;
}

/** The number of a pool's files that are read at a time. */
export const placesForPool = 4;

/** Looks at one pool, as long as its disk answers. */
export async function lookAtPool(config: Config, pool: PoolConfig, options: LookOptions): Promise<SeenPool> {
  const { word } = options;
  // It is known what its disk is like, and to ask it could take for ever.
  if (word?.state === 'quarantined') {
    const place = placeOf(pool, config.dataDirectory);
    const location = { ...place, state: 'quarantined', advice: word.reason, holders: [] } as const;
    return { config: pool, location, contents: undefined };
  }
  try {
    const sight = await seePool(config, pool, options.wanted);
    if (word === undefined) return sight;
    return { ...sight, location: { ...sight.location, state: 'broken', advice: word.reason } };
  } catch (error) {
    if (!(error instanceof DiskSilent)) throw error;
    return silentSight(pool, config, silentAfterMs(pool));
  }
}

function seePool(config: Config, pool: PoolConfig, wanted: Wanted): Promise<SeenPool> {
  const { dataDirectory, notes } = config;
  return unlessSilent(pool, placesForPool, async (queue) => {
    const { contents, location } = await lookAt(pool, {
      dataDirectory,
      wanted,
      queue,
      others: othersOf(config.pools, dataDirectory),
      environment: config.cloudEnvironment,
    });
    if (contents === undefined) return { config: pool, location, contents };
    if (!wantsAttachments(wanted)) return { config: pool, location, contents: { ...contents, attachments: new Map() } };
    try {
      const attachments = await attachmentsOf(queue, { ...contents, notesDirectory: notes.directory });
      return { config: pool, location, contents: { ...contents, attachments } };
    } catch (error) {
      const advice = explain(error);
      return { config: pool, location: { ...location, state: 'broken', advice }, contents: undefined };
    }
  });
}

/** The reasons why a list of a pool's objects may be incomplete. A pool that was never made lacks nothing. */
export function problemsOf({ config, location, contents }: SeenPool): string[] {
  const isWhole = location.state === 'absent' || contents !== undefined;
  const damaged = contents?.damaged ?? [];
  return [
    ...(isWhole ? [] : [`pool ${config.name}: ${location.advice}`]),
    ...damaged.map(({ id, reason }) => `${describeId(id)} of pool ${config.name} is damaged: ${reason}`),
  ];
}

/** For a message that something was not found. */
export function lookedIn(pools: readonly SeenPool[]): string {
  const hidden = pools.filter(({ contents, location }) => contents === undefined && location.state !== 'absent');
  const names = (some: readonly SeenPool[]) => some.map(({ config }) => config.name).join(', ');
  const except = hidden.length === 0 ? '' : `; not in ${names(hidden)}, which cannot be read now`;
  return `here (looked in: ${names(pools.filter((pool) => !hidden.includes(pool))) || 'no pool'}${except})`;
}

/** `volume vol-…`, `snapshot snap-…` or `group group-…`. */
export function describeId(id: VolumeId | SnapshotId | GroupId): string {
  if (parseVolumeId(id) !== undefined) return `volume ${id}`;
  return parseSnapshotId(id) === undefined ? `group ${id}` : `snapshot ${id}`;
}
