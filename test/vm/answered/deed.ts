import assert from 'node:assert/strict';
import type { AdminClient } from '../../../src/admin/client.ts';
import { groupIdFor, memberIdFor, snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import { checksumOf, contentOf } from '../machine/content.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import { type Content, GuestVolume } from '../node/guest-volume.ts';

const mebibyte = 1n << 20n;
const sizeBytes = 32n * mebibyte;
const file = { seed: 1, sizeBytes: 300_000 };
const checksum = checksumOf(contentOf(file.seed, file.sizeBytes));

/** Where a deed is done: a pool, and a disk for it alone. */
export interface Place {
  readonly node: GuestNode;
  readonly pool: string;
  readonly admin: AdminClient;
  /** Of each volume that is made anew. */
  readonly encryption: 'luks2' | undefined;
}

/** Something that is done to a pool, and looked at after a power cut. */
export interface Deed {
  readonly name: string;
  /**
   * copying: a directory on ext4, where snapshots are copies. directories: volumes that are directories of an XFS with
   * project quota. Unset: the pool has its disk.
   */
  readonly on?: 'copying' | 'directories';
  /** What is there before, and durable. */
  readonly prepare?: (place: Place) => Promise<unknown>;
  readonly act: (place: Place) => Promise<unknown>;
  readonly check: (place: Place) => Promise<void>;
}

function volumeIn({ encryption, node, pool }: Place, content: Content = 'ext4', suffix = ''): GuestVolume {
  const name = `${pool}${suffix}`;
  return new GuestVolume(node, volumeIdFor(nodeId, pool, name), { name, content, pool, encryption });
}

function made(volume: GuestVolume): Promise<void> {
  return volume.create(sizeBytes);
}

async function withFile(volume: GuestVolume): Promise<void> {
  await made(volume);
  await volume.use();
  await volume.node.vm.task('write', { ...file, path: `${volume.targetPath}/file` });
  await volume.leave();
}

async function hasFile(volume: GuestVolume): Promise<void> {
  await volume.use();
  const path = `${volume.targetPath}/file`;
  assert.deepEqual(await volume.node.vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]), [checksum], path);
  await volume.leave();
}

async function usable(volume: GuestVolume): Promise<void> {
  await volume.use();
  await volume.leave();
}

async function listed({ node }: Place, id: string): Promise<bigint | undefined> {
  const { entries } = await node.client.controller.ListVolumes({});
  return entries.find(({ volume }) => volume?.volume_id === id)?.volume?.capacity_bytes;
}

/** A volume made from a snapshot has what the source had. */
async function restores(place: Place, snapshotId: string, content: Content = 'ext4'): Promise<void> {
  const copy = volumeIn(place, content, '-restored');
  await copy.create(sizeBytes, snapshotId);
  await hasFile(copy);
}

const keeping = { undelete: '1h' };
const snapshotOf = (place: Place) => `${place.pool}-snapshot`;

function contentOn(on: Deed['on']): Content {
  return on === 'directories' ? 'directory' : 'ext4';
}

function snapshotting(name: string, on?: Deed['on']): Deed {
  const volume = (place: Place) => volumeIn(place, contentOn(on));
  return {
    name,
    ...(on === undefined ? {} : { on }),
    prepare: (place) => withFile(volume(place)),
    act: (place) => volume(place).snapshot(snapshotOf(place)),
    check: (place) => restores(place, snapshotIdFor(nodeId, snapshotOf(place)), contentOn(on)),
  };
}

function cloning(name: string, on?: Deed['on']): Deed {
  const snapshotId = (place: Place) => snapshotIdFor(nodeId, snapshotOf(place));
  const content = contentOn(on);
  return {
    name,
    ...(on === undefined ? {} : { on }),
    async prepare(place) {
      await withFile(volumeIn(place, content));
      await volumeIn(place, content).snapshot(snapshotOf(place));
    },
    act: (place) => volumeIn(place, content, '-clone').create(sizeBytes, snapshotId(place)),
    check: (place) => hasFile(volumeIn(place, content, '-clone')),
  };
}

