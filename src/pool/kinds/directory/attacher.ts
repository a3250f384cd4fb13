import { relative } from 'node:path';
import { isErrno } from '../../../kernel/call/errno.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { openDirectory } from '../../../kernel/file/path.ts';
import type { Mount } from '../../../kernel/mount/mount-table.ts';
import { mountsElsewhere } from '../../../kernel/process/mounts-elsewhere.ts';
import { DataLoss, Unavailable } from '../../../volume/errors.ts';
import { withTimeout } from '../../../volume/flow/with-timeout.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Attached, Attachment, SeenVolume } from '../../pool.ts';
import { MountedAttacher } from '../../records/mounted-attacher.ts';
import type { DirectoryParts } from './directory-backend.ts';

/** A directory is reachable as it is. */
export class DirectoryAttacher extends MountedAttacher<DirectoryParts> {
  async attach({ id, sizeBytes }: VolumeRecord): Promise<Attachment> {
    const { handovers, layout, projects, queue } = this.parts;
    const path = layout.data(id);
    await handovers.settled(id);
    // The limit may have been changed by hand.
    await projects?.limitIn(layout.volume(id), sizeBytes);
    try {
      const descriptor = await openDirectory(queue, path);
      return { kind: 'directory', path, descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    } catch (error) {
      if (!isErrno(error, 'ENOENT', 'ENOTDIR')) throw error;
      throw new DataLoss(`volume ${id}: its directory ${path} is missing.`);
    }
  }

  /** Counts mounts that the driver does not see, too: a container that lives on has them in its own namespace. */
  override async inUse(id: VolumeId): Promise<readonly Attached[]> {
    await this.parts.handovers.settled(id);
    const here = await this.attached(id);
    if (here.length > 0) return here;
    const mounts = await withTimeout(lookTimeoutMs, mountsElsewhere(id));
    if (mounts === 'late') {
      throw new Unavailable(`volume ${id}: there was no time to look whether a container has it mounted; try again.`);
    }
    const isMounted = mounts.some((mount) => this.volumeAt(mount)?.id === id);
    return isMounted ? [this.attachedAs(id)] : [];
  }

  protected volumeAt({ device, root }: Pick<Mount, 'device' | 'root'>): SeenVolume | undefined {
    const { place } = this.parts;
    if (!sameDevice(device, place.device)) return undefined;
    const [parent = '', name = '', data, ...below] = relative(place.root, root).split('/');
    const id = parseVolumeId(name.split('.')[0] ?? '');
    if (id === undefined || data !== 'data' || !parents.includes(parent)) return undefined;
    return { id, isWhole: below.length === 0 };
  }

  protected attachedAs(id: VolumeId): Attached {
    return { kind: 'directory', path: this.parts.layout.data(id) };
  }
}

/** A look takes a few milliseconds, but a node may have thousands of containers. */
const lookTimeoutMs = 20_000;

/** Where volumes lie below the pool's root (`Layout`), those on their way out too: `<id>.<random>`. */
const parents = ['volumes', 'trash'];
