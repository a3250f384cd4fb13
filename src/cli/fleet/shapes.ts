import { z } from 'zod';
import { holderList, moveList, plannedMove, trashList } from '../../admin/protocol.ts';
import { shapes } from '../output/shapes.ts';

/*
 * The output of `kubectl holdfast …` with --json: the items of the commands on a node, each with its node. A node's
 * answers must fit these, too.
 */

const pool = shapes.pools.shape.pools.element;
const volume = shapes.volumes.shape.volumes.element;
const snapshot = shapes.snapshots.shape.snapshots.element;
const disk = shapes.disks.shape.disks.element;
const trashed = trashList.shape.volumes.element;
const moving = moveList.shape.moves.element;

/** One item, as a node answers it. */
export const itemShapes = {
  pools: pool,
  volumes: volume,
  snapshots: snapshot,
  trash: trashed,
  moves: moving,
  disks: disk,
  who: holderList,
} as const;

/** One item of the list `all`, as a node answers it: an item of one of the lists. */
export const anyItem = z.object({
  pools: pool.optional(),
  volumes: volume.optional(),
  snapshots: snapshot.optional(),
  trash: trashed.optional(),
  moves: moving.optional(),
});

const node = z.string().describe('the name of its Node, by its link: what the node says of itself does not count');
const problems = z.array(z.string()).describe('why the list may lack something; then the exit code is 1');
const missing = z
  .array(
    z.object({
      node: z.string(),
      reason: z
        .enum(['away', 'late', 'older', 'failed', 'cut'])
        .describe(
          'away: no link; late: a link, and no answer; older: its driver does not know the question; cut: too much for one answer',
        ),
      since: z.string().optional().describe('of one that is away: RFC 3339, UTC'),
      message: z.string(),
    }),
  )
  .describe('nodes whose answer is not there, or not whole; then the exit code is 1');

const nodeSight = z.object({
  node: z.string(),
  state: z
    .enum(['linked', 'telling', 'away'])
    .describe('telling: it has a link, and has not sent its whole inventory yet'),
  since: z.string().describe('RFC 3339, UTC'),
  version: z.string().optional().describe("its driver's; absent if it is away"),
  volumes: z.number().describe('this and the following fields are from its last report'),
  snapshots: z.number(),
  pools: z.array(z.object({ name: z.string(), kind: z.string(), state: z.string(), reason: z.string().optional() })),
});

export const fleetShapes = {
  nodes: z.object({ nodes: z.array(nodeSight), problems }),
  pools: z.object({ pools: z.array(pool.extend({ node })), problems, missing }),
  volumes: z.object({ volumes: z.array(volume.extend({ node })), problems, missing }),
  snapshots: z.object({ snapshots: z.array(snapshot.extend({ node })), problems, missing }),
  trash: z.object({ volumes: z.array(trashed.extend({ node })), problems, missing }),
  moves: z.object({ moves: z.array(moving.extend({ node })), problems, missing }),
  move: z.object({ node, plan: plannedMove, move: moving.optional().describe('absent with --dry-run') }),
  disks: z.object({ disks: z.array(disk.extend({ node })), problems, missing }),
  who: z.object({ volumes: z.array(holderList.extend({ node })), problems, missing }),
  export: shapes.export,
} as const;

export type NodeItem = z.infer<typeof nodeSight>;
