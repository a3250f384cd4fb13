import { listDisks } from '../../../../kernel/block/disks.ts';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import type { Configured, PoolSections } from '../../../kind.ts';
import { membersOf, readMembers } from '../../../location/match/members.ts';
import { describeMatch } from '../../../location/match/read-match.ts';
import type { PoolSight } from '../../../sight.ts';
import type { DiskOptions } from '../config.ts';
import { memberPool } from './section.ts';

/** Sections with `match`: one pool for each disk, named from the section and from the disk. */
export const diskSections: PoolSections<DiskOptions> = {
  has: ({ own }) => own.match !== undefined,

  async known(sections, dataDirectory) {
    const queue = new DiskQueue('pools of sections', 2);
    const members = membersOf(
      await readMembers(queue, dataDirectory),
      sections.map(({ name }) => name),
    );
    const disks = members.length === 0 ? [] : await listDisks(queue);
    return members.flatMap((member) => {
      const section = sections.find(({ name }) => name === member.section);
      const device = disks.find(({ identity }) => identity === member.identity)?.devicePath;
      return section === undefined ? [] : [memberPool(section, member, device)];
    });
  },

  async watch(sections, context) {
    const { MatchWatch } = await import('./watch.ts');
    return new MatchWatch(sections, context);
  },
};

/** The view of a pool without a disk to look at. */
export function lookApart({ own: { device, identity, match } }: Configured<DiskOptions>): PoolSight | undefined {
  if (match !== undefined) {
    const advice = 'it has no disk yet: holdfast disks shows which disks match, and why they are not taken.';
    const location = { type: 'disks', path: describeMatch(match), state: 'absent', advice, holders: [] } as const;
    return { location, contents: undefined };
  }
  if (identity === undefined || device !== '') return undefined;
  const advice = `its disk (${identity}) is not on this node. Was it pulled? (holdfast disks shows those that are there.)`;
  return { location: { type: 'disk', path: identity, state: 'broken', advice, holders: [] }, contents: undefined };
}
