import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../../pool.ts';
import { MountedAttacher } from '../../records/mounted-attacher.ts';
import { attachNfs, mountableOf } from './attachment.ts';
import type { NfsParts } from './backend.ts';
import { nfsByName } from './by-name.ts';
import { type NfsContext, sourceOf } from './context.ts';

/** A directory on NFS is mounted where it is used. */
export class NfsAttacher extends MountedAttacher<NfsParts> {
  /** Where volumes lie, as the kernel names the source of a mount there. */
  readonly #volumes: string;

  constructor(parts: NfsParts) {
    super(parts);
    const { directory, exported } = parts;
    this.#volumes = sourceOf({ exported, directory: `${directory}/volumes` });
  }

  async attach({ id }: VolumeRecord): Promise<Attachment> {
    return attachNfs(this.parts, this.#volume(id), `volume ${id}`);
  }

  protected volumeAt(mount: NonNullable<Seen['mount']>): SeenVolume | undefined {
    return mount.source.startsWith(`${this.#volumes}/`) ? nfsByName({ device: undefined, mount }) : undefined;
  }

  protected attachedAs(id: VolumeId): Attached {
    return mountableOf(this.#volume(id));
  }

  #volume(id: VolumeId): NfsContext {
    const { directory, exported, options } = this.parts;
    return { exported, options, mode: undefined, directory: `${directory}/volumes/${id}/data` };
  }
}
