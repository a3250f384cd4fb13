import { z } from 'zod';

/**
 * The messages between the driver and the command line, as JSON. Sizes are strings of bytes, as int64 is in protobuf
 * JSON.
 */

const bytes = z.string().regex(/^[0-9]{1,20}$/);

const claim = z
  .object({ namespace: z.string(), name: z.string() })
  .optional()
  .describe('the claim that it was made for, if its maker said so');

const trashedVolume = z.object({
  id: z.string(),
  name: z.string(),
  claim,
  pool: z.string(),
  sizeBytes: bytes,
  usedBytes: bytes.describe('what its data takes in the pool'),
  deletedAt: z.string().describe('RFC 3339, UTC'),
  purgeAt: z.string().describe('until then it can be brought back, unless its space is needed'),
  left: z
    .literal(true)
    .optional()
    .describe('its volume moved out of this pool then, or before: this copy has nothing that was written later'),
});

/** Deleted volumes that can be restored, the most recently deleted first. */
export const trashList = z.object({
  volumes: z.array(trashedVolume),
  problems: z.array(z.string()).describe('pools that cannot be looked into now, and why; then the exit code is 1'),
});

/** The states of the pools, as the driver reports them. */
export const poolList = z.object({
  pools: z.array(z.object({ name: z.string(), state: z.string(), reason: z.string().optional() })),
});

/** Volumes that something is wrong with, as CSI's volume condition has it. */
export const conditionList = z.object({ volumes: z.array(z.object({ id: z.string(), message: z.string() })) });

export const restored = z.object({
  id: z.string(),
  name: z.string(),
  pool: z.string(),
  problem: z
    .string()
    .optional()
    .describe(
      'the problem that its condition reports, as it was restored unchanged; or that it is an earlier copy, and as of when',
    ),
});

export const adopted = z.object({
  id: z.string(),
  name: z.string(),
  pool: z.string(),
  path: z.string(),
  sizeBytes: bytes,
});

export const released = z.object({
  id: z.string(),
  pool: z.string(),
  path: z.string().describe('the path of its data now'),
});

export const purged = z.object({ ids: z.array(z.string()).describe('the volumes that are permanently deleted') });

const namespaceMember = z.object({ pid: z.number(), command: z.string() });

/** The same as in `volume/holder.ts`. */
const holder = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('process'), pid: z.number(), command: z.string(), path: z.string() }),
  z.object({
    kind: z.literal('mount'),
    path: z.string(),
    namespaceOf: namespaceMember.optional().describe('of a mount in another mount namespace: a process in it'),
  }),
  z.object({
    kind: z.literal('device'),
    path: z.string(),
    name: z.string().optional().describe('what device-mapper calls it, or that it is swap space'),
  }),
]);

/** The users of a volume on this node. */
export const holderList = z.object({
  id: z.string(),
  pool: z.string(),
  devices: z.array(z.string()),
  mountedFrom: z
    .array(z.string())
    .default([])
    .describe('of a volume without a device: its directory, or the source that is mounted'),
  holders: z.array(holder),
  isComplete: z.boolean().describe('false: there was no time to look everywhere'),
});

const leftSnapshot = z.object({
  id: z.string(),
  name: z.string(),
  pool: z.string(),
  node: z.string().optional().describe('the node of that pool, if it is another one'),
  reason: z.string(),
  stays: z.boolean().describe('it does not move: it is a member of a group, or a copy that waits'),
  cameFrom: z
    .object({ node: z.string().optional(), pool: z.string().optional() })
    .optional()
    .describe('set if it is a copy that waits: all of it has come from there, and it is not the snapshot'),
});

/** Snapshots before they follow their volume. */
const plannedSnapshots = z.object({
  moving: z.array(z.object({ id: z.string(), name: z.string(), pool: z.string() })).describe('the newest first'),
  staying: z.array(leftSnapshot),
  neededBytes: bytes.describe('the space that they may take in the pool, at most'),
});

/** Snapshots that follow their volume, or have followed it. */
const movingSnapshots = z.object({
  state: z.enum(['running', 'done', 'failed', 'cancelled']),
  to: z.string(),
  moved: z.number(),
  total: z.number().optional().describe('those that it found since the driver started'),
  current: z.string().optional().describe('the name of the one that is being copied'),
  doneBytes: bytes.optional().describe('of that one'),
  totalBytes: bytes.optional().describe('of that one'),
  reason: z.string().optional().describe('why they wait, or why it failed'),
  left: z
    .array(leftSnapshot)
    .describe('once it has ended: those that are where they were, and can be used there; and copies that wait'),
});

