import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import {
  type GroupId,
  isVolumeId,
  parseSnapshotId,
  parseVolumeId,
  type SnapshotId,
  type VolumeId,
} from '../../volume/id.ts';
import { reservedInodesName } from './reserved-inodes.ts';
import { reserveFileName } from './reserved-space.ts';

/**
 * Where things lie in a pool on a filesystem. Every path below the pool is made here, from ids of checked shape and random
 * names only, so nothing that a caller says can become a path.
 *
 * ```
 * pool.json                          format, pool id, block size
 * ballast, spares/<number>           room that is held for the records: blocks, and inodes
 * health                             written now and then, to see whether the disk is well
 * lock                               on NFS: locked by the driver that has the pool
 * age                                for how long the pool has been open in all
 * volumes/<volume-id>/volume.json    the record
 * volumes/<volume-id>/data           the image: what a loop device shows as a disk
 * snapshots/<snapshot-id>/snapshot.json, data
 * groups/<group-id>.json             makes the snapshots it names exist
 * trash/<id>.<random>/               removed, waiting to be unlinked
 * tmp/<id>.<random>/                 being made; renamed into place when whole
 * templates/<what it is>             filesystems just made, that new volumes are made of
 * handovers/<volume-id>.json         a directory on its way to become a volume, or out again
 * ```
 */
export class Layout {
  readonly root: string;
  readonly poolFile: string;
  readonly age: string;
  readonly reserve: string;
  readonly inodes: string;
  readonly volumes: string;
  readonly snapshots: string;
  readonly groups: string;
  readonly trash: string;
  readonly drafts: string;
  readonly templates: string;

  constructor(root: string) {
    this.root = root;
    this.poolFile = join(root, 'pool.json');
    this.age = join(root, ageFileName);
    this.reserve = join(root, reserveFileName);
    this.inodes = join(root, reservedInodesName);
    this.volumes = join(root, 'volumes');
    this.snapshots = join(root, 'snapshots');
    this.groups = join(root, 'groups');
    this.trash = join(root, 'trash');
    this.drafts = join(root, 'tmp');
    this.templates = join(root, templatesName);
  }

  volume(id: VolumeId): string {
    return join(this.volumes, id);
  }

  directoryOf(id: VolumeId | SnapshotId): string {
    return isVolumeId(id) ? this.volume(id) : this.snapshot(id);
  }

  dataOf(id: VolumeId | SnapshotId): string {
    return isVolumeId(id) ? this.data(id) : this.snapshotData(id);
  }

  /** @param data the id of a volume or snapshot, or its place in the trash */
  directoryAt(data: string): string {
    const id = parseVolumeId(data) ?? parseSnapshotId(data);
    return id === undefined ? data : this.directoryOf(id);
  }

  /** The id of the volume or snapshot that lies in a directory; undefined: it is no place of one. */
  idAt(directory: string): VolumeId | SnapshotId | undefined {
    const name = basename(directory);
    switch (dirname(directory)) {
      case this.volumes:
        return parseVolumeId(name);
      case this.snapshots:
        return parseSnapshotId(name);
      default:
        return undefined;
    }
  }

  data(id: VolumeId): string {
    return join(this.volumes, id, 'data');
  }

  record(id: VolumeId): string {
    return join(this.volumes, id, 'volume.json');
  }

  snapshot(id: SnapshotId): string {
    return join(this.snapshots, id);
  }

  snapshotData(id: SnapshotId): string {
    return join(this.snapshots, id, 'data');
  }

  snapshotRecord(id: SnapshotId): string {
    return join(this.snapshots, id, 'snapshot.json');
  }

  group(id: GroupId): string {
    return join(this.groups, `${id}.json`);
  }

  /** A name never used before: a mkfs that outlived a killed driver must not meet the next try's file. */
  newDraft(id: VolumeId | SnapshotId): string {
    return join(this.drafts, `${id}.${suffix()}`);
  }

  /** A copy takes long: its draft has a persistent name, and the next try resumes it. */
  copyDraft(id: VolumeId | SnapshotId): string {
    return join(this.drafts, `${id}${copySuffix}`);
  }

  /** @param name made of a filesystem's type, numbers and digests alone */
  template(name: string): string {
    return join(this.templates, name);
  }

  newTemplateDraft(): string {
    return join(this.drafts, `template.${suffix()}`);
  }

  /** One id can be in the trash several times: deleted, made again, deleted. */
  newTrash(id: VolumeId | SnapshotId): string {
    return join(this.trash, `${id}.${suffix()}`);
  }
}

/** The lock file where the pool's own directory cannot be locked; it names the driver that has it. */
export const lockFileName = 'lock';

/** The age of the pool, and the clock's time when that was noted. */
export const ageFileName = 'age';

/** Made when it is first needed. Drivers that do not know of it leave it alone. */
export const templatesName = 'templates';

/** Made when it is first needed, too. */
export const handoversName = 'handovers';

/** The suffix of the drafts of copies. */
export const copySuffix = '.copy';

function suffix(): string {
  return randomBytes(6).toString('hex');
}
