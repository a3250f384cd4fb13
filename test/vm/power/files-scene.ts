import { look } from './look.ts';
import type { PowerScene } from './scene.ts';

/** Where somebody else mounts a filesystem with project quota. */
const directoriesAt = '/data/directories';
const mountDirectories = `mkdir -p ${directoriesAt} && mount -o prjquota /dev/vdc ${directoriesAt}`;

/**
 * As nearly all disks write today. XFS goes by the first sector of a block when it replays its log: one that is torn between
 * sectors of 512 bytes counts as written, and its checksum keeps the filesystem from being mounted. It is not the driver's.
 */
const directoriesAtomicBytes = 4096;

/** A pool on a disk of its own, one in a directory of the node's own disk, and one of directories of an XFS. */
export const filesScene: PowerScene = {
  setup: {
    config: `
expansion: node
defaultPool: default
pools:
  default: { device: /dev/vdb, sickAfter: 10m }
  plain: { directory: /data/plain, sickAfter: 10m }
  directories: { kind: directory, path: ${directoriesAt}/pool, quota: required, sickAfter: 10m }
`,
    pools: ['default', 'plain', 'directories'],
    disks: [
      { name: 'pool', sizeGiB: 8 },
      { name: 'directories', sizeGiB: 4, atomicBytes: directoriesAtomicBytes },
    ],
    prepare: `mkfs.xfs -q /dev/vdc && ${mountDirectories}`,
  },
  // Two of them work in pools where snapshots are copies.
  users: [
    { pool: 'default', contents: ['ext4'] },
    { pool: 'default', contents: ['ext4', 'xfs'] },
    { pool: 'default', contents: ['xfs'] },
    { pool: 'default', contents: ['block'] },
    { pool: 'plain', contents: ['ext4', 'block'] },
    { pool: 'directories', contents: ['directory'] },
  ],
  afterBoot: mountDirectories,
  look: (node) =>
    look(node, [
      { name: 'default', root: `${node.dataDirectory}/pools/default` },
      { name: 'plain', root: '/data/plain' },
      { name: 'directories', root: `${directoriesAt}/pool` },
    ]),
};
