import type { VolumeId } from '../../../volume/id.ts';
import { larger, smaller } from '../../../volume/size.ts';
import type { DataRef } from '../../backend.ts';
import type { QuotaUsage } from '../../pool.ts';
import type { SpaceParts } from '../../records/filesystem-space.ts';
import { TreeSpace } from '../../records/tree-space.ts';
import type { Projects } from './projects.ts';

export interface DirectorySpaceParts extends SpaceParts {
  readonly projects: Projects | undefined;
  readonly canShareBlocks: boolean;
}

/** The space that directories take: by their quota, else counted now and then. */
export class DirectorySpace extends TreeSpace<DirectorySpaceParts> {
  constructor(parts: DirectorySpaceParts) {
    super(parts, { sharesBlocks: parts.canShareBlocks });
  }

  override async allocatedBytes(data: DataRef): Promise<bigint> {
    const usage = await this.parts.projects?.usageIn(this.parts.layout.directoryAt(data));
    return usage?.usedBytes ?? super.allocatedBytes(data);
  }

  /** The usage that df(1) shows in the volume. */
  async quotaUsage(id: VolumeId): Promise<QuotaUsage | undefined> {
    const usage = await this.parts.projects?.usageIn(this.parts.layout.volume(id));
    if (usage === undefined || usage.limits.bytes === 0n) return undefined;
    const { freeBytes } = await this.storage();
    const total = usage.limits.bytes;
    const available = smaller(larger(0n, total - usage.usedBytes), larger(0n, freeBytes - this.reservedBytes));
    return { bytes: { total, used: usage.usedBytes, available }, inodes: undefined };
  }
}
