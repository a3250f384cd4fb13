import type { Tally } from './report.ts';

/** One run of csi-sanity. */
export interface Mode {
  readonly name: string;
  readonly accessType: 'mount' | 'block';
  /** csi-sanity names no filesystem, so the pool's default decides. */
  readonly defaultFilesystem: 'ext4' | 'xfs' | 'btrfs';
  /**
   * file: images on XFS, where files share blocks. directory: images on the host's own filesystem, on which a snapshot may
   * be a copy. directories: volumes that are directories of an XFS. program: volumes that a program makes. cloud: volumes of a fake of the cloud whose kind the mode is named after,
   * attached as loop devices.
   */
  readonly location: 'file' | 'directory' | 'directories' | 'program' | 'cloud';
  readonly attach: 'none' | 'required';
  /** The controller's services are asked of a controller of many nodes, which passes the calls on to the driver. */
  readonly isBehindController?: true;
  readonly expected: Tally;
}

/**
 * What a mode must come to. csi-sanity skips what a driver does not advertise without a word, so a capability that got
 * lost would look like success: the number of specs that ran, and of each reason not to, is part of the test.
 */
const everything: Tally = {
  passed: 95,
  failed: 0,
  // "pagination should detect volumes added between pages…": switched off in csi-sanity itself (controller.go:256, XIt).
  pending: 1,
  skipped: {},
};

/** Without `attach: required` there is no ControllerPublishVolume to be tested. */
const withoutAttaching: Tally = {
  ...everything,
  passed: 85,
  skipped: {
    'Controller Publish, UnpublishVolume not supported': 2,
    'ControllerPublishVolume not supported': 7,
    'ControllerUnpublishVolume not supported': 1,
  },
};

const all = { location: 'file', attach: 'required', expected: everything } as const;

/** The name of the mode is the kind. */
const cloud = {
  location: 'cloud',
  attach: 'required',
  expected: { ...everything, passed: 93, skipped: { 'Volume Cloning not supported': 2 } },
} as const;

export const modes: readonly Mode[] = [
  { name: 'ext4', accessType: 'mount', defaultFilesystem: 'ext4', ...all },
  { name: 'xfs', accessType: 'mount', defaultFilesystem: 'xfs', ...all },
  { name: 'btrfs', accessType: 'mount', defaultFilesystem: 'btrfs', ...all },
  { name: 'block', accessType: 'block', defaultFilesystem: 'ext4', ...all },
  {
    name: 'ext4 in a directory of the host, attach: none',
    accessType: 'mount',
    defaultFilesystem: 'ext4',
    location: 'directory',
    attach: 'none',
    expected: withoutAttaching,
  },
  {
    name: 'ext4 behind a controller',
    accessType: 'mount',
    defaultFilesystem: 'ext4',
    location: 'directory',
    attach: 'required',
    isBehindController: true,
    expected: everything,
  },
  {
    name: 'directories',
    accessType: 'mount',
    defaultFilesystem: 'ext4',
    location: 'directories',
    attach: 'required',
    expected: everything,
  },
  {
    name: 'exec',
    accessType: 'mount',
    defaultFilesystem: 'ext4',
    location: 'program',
    attach: 'none',
    expected: withoutAttaching,
  },
  {
    name: 'aws-ebs',
    accessType: 'mount',
    defaultFilesystem: 'ext4',
    ...cloud,
  },
  { name: 'gce-pd', accessType: 'mount', defaultFilesystem: 'ext4', ...cloud },
];

/**
 * Specs that make a snapshot or a clone of a volume, by all of their words. A driver says once for all of its pools that it has
 * snapshots, and csi-snapshotter ends itself where it does not; a pool of whole disks has none. csi-sanity knows of no pools, so these
 * are left out there, each by its name; that such a request is refused is shown by a test of our own (disk-match-life).
 */
export const makingCopies: readonly string[] = [
  ...[
    'should succeed when requesting to create a snapshot with already existing name and same source volume ID',
    'should fail when requesting to create a snapshot with already existing name and different source volume ID',
    'should succeed when creating snapshot with maximum-length name',
  ].map((text) => `CreateSnapshot [Controller Server] ${text}`),
  'GetSnapshot [Controller Server] should return snapshot that match the specified snapshot id',
  ...[
    'should return snapshots that match the specified snapshot id',
    'should return snapshots that match the specified source volume id',
    'check the presence of new snapshots in the snapshot list',
    'should return next token when a limited number of entries are requested',
  ].map((text) => `ListSnapshots [Controller Server] ${text}`),
  'DeleteSnapshot [Controller Server] should return appropriate values (no optional values added)',
  ...['snapshot', 'volume'].map(
    (source) =>
      `Controller Service [Controller Server] CreateVolume should create volume from an existing source ${source}`,
  ),
];

/** Left out by their names, they have no reason. */
export const withoutCopies: Tally = {
  ...everything,
  passed: everything.passed - makingCopies.length,
  skipped: { '': makingCopies.length },
};
