import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { type LvmTestOptions, openTestLvm, testThinPool } from '../../support/lvm-pool.ts';
import { encryptingAll, openLvmWithLayer } from '../luks/encrypted-pool.ts';

/** What the volumes of a pool are that is killed. */
export const sorts = ['linear', 'thin', 'encrypted'] as const;
export type Sort = (typeof sorts)[number];

export function isSort(word: string | undefined): word is Sort {
  return sorts.some((sort) => sort === word);
}

/** Opens the pool of a volume group, all volumes of which are of one sort. */
export async function openOfSort(sort: Sort, volumeGroup: string, dataDirectory: string): Promise<Catalog> {
  const scratch = { join: () => dataDirectory };
  const options: LvmTestOptions = { dataDirectory, ...(sort === 'thin' ? { thinPool: testThinPool } : {}) };
  if (sort !== 'encrypted') return openTestLvm(scratch, volumeGroup, options);
  return encryptingAll(await openLvmWithLayer(scratch, volumeGroup, options));
}
