import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { VolumeId } from '../../volume/id.ts';

/**
 * Where things lie in an image pool. Every path below the pool is made here, from ids of checked shape and random
 * names only, so nothing that a caller says can become a path.
 *
 * ```
 * pool.json                          format, pool id, block size
 * volumes/<volume-id>/volume.json    the record
 * volumes/<volume-id>/data           the image: what a loop device shows as a disk
 * trash/<volume-id>.<random>/        removed, waiting to be unlinked
 * tmp/<volume-id>.<random>/          being made; renamed into volumes/ when whole
 * ```
 */
export class Layout {
  readonly root: string;
  readonly poolFile: string;
  readonly volumes: string;
  readonly trash: string;
  readonly drafts: string;

  constructor(root: string) {
    this.root = root;
    this.poolFile = join(root, 'pool.json');
    this.volumes = join(root, 'volumes');
    this.trash = join(root, 'trash');
    this.drafts = join(root, 'tmp');
  }

  volume(id: VolumeId): string {
    return join(this.volumes, id);
  }

  data(id: VolumeId): string {
    return join(this.volumes, id, 'data');
  }

  record(id: VolumeId): string {
    return join(this.volumes, id, 'volume.json');
  }

  /** A name never used before: a mkfs that outlived a killed driver must not meet the next try's file. */
  newDraft(id: VolumeId): { readonly directory: string; readonly data: string; readonly record: string } {
    const directory = join(this.drafts, `${id}.${suffix()}`);
    return { directory, data: join(directory, 'data'), record: join(directory, 'volume.json') };
  }

  /** One volume id can be in the trash several times: deleted, made anew, deleted. */
  newTrash(id: VolumeId): string {
    return join(this.trash, `${id}.${suffix()}`);
  }
}

function suffix(): string {
  return randomBytes(6).toString('hex');
}
