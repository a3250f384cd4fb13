import { z } from 'zod';
import type { CloudAttachment, CloudDisk, CloudSnapshot, CloudState } from '../../../cloud-disk/cloud.ts';
import { zoneIn } from '../disk-id.ts';

/* Answers of Compute Engine (v1), as far as they are read. Unknown keys are left alone. */

const labels = z.record(z.string(), z.string()).default({});

export const diskSchema = z.looseObject({
  selfLink: z.string(),
  status: z.string(),
  sizeGb: z.string().regex(/^[0-9]+$/),
  creationTimestamp: z.string().default(''),
  labels,
  labelFingerprint: z.string().default(''),
  users: z.array(z.string()).default([]),
  lastAttachTimestamp: z.string().default(''),
});
export type GceDisk = z.infer<typeof diskSchema>;

/** A part of the project that did not answer is named here, and its disks are missing. */
const unreachables = z.array(z.string()).default([]);
const warning = z.looseObject({ code: z.string() }).optional();

export const diskPageSchema = z.looseObject({
  items: z.record(z.string(), z.looseObject({ disks: z.array(diskSchema).default([]), warning })).default({}),
  nextPageToken: z.string().optional(),
  unreachables,
});

export const snapshotSchema = z.looseObject({
  selfLink: z.string(),
  status: z.string(),
  creationTimestamp: z.string().default(''),
  labels,
});
export type GceSnapshot = z.infer<typeof snapshotSchema>;

export const snapshotPageSchema = z.looseObject({
  items: z.array(snapshotSchema).default([]),
  nextPageToken: z.string().optional(),
});

export const instanceSchema = z.looseObject({
  id: z.string(),
  disks: z.array(z.looseObject({ source: z.string().default(''), deviceName: z.string().default('') })).default([]),
});
export type GceInstance = z.infer<typeof instanceSchema>;

export const operationSchema = z.looseObject({
  selfLink: z.string(),
  status: z.string(),
  error: z
    .looseObject({
      errors: z.array(z.looseObject({ code: z.string().default(''), message: z.string().default('') })).default([]),
    })
    .optional(),
});
export type GceOperation = z.infer<typeof operationSchema>;

export const operationPageSchema = z.looseObject({
  items: z.array(z.looseObject({ targetLink: z.string().default('') })).default([]),
  nextPageToken: z.string().optional(),
});

/** `projects/P/zones/Z/disks/D` of an address, which begins differently from place to place. */
export function pathIn(link: string): string {
  return /(?:^|\/)(projects\/[^?#\s]+)$/.exec(link)?.[1] ?? '';
}

const gibibyte = 1n << 30n;

const diskStates: Readonly<Record<string, CloudState>> = {
  READY: 'ready',
  // A part of the zone is away; the disk is there.
  UNAVAILABLE: 'ready',
  FAILED: 'failed',
  DELETING: 'going',
};

export function readDisk(disk: GceDisk): CloudDisk {
  const id = pathIn(disk.selfLink);
  return {
    id,
    state: diskStates[disk.status] ?? 'making',
    sizeBytes: BigInt(disk.sizeGb) * gibibyte,
    zone: zoneIn(id),
    createdMs: Date.parse(disk.creationTimestamp) || 0,
    labels: disk.labels,
    attachments: disk.users.map((user) => readUser(user, disk)),
  };
}

/** Google shows the users of a disk from the start of an attachment to its end, and nothing else of it. */
function readUser(user: string, { lastAttachTimestamp }: GceDisk): CloudAttachment {
  const sinceMs = Date.parse(lastAttachTimestamp);
  return { instance: pathIn(user), state: 'attached', ...(Number.isNaN(sinceMs) ? {} : { sinceMs }) };
}

export function readSnapshot(snapshot: GceSnapshot): CloudSnapshot {
  return {
    id: pathIn(snapshot.selfLink),
    state: diskStates[snapshot.status] ?? 'making',
    createdMs: Date.parse(snapshot.creationTimestamp) || 0,
    labels: snapshot.labels,
  };
}
