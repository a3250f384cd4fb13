import { z } from 'zod';
import {
  holderList,
  moveList,
  moving,
  plannedMove,
  purged,
  released,
  restored,
  startedMove,
  trashList,
} from '../../admin/protocol.ts';
import { buses } from '../../kernel/block/bus.ts';
import { accessModes } from '../../volume/capability.ts';
import { encryptionTypes } from '../../volume/encryption.ts';
import { filesystemTypes } from '../../volume/filesystem.ts';
import { provisionings } from '../../volume/record.ts';

/*
 * The output of each command with --json. docs/json.md is made from this (scripts/document-json.ts), and
 * test/cli/json.test.ts holds the commands to it. Commands import types only: printing needs no schema.
 */

/** Bytes are decimal digits in a string: numbers of JSON lose digits above 2^53 in many programs. */
const bytes = z.string().regex(/^[0-9]{1,20}$/) as z.ZodType<Digits, Digits>;
type Digits = `${bigint}`;
const time = z.string().describe('RFC 3339, UTC');
const parameters = z.record(z.string(), z.string());

const content = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('mount'), fsType: z.enum(filesystemTypes) }),
    z.object({ type: z.literal('block') }),
    z.object({ type: z.literal('directory') }),
  ])
  .describe('`fsType` (ext4, xfs, btrfs) goes with the type `mount`');

const encryption = z
  .object({
    type: z.enum(encryptionTypes),
    headerBytes: z.number().describe('what it takes beside the size'),
    keyId: z.string().describe('the name of the key that opens it'),
  })
  .describe('absent: it is not encrypted');

const problems = z.array(z.string()).describe('why the list may lack something; then the exit code is 1');

const claim = z
  .object({ namespace: z.string(), name: z.string() })
  .describe('the PersistentVolumeClaim that it was made for, if its maker said so');

const placed = z.object({ path: z.string(), readonly: z.boolean() });

const snapshot = z.object({
  id: z.string(),
  name: z.string(),
  sourceId: z.string().describe('the volume that it was taken of, which may be gone'),
  sizeBytes: bytes.describe('how large its volume was'),
  content,
  blockSizeBytes: z.number(),
  parameters,
  createdAt: time,
  groupId: z.string().optional().describe('the group that it was taken with'),
  encryption: encryption.optional(),
});

const movingTo = z
  .object({ pool: z.string().optional(), node: z.string().optional().describe('of that pool, if it is another one') })
  .describe('where it was handed over to, if that is known: it cannot be used until it is there');

const volume = z.object({
  id: z.string(),
  name: z.string().describe('as CreateVolume had it: the name of the PersistentVolume, most often'),
  claim: claim.optional(),
  pool: z.string(),
  sizeBytes: bytes,
  usedBytes: bytes.optional().describe('what its data takes in the pool; left out if it takes too long to find out'),
  content,
  accessModes: z.array(z.enum(accessModes)),
  provisioning: z.enum(provisionings),
  blockSizeBytes: z.number().describe('of its device'),
  parameters: parameters.describe('as CreateVolume had them'),
  mutableParameters: parameters.optional(),
  createdAt: time,
  source: z
    .object({ type: z.enum(['snapshot', 'volume']), id: z.string() })
    .optional()
    .describe('what it was made from'),
  undeleteSeconds: z.number().describe('how long it can be brought back once it is deleted; 0: not at all'),
  publication: z
    .object({ nodeId: z.string(), mode: z.enum(accessModes), readonly: z.boolean() })
    .optional()
    .describe('by ControllerPublishVolume'),
  ephemeral: z.object({ handle: z.string() }).optional().describe("of a pod's inline volume: its volume_id"),
  repair: z
    .object({ at: time, originalId: z.string().describe('what it was before, in the trash') })
    .optional()
    .describe('the last repair of its filesystem'),
  encryption: encryption.optional(),
  adopted: z.object({ path: z.string() }).optional().describe('where its data lay before it was a volume'),
  state: z.enum(['detached', 'attached', 'staged', 'published']),
  devices: z.array(placed).describe('the block devices that show it'),
  stagedAt: z.array(z.string()),
  publishedAt: z.array(placed),
  condition: z
    .string()
    .optional()
    .describe('its problem, as its driver reports it; absent if there is none, or if no driver answers'),
  snapshots: z.array(snapshot).describe('those taken of it, the oldest first; fields as in `snapshots`'),
});

const traits = z
  .object({
    block: z.boolean(),
    directories: z.boolean(),
    filesystems: z.array(z.string()),
    provisioning: z.array(z.string()),
    snapshots: z.string().describe('reflink, copy or none'),
    changedBlocks: z.string().describe('allocated, delta or none'),
    expansion: z.object({ online: z.boolean(), offline: z.boolean() }),
  })
  .partial();

