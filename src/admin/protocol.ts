import { z } from 'zod';

/** What the driver and the command line say to each other, as JSON. Sizes are strings of bytes, as int64 is there. */

const bytes = z.string().regex(/^[0-9]+$/);

const trashedVolume = z.object({
  id: z.string(),
  name: z.string(),
  /** The claim that it was made for, if its maker said so. */
  claim: z.object({ namespace: z.string(), name: z.string() }).optional(),
  pool: z.string(),
  sizeBytes: bytes,
  usedBytes: bytes,
  deletedAt: z.string(),
  purgeAt: z.string(),
});

/** Deleted volumes that can be brought back, the one deleted last first. */
export const trashList = z.object({
  volumes: z.array(trashedVolume),
  /** Pools that cannot be looked into now, and why. */
  problems: z.array(z.string()),
});

/** How the pools are, as the driver sees them. */
export const poolList = z.object({
  pools: z.array(z.object({ name: z.string(), state: z.string(), reason: z.string().optional() })),
});

export const restored = z.object({
  id: z.string(),
  name: z.string(),
  pool: z.string(),
  /** What its condition says, if that is abnormal: it is back as it was. */
  problem: z.string().optional(),
});

export const adopted = z.object({
  id: z.string(),
  name: z.string(),
  pool: z.string(),
  path: z.string(),
  sizeBytes: bytes,
});

/** Where its data lies now. */
export const released = z.object({ id: z.string(), pool: z.string(), path: z.string() });

export const purged = z.object({ ids: z.array(z.string()) });

const namespaceMember = z.object({ pid: z.number(), command: z.string() });

/** As in `volume/holder.ts`. */
const holder = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('process'), pid: z.number(), command: z.string(), path: z.string() }),
  z.object({
    kind: z.literal('mount'),
    path: z.string(),
    namespaceOf: namespaceMember.optional(),
  }),
  z.object({ kind: z.literal('device'), path: z.string() }),
]);

/** Who keeps a volume in use on this node. */
export const holderList = z.object({
  id: z.string(),
  pool: z.string(),
  devices: z.array(z.string()),
  /** Of a volume without a device: its directory, or the source that is mounted. */
  mountedFrom: z.array(z.string()).default([]),
  holders: z.array(holder),
  /** false: there was no time to look everywhere. */
  isComplete: z.boolean(),
});

/** Why not: a code of `volume/errors.ts`, and a sentence for the operator. */
export const refusal = z.object({ code: z.string(), message: z.string() });

export type TrashList = z.infer<typeof trashList>;
export type TrashedVolumeSight = z.infer<typeof trashedVolume>;
export type PoolList = z.infer<typeof poolList>;
export type Restored = z.infer<typeof restored>;
export type Adopted = z.infer<typeof adopted>;
export type Released = z.infer<typeof released>;
export type Purged = z.infer<typeof purged>;
export type HolderList = z.infer<typeof holderList>;
