import { join } from 'node:path';
import type { Disk } from '../../../kernel/block/disks.ts';
import { findPartition } from '../../../kernel/block/partition.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { lockHolders } from '../../../kernel/file/lock.ts';
import type { Piece, RecordReader, SpaceSource } from '../../backend.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import { poolRoot } from '../../location/place.ts';
import { isThere } from '../../records/gone.ts';
import { type Finding, type PoolSight, type Shown, warn } from '../../sight.ts';
import { type DiskOptions, describeMatch } from './config.ts';
import type { FoundLabel } from './label.ts';
import { dataNumber, dataPlace } from './layout.ts';
import { mismatchOf } from './match.ts';
import { Notes } from './notes.ts';
import { notesName } from './open.ts';
import { nodeOf } from './shown.ts';
import { DiskSpace } from './space.ts';
import { disksFor, type SurveyedDisk, surveyDisk } from './survey.ts';
import { diskTraits } from './traits.ts';

/** A disk with a label of the pool. */
interface LabelledDisk {
  readonly disk: Disk;
  readonly diskId: string;
  readonly sizeBytes: bigint;
  readonly label: FoundLabel['label'];
}

/** Looks at the labels of a pool's disks, and changes nothing. */
export async function lookAtDiskPool(pool: Configured<DiskOptions>, request: LookRequest): Promise<PoolSight> {
  const { dataDirectory, queue, wanted } = request;
  const { match } = pool.own;
  const surveyed = await surveyAll(queue, await disksFor(queue, match));
  const own = surveyed.flatMap((each) => ofPool(each, pool.name) ?? []);
  const blank = surveyed.filter(({ disk, kind }) => kind === 'blank' && mismatchOf(disk, match) === undefined);
  const directory = poolRoot(dataDirectory, pool.name);
  const notes = await Notes.look(queue, join(directory, notesName));
  const source = new LookedAtSpace([
    ...own.map(({ label, sizeBytes }) => pieceOf(sizeBytes, label)),
    ...blank.map(({ disk }) => pieceOf(disk.sizeBytes, undefined)),
  ]);
  const held = await lookAtRecords(pool, { reader: readerOf(own, notes), source, wanted });
  const hasDirectory = await isThere(queue, directory).catch(() => false);
  return {
    location: {
      ...{ type: 'disks', path: describeMatch(pool.own), state: 'open', advice: undefined },
      holders: hasDirectory ? await lockHolders(queue, directory) : [],
    },
    contents: {
      ...held,
      traits: diskTraits,
      findings: findingsOf(own, notes),
      shown: wanted === 'attachments' ? await shownOf(queue, own) : new Map(),
    },
  };
}

/** Each in a queue of its own: one that hangs holds up no other. */
export function surveyAll(queue: DiskQueue, disks: readonly Disk[]): Promise<SurveyedDisk[]> {
  return Promise.all(disks.map((disk) => surveyDisk(queue.beside(disk.name, 1), disk)));
}

function ofPool(surveyed: SurveyedDisk, poolName: string): LabelledDisk | undefined {
  if (surveyed.kind !== 'ours' || surveyed.label?.label.pool !== poolName) return undefined;
  const { disk, diskId, label, sizeBytes } = surveyed;
  return { disk, diskId, sizeBytes, label: label.label };
}

function pieceOf(diskBytes: bigint, label: FoundLabel['label'] | undefined): Piece {
  const { lengthBytes: sizeBytes } = dataPlace({ sizeBytes: diskBytes });
  const use = label?.use;
  const ref = use !== undefined && 'ref' in use ? use.ref : undefined;
  return { sizeBytes, use: use === undefined || use.state === 'free' ? 'free' : 'used', ref };
}

function readerOf(own: readonly LabelledDisk[], notes: Notes): RecordReader {
  const none = async () => ({ records: [], damaged: [] });
  return {
    async readVolumes() {
      const here = own.flatMap(({ label: { use } }) => (use.state === 'volume' ? [use.record] : []));
      const away = notes
        .all()
        .filter(({ diskId, isDeleted }) => !isDeleted && !own.some((each) => each.diskId === diskId));
      return { records: [...here, ...away.map(({ record }) => record)], damaged: [] };
    },
    readSnapshots: none,
    readGroups: none,
    async readTrash() {
      const kept = own.flatMap(({ label: { use } }) => {
        if (use.state !== 'trash' || use.deletion === undefined || use.record === undefined) return [];
        return [{ ...use.deletion, ref: use.ref, record: use.record }];
      });
      return { kept, unkept: [], unreadable: [] };
    },
  };
}

function findingsOf(own: readonly LabelledDisk[], notes: Notes): Finding[] {
  const copies = [...Map.groupBy(own, ({ diskId }) => diskId).values()].filter((disks) => disks.length > 1);
  const away = notes.all().filter(({ diskId }) => !own.some((each) => each.diskId === diskId));
  return [
    ...copies.map((disks) =>
      warn(
        'label',
        `${disks.map(({ disk }) => disk.devicePath).join(' and ')} have the same label`,
        'One is a copy of the other: take one of them out.',
      ),
    ),
    ...away.map(({ record, words }) =>
      warn('disk', `that of volume ${record.id} is not here (${words})`, 'Put it back, or delete the volume.'),
    ),
  ];
}

async function shownOf(queue: DiskQueue, own: readonly LabelledDisk[]) {
  const shown = own.map(async ({ disk, label: { use } }) => {
    const partition = await findPartition(queue, disk.name, dataNumber);
    if (use.state !== 'volume' || partition === undefined) return [];
    const device: Shown = { kind: 'device', path: nodeOf(partition.name), device: partition.device };
    return [[use.record.id, [device]] as const];
  });
  return new Map((await Promise.all(shown)).flat());
}

/** What was seen at one moment. */
class LookedAtSpace extends DiskSpace implements SpaceSource {
  constructor(pieces: readonly Piece[]) {
    super({ own: () => [], pieces: async () => pieces });
  }
}
