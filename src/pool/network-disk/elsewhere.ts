import { FailedPrecondition } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Attacher } from '../backend.ts';
import type { Attached, Attachment, SeenVolume } from '../pool.ts';

/** The home of a pool reaches none of its volumes: nodes do, and have notes of their use. */
export class ElsewhereAttacher implements Attacher {
  readonly rescue: Attacher['rescue'] = this;

  async attach({ id }: VolumeRecord): Promise<Attachment> {
    throw new FailedPrecondition(`volume ${id} is reached on nodes, not in the home of its pool.`);
  }

  async attached(): Promise<Attached[]> {
    return [];
  }

  async inUse(): Promise<readonly Attached[]> {
    return [];
  }

  async detach(): Promise<void> {}

  async volumeSeen(): Promise<SeenVolume | undefined> {
    return undefined;
  }

  async all(): Promise<Attached[]> {
    return [];
  }

  async counts(): Promise<ReadonlyMap<string, number>> {
    return new Map();
  }

  async detachOrphans(): Promise<VolumeId[]> {
    return [];
  }
}
