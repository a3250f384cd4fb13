import type { DeviceMapper } from '../../../../kernel/block/device-mapper.ts';
import { parseThinBytes, parseThinPool, type ThinPoolStatus } from '../../../../kernel/block/thin-status.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { formatBytes } from '../../../../volume/size.ts';
import { type Finding, ok, warn } from '../../../sight.ts';
import type { GroupState } from '../group/group-state.ts';
import { findDevice } from '../mapped-lv.ts';
import { thinLvName } from '../names.ts';
import { chunkBytesOf } from './open.ts';
import { shortageOf } from './sizes.ts';
import { poolDevice, type ThinFigures } from './thin-pool.ts';

/** Figures of a thin pool that is looked at: nothing is activated for it, so they may not be known. */
export interface ThinLook extends ThinFigures {
  /** undefined: it is not active. */
  readonly known: ThinPoolStatus | undefined;
}

/** @returns undefined if there is no thin pool */
export async function lookAtThinPool(
  queue: DiskQueue,
  mapper: DeviceMapper,
  state: GroupState,
): Promise<ThinLook | undefined> {
  const lv = state.lvs.get(thinLvName);
  const chunkBytes = lv && chunkBytesOf(lv);
  if (lv === undefined || chunkBytes === undefined) return undefined;
  const device = poolDevice(mapper, state);
  const told = device && (await mapper.status(queue, device.device, false));
  const known = told && parseThinPool(told, chunkBytes);
  const empty = { usedBytes: 0n, totalBytes: 0n };
  const unknown: ThinPoolStatus = {
    ...{ mode: 'rw', metadata: empty, needsCheck: false },
    data: { usedBytes: 0n, totalBytes: lv.sizeBytes },
  };
  return {
    known,
    status: async () => known ?? unknown,
    takenBytes: async (lvName) => {
      const mapped = findDevice(mapper, state, lvName);
      const status = mapped && (await mapper.status(queue, mapped.device, false));
      return status && parseThinBytes(status);
    },
  };
}

export function thinFinding({ known }: ThinLook, overcommit: number): Finding {
  const check = 'thin pool';
  if (known === undefined) return ok(check, 'it is not active, so its usage is not known');
  const { data, metadata, mode } = known;
  const share = ({ totalBytes, usedBytes }: typeof data) =>
    `${(usedBytes * 100n) / (totalBytes === 0n ? 1n : totalBytes)} % of ${formatBytes(totalBytes)}`;
  const detail = `${mode}; data: ${share(data)}; metadata: ${share(metadata)}`;
  const { alarm } = shortageOf(known, overcommit > 1);
  if (alarm === undefined) return ok(check, detail);
  const remedy =
    alarm === 'mode'
      ? 'See docs/lvm.md: a thin pool that cannot be written to.'
      : 'Extend the volume group (vgextend), or delete volumes and snapshots.';
  return warn(check, detail, remedy);
}