/** A move before it starts. */
export const plannedMove = z.object({
  id: z.string(),
  name: z.string(),
  claim,
  from: z.string().describe('the pool that it is in'),
  fromNode: z.string().optional().describe('the node of that pool, if it is another one'),
  to: z.string().describe('the pool that it moves to'),
  sizeBytes: bytes.describe('its size there: a multiple of the piece that the pool gives space in'),
  sizeNowBytes: bytes.optional().describe('its size where it is'),
  usedBytes: bytes.describe('what its data takes now, about as much as is copied'),
  provisioning: z.string().describe('thin or thick, in the pool that it moves to'),
  isInUse: z.boolean(),
  isCopiedInUse: z.boolean().describe('false: it is copied while it is not in use'),
  snapshots: z.number().describe('how many it has in the pool that it is in: they stay there, unless they follow it'),
  following: plannedSnapshots.optional().describe('with --with-snapshots'),
});

/** A move, running or ended. */
export const moving = z.object({
  id: z.string(),
  from: z.string(),
  to: z.string().describe('empty if it moves to another node, which says more'),
  fromNode: z.string().optional().describe('the other node that it comes from'),
  toNode: z.string().optional().describe('the other node that it goes to'),
  state: z.enum(['running', 'done', 'failed', 'cancelled']),
  phase: z
    .enum(['copying', 'waiting', 'switching'])
    .optional()
    .describe('waiting: until the volume is not in use any more'),
  round: z.number().optional().describe('each one copies the changes since the one before'),
  doneBytes: bytes.optional().describe('of this round'),
  totalBytes: bytes.optional().describe('of this round'),
  copiedBytes: bytes.optional().describe('of all rounds since the driver started'),
  bytesPerSecond: bytes.optional().describe('of this round'),
  startedAt: z.string().describe('RFC 3339, UTC'),
  endedAt: z.string().optional().describe('RFC 3339, UTC'),
  reason: z.string().optional().describe('why it failed, or waits'),
  leftBytes: bytes
    .optional()
    .describe('what stays where it went after a failure, until it is cancelled or ordered again'),
  name: z
    .string()
    .optional()
    .describe(
      'of the volume, if all of it has come, and is not the volume yet or became it without its source (move finish)',
    ),
  claim,
  asOf: z
    .string()
    .optional()
    .describe(
      'RFC 3339, UTC: all of it has come, as it was then, and can become the volume without its source (move finish)',
    ),
  copyOf: z
    .object({
      generation: z.int().nonnegative().describe('how often the volume had moved then'),
      createdAt: z.string().describe('RFC 3339, UTC: when the volume was made'),
    })
    .optional()
    .describe('of the volume that all of it was read from: it is no later one than that'),
  arrived: z
    .object({
      at: z.string().describe('RFC 3339, UTC'),
      generation: z.int().nonnegative().describe('how often the volume had moved then'),
    })
    .optional()
    .describe(
      'within a node, before its end: the volume was seen where it goes, and may have been used there; nothing that was written there is in another copy',
    ),
  usableSince: z
    .string()
    .optional()
    .describe(
      'RFC 3339, UTC: it could be used again where it comes from; nothing that was written there since is in that copy',
    ),
  isSetAside: z
    .literal(true)
    .optional()
    .describe(
      'of a cancel: the copy there was one of two that could be used, and is in the trash; the volume is on toNode',
    ),
  isUncommitted: z
    .literal(true)
    .optional()
    .describe('of a cancel: all of the copy was still there, so no disk has ever had it as the volume'),
  isUnseen: z
    .literal(true)
    .optional()
    .describe(
      'of a cancel: the copy that had come is removed, or the volume was leaving for another node, and it was not seen where it came from',
    ),
  snapshots: movingSnapshots.optional().describe('its snapshots, if they follow it'),
});

export const startedMove = z.object({ plan: plannedMove, move: moving });

/** The moves of this node, and the last one of each volume that has ended. */
export const moveList = z.object({ moves: z.array(moving) });

/** A refusal: a code of `volume/errors.ts`, and a sentence for the operator. */
export const refusal = z.object({ code: z.string(), message: z.string() });

export type TrashList = z.infer<typeof trashList>;
export type TrashedVolumeSight = z.infer<typeof trashedVolume>;
export type ConditionList = z.infer<typeof conditionList>;
export type PoolList = z.infer<typeof poolList>;
export type Restored = z.infer<typeof restored>;
export type Adopted = z.infer<typeof adopted>;
export type Released = z.infer<typeof released>;
export type Purged = z.infer<typeof purged>;
export type PlannedMove = z.infer<typeof plannedMove>;
export type Moving = z.infer<typeof moving>;
export type MovingSnapshots = z.infer<typeof movingSnapshots>;
export type StartedMove = z.infer<typeof startedMove>;
export type MoveList = z.infer<typeof moveList>;
export type HolderList = z.infer<typeof holderList>;