const pool = z.object({
  name: z.string(),
  kind: z.string(),
  default: z.boolean(),
  section: z.string().optional().describe('of a pool on a disk that was matched: the section of the configuration'),
  labels: z.record(z.string(), z.string()).describe('what classes can choose it by'),
  state: z
    .enum(['open', 'absent', 'closed', 'broken', 'quarantined', 'silent'])
    .describe('broken, quarantined and silent: the driver cannot use it, and the exit code is 1'),
  advice: z.string().optional().describe('what to know, and what to do, if it is not open'),
  location: z.object({ type: z.string(), path: z.string() }),
  drivers: z
    .array(z.object({ pid: z.number().describe('0: in another container'), command: z.string() }))
    .describe('the processes that have its lock'),
  traits: traits.optional().describe('what such a pool can do, as far as it is known; absent if it cannot be read'),
  volumes: z.number().optional().describe('how many; this and what follows is absent if it cannot be read'),
  damaged: z
    .array(z.object({ id: z.string(), reason: z.string() }))
    .optional()
    .describe('records that cannot be read'),
  capacity: z
    .object({
      totalBytes: bytes.describe('what it could hold if it were empty'),
      provisionedBytes: bytes,
      usedBytes: bytes,
      availableBytes: bytes.describe('what can still be provisioned'),
      thickAvailableBytes: bytes.describe('the same for thick volumes'),
    })
    .optional(),
  disk: z
    .object({
      diskBytes: bytes,
      freeBytes: bytes,
      claimableBytes: bytes.describe('the part of the free bytes that volumes may still take'),
      snapshotBytes: bytes.describe('what only snapshots have'),
      metadata: z
        .object({ totalBytes: bytes, usedBytes: bytes })
        .optional()
        .describe('what notes where data lies, of a thin pool'),
    })
    .optional(),
});

const noted = z.object({
  handle: z.string().describe('volumeHandle of the PersistentVolume'),
  kind: z.string(),
  server: z.string().optional().describe("as the kind has it: an address, a target's name; absent if it is not known"),
  content: z.object({ type: z.enum(['mount', 'block', 'directory']), fsType: z.string().optional() }),
  paths: z
    .array(z.object({ path: z.string(), isMounted: z.boolean() }))
    .describe('where it is staged and published, or was about to be'),
});

const disk = z.object({
  name: z.string().describe('as the kernel has it now; another disk may have it after the next boot'),
  path: z.string(),
  links: z.array(z.string()).describe('what udev has for it in /dev/disk/by-id'),
  sizeBytes: bytes,
  bus: z.enum(buses),
  rotational: z.boolean(),
  removable: z.boolean(),
  model: z.string().optional(),
  serial: z.string().optional(),
  identity: z.string().optional().describe("what names it permanently, in the kernel's words"),
  free: z.boolean().describe('blank, not in use, and with its own permanent name: it can be given to a pool'),
  reasons: z.array(z.string()).describe('why it is not free'),
  sections: z
    .array(z.string())
    .optional()
    .describe('of the configuration, whose match it fits: one takes it when it is free, of several none'),
});

const finding = z.object({
  check: z.string(),
  status: z.enum(['ok', 'warn', 'fail']),
  detail: z.string(),
  remedy: z.string().optional().describe('what to do; absent if all is well'),
});

const persistentVolumes = z.object({
  apiVersion: z.literal('v1'),
  kind: z.literal('List'),
  items: z.array(z.record(z.string(), z.unknown())).describe('PersistentVolumes, as Kubernetes describes them'),
});

/** One line of standard error. */
export const problemShape = z.object({
  code: z.string().describe('a gRPC code (INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE, …), or WARNING if nothing failed'),
  message: z.string(),
});

const configured = z.object({
  nodes: z.string().optional().describe('the names that it is for; absent: all for which there is no other'),
  defaultPool: z.string(),
  pools: z.array(z.object({ name: z.string(), kind: z.string() })),
});

/** By command. */
const lost = z.object({
  persistentVolume: z.string(),
  claim: claim.describe('the claim that it is bound to, or was').optional(),
  phase: z.string().describe('Bound, Released, …, as Kubernetes says'),
  reclaimPolicy: z.string(),
  id: z.string(),
});

export const shapes = {
  pools: z.object({ pools: z.array(pool) }),
  volumes: z.object({
    volumes: z.array(volume),
    onNode: z
      .array(noted)
      .optional()
      .describe('of a driver whose volumes every node can reach: those that this node uses'),
    problems,
  }),
  disks: z.object({ disks: z.array(disk) }),
  snapshots: z.object({
    snapshots: z.array(snapshot.extend({ pool: z.string(), movingTo: movingTo.optional() })),
    problems,
  }),
  trash: trashList,
  'trash restore': restored,
  'trash purge': purged,
  who: holderList,
  export: persistentVolumes,
  adopt: persistentVolumes,
  release: released,
  move: startedMove,
  'move --dry-run': plannedMove,
  'move status': moveList,
  'move cancel': moving,
  'move finish': moving,
  doctor: z.object({
    healthy: z.boolean().describe('false: something must be mended, and the exit code is 1'),
    findings: z.array(finding),
  }),
  'config check': z.object({ sections: z.array(configured) }),
  'forget-node': z.object({
    node: z.string(),
    done: z.enum(['nothing', 'forgotten', 'undone']).describe('nothing: it was only to list (--dry-run)'),
    volumes: z.array(lost).describe('the volumes on it; with --undo nothing is listed'),
  }),
} as const;

export type Shapes = typeof shapes;

/** The output of a command, before its bytes have become text. */
export type Shape<Command extends keyof Shapes> = Loose<z.input<Shapes[Command]>>;

/** A string of digits is made of a bigint where the result is printed (`toJson`). */
type Loose<T> = T extends Digits
  ? T | bigint
  : T extends readonly (infer Item)[]
    ? readonly Loose<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Loose<T[Key]> }
      : T;
