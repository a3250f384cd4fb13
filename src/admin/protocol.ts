import { z } from 'zod';

/**
 * The messages between the driver and the command line, as JSON. Sizes are strings of bytes, as int64 is in protobuf
 * JSON.
 */

const bytes = z.string().regex(/^[0-9]{1,20}$/);

const trashedVolume = z.object({
  id: z.string(),
  name: z.string(),
  claim: z
    .object({ namespace: z.string(), name: z.string() })
    .optional()
    .describe('the claim that it was made for, if its maker said so'),
  pool: z.string(),
  sizeBytes: bytes,
  usedBytes: bytes.describe('what its data takes in the pool'),
  deletedAt: z.string().describe('RFC 3339, UTC'),
  purgeAt: z.string().describe('until then it can be brought back, unless its space is needed'),
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

export const restored = z.object({
  id: z.string(),
  name: z.string(),
  pool: z.string(),
  problem: z.string().optional().describe('the problem that its condition reports: it was restored unchanged'),
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

/** A refusal: a code of `volume/errors.ts`, and a sentence for the operator. */
export const refusal = z.object({ code: z.string(), message: z.string() });

export type TrashList = z.infer<typeof trashList>;
export type TrashedVolumeSight = z.infer<typeof trashedVolume>;
export type PoolList = z.infer<typeof poolList>;
export type Restored = z.infer<typeof restored>;
export type Adopted = z.infer<typeof adopted>;
export type Released = z.infer<typeof released>;
export type Purged = z.infer<typeof purged>;
export type HolderList = z.infer<typeof holderList>;
