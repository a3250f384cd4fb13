import type { Pool } from '../../../src/pool/pool.ts';
import type { WipePolicy } from '../../../src/volume/wipe-policy.ts';
import { openTestDisk } from '../../support/disk-pool.ts';
import { openTestLvm } from '../../support/lvm-pool.ts';

const mebibyte = 1n << 20n;

/** Where owners come and go. */
export interface Place {
  /** How many volumes there are at a time. */
  readonly atOnce: number;
  readonly sizesBytes: readonly bigint[];
  readonly copies: boolean;
  /** What classes can say of what becomes of the data. */
  readonly wipes: readonly WipePolicy[];
  open(dataDirectory: string, poolWipe: WipePolicy): Promise<Pool>;
}

export const volumeGroup = 'owners';

function groupPlace(options: Parameters<typeof openTestLvm>[2], wipes: Place['wipes']): Place {
  return {
    atOnce: 2,
    sizesBytes: [4n * mebibyte, 8n * mebibyte],
    copies: true,
    wipes,
    open: (dataDirectory, wipe) =>
      openTestLvm({ join: () => dataDirectory }, volumeGroup, {
        ...options,
        dataDirectory,
        ...(options?.thinPool === undefined ? { wipe } : {}),
      }),
  };
}

/** @param device of a place that is no volume group */
export function placeOf(kind: string, device: string): Place {
  if (kind === 'lvm') return groupPlace({}, ['discard', 'zero']);
  if (kind === 'thin') {
    return groupPlace({ thinPool: { sizeBytes: 64n * mebibyte, metadataBytes: undefined, overcommit: 1 } }, []);
  }
  return {
    atOnce: 1,
    sizesBytes: [],
    copies: false,
    wipes: [],
    open: (dataDirectory, wipe) => openTestDisk({ join: () => dataDirectory }, device, { dataDirectory, wipe }),
  };
}