function creating(name: string, content: Content, on?: Deed['on']): Deed {
  return {
    name,
    ...(on === undefined ? {} : { on }),
    act: (place) => made(volumeIn(place, content)),
    check: (place) => usable(volumeIn(place, content)),
  };
}

function deleting(name: string, on?: Deed['on']): Deed {
  return {
    name,
    ...(on === undefined ? {} : { on }),
    prepare: (place) => made(volumeIn(place)),
    act: (place) => volumeIn(place).delete(),
    check: async (place) =>
      assert.equal(await listed(place, volumeIn(place).id), undefined, 'a deleted volume is there'),
  };
}

/** What df(1) shows in a directory is its project's limit. */
async function hasLimit(volume: GuestVolume, bytes: bigint): Promise<void> {
  await volume.use();
  const said = await volume.node.vm.run(`df --block-size=1 --output=size ${volume.targetPath} | tail -n 1`);
  assert.equal(BigInt(said.trim()), bytes);
  await volume.leave();
}

export const deeds: readonly Deed[] = [
  creating('create', 'ext4'),
  creating('create-block', 'block'),
  creating('create-plain', 'block', 'copying'),
  creating('create-on-ext4', 'ext4', 'copying'),
  {
    ...creating('create-directory', 'directory', 'directories'),
    check: (place) => hasLimit(volumeIn(place, 'directory'), sizeBytes),
  },
  snapshotting('snapshot'),
  snapshotting('snapshot-copied', 'copying'),
  snapshotting('snapshot-directory', 'directories'),
  cloning('clone'),
  cloning('clone-copied', 'copying'),
  cloning('clone-directory', 'directories'),
  {
    name: 'grow-directory',
    on: 'directories',
    prepare: (place) => withFile(volumeIn(place, 'directory')),
    async act(place) {
      await volumeIn(place, 'directory').use();
      await volumeIn(place, 'directory').expand(2n * sizeBytes);
    },
    async check(place) {
      assert.equal(await listed(place, volumeIn(place, 'directory').id), 2n * sizeBytes);
      await hasLimit(volumeIn(place, 'directory'), 2n * sizeBytes);
      await hasFile(volumeIn(place, 'directory'));
    },
  },
  {
    name: 'group',
    prepare: (place) => withFile(volumeIn(place)),
    act: (place) =>
      place.node.client.groupController.CreateVolumeGroupSnapshot(
        { name: place.pool, source_volume_ids: [volumeIn(place).id] },
        { deadlineMs: 300_000 },
      ),
    check: (place) =>
      restores(place, memberIdFor(groupIdFor(nodeId, place.pool), volumeIdFor(nodeId, place.pool, place.pool))),
  },
  deleting('delete'),
  deleting('delete-on-ext4', 'copying'),
  {
    name: 'delete-kept',
    async prepare(place) {
      await withFile(volumeIn(place));
      await volumeIn(place).modify(keeping);
    },
    act: (place) => volumeIn(place).delete(),
    async check(place) {
      await place.admin.restore(volumeIn(place).id);
      await hasFile(volumeIn(place));
    },
  },
  {
    name: 'restore',
    async prepare(place) {
      await withFile(volumeIn(place));
      await volumeIn(place).modify(keeping);
      await volumeIn(place).delete();
    },
    act: (place) => place.admin.restore(volumeIn(place).id),
    check: (place) => hasFile(volumeIn(place)),
  },
  {
    name: 'grow',
    prepare: (place) => withFile(volumeIn(place)),
    async act(place) {
      await volumeIn(place).use();
      await volumeIn(place).expand(2n * sizeBytes);
    },
    async check(place) {
      assert.equal(await listed(place, volumeIn(place).id), 2n * sizeBytes);
      await hasFile(volumeIn(place));
    },
  },
  {
    name: 'modify',
    prepare: (place) => made(volumeIn(place)),
    act: (place) => volumeIn(place).modify(keeping),
    async check(place) {
      await volumeIn(place).delete();
      await place.admin.restore(volumeIn(place).id);
    },
  },
];
