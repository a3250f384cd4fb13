import { listDisks } from '../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { Configured } from '../../kind.ts';
import type { DiskSight } from '../../sight.ts';
import { refusalBySight } from './candidate.ts';
import type { DiskOptions } from './config.ts';
import type { Use } from './label.ts';
import { mismatchOf, namesOf } from './match.ts';
import { isMadeOfOthers, type SurveyedDisk, surveyDisk } from './survey.ts';

/** Every disk of the node, with what it is to the pools of disks; writes nothing. */
export async function listForPools(pools: readonly Configured<DiskOptions>[], queue: DiskQueue): Promise<DiskSight[]> {
  const disks = await listDisks(queue);
  const sights = disks.map(async (disk): Promise<DiskSight> => {
    const wanting = pools.filter(({ own }) => mismatchOf(disk, own.match) === undefined);
    // To open what is made of something else can keep it from going.
    const isOpened = wanting.length > 0 || !isMadeOfOthers(disk);
    const surveyed: SurveyedDisk = isOpened
      ? await surveyDisk(queue.beside(disk.name, 1), disk)
      : { disk, kind: 'refused', reason: refusalBySight(disk) ?? mismatchFor(disk.bus) };
    const { bus, devicePath, model, sizeBytes } = disk;
    return { bus, devicePath, model, sizeBytes, ids: namesOf(disk), ...useOf(surveyed, pools, wanting) };
  });
  return (await Promise.all(sights)).sort((a, b) => a.devicePath.localeCompare(b.devicePath, 'en', { numeric: true }));
}

function mismatchFor(bus: string): string {
  return `it is no disk of its own (${bus})`;
}

function useOf(
  surveyed: SurveyedDisk,
  pools: readonly Configured<DiskOptions>[],
  wanting: readonly Configured<DiskOptions>[],
): Pick<DiskSight, 'isCandidate' | 'pool' | 'use'> {
  switch (surveyed.kind) {
    case 'ours': {
      const { label } = surveyed;
      const pool = label?.label.pool;
      if (label === undefined) return { isCandidate: false, pool, use: 'no: its label cannot be read' };
      const isKnown = pools.some(({ name }) => name === pool);
      return {
        isCandidate: false,
        pool,
        use: isKnown ? wordsFor(label.label.use) : `no: this node has no pool ${pool}`,
      };
    }
    case 'refused':
      return { isCandidate: false, pool: undefined, use: `no: ${surveyed.reason}` };
    case 'blank': {
      const names = wanting.map(({ name }) => name);
      if (names.length > 0) return { isCandidate: true, pool: names.join(', '), use: 'blank: may be taken' };
      const [first] = pools;
      const reason =
        first === undefined ? 'no pool of disks is configured' : mismatchOf(surveyed.disk, first.own.match);
      return { isCandidate: false, pool: undefined, use: `no: blank, but ${reason}` };
    }
  }
}

function wordsFor(use: Use): string {
  switch (use.state) {
    case 'free':
      return 'free';
    case 'draft':
      return `half-made volume ${use.id}`;
    case 'volume':
      return `volume ${use.record.id}`;
    case 'trash':
      return use.deletion === undefined ? `deleted volume ${use.id}, to be wiped` : `deleted volume ${use.id}, kept`;
  }
}
