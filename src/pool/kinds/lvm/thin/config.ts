import { type ReadValue, sectionWith, WrongValue } from '../../../../settings/section.ts';
import { number, size } from '../../../../settings/values.ts';

/** The thin pool that the volumes of a pool lie in. */
export interface ThinPoolOptions {
  /** The minimum size of its data. */
  readonly sizeBytes: bigint;
  /** Room to note where the data lies, at first; undefined: as the size needs it. */
  readonly metadataBytes: bigint | undefined;
  /** 1: never provision more than there is. */
  readonly overcommit: number;
}

const smallestPoolBytes = 300n << 20n;

/** LVM gives no more: DM_THIN_MAX_METADATA_SIZE of its libdm. The default stays well below (sizes.ts). */
export const metadataBounds = { minBytes: 1n << 20n, maxBytes: 16_192n << 20n } as const;

const read = sectionWith({
  size: size(smallestPoolBytes),
  metadata: size(metadataBounds.minBytes, metadataBounds.maxBytes),
  overcommit: number({ minimum: 1, maximum: 1000 }),
});

export const thinPool: ReadValue<ThinPoolOptions> = (value) => {
  const { metadata, overcommit, size: sizeBytes } = read(value);
  if (sizeBytes === undefined) throw new WrongValue('needs a size, such as 500Gi: how much data it has room for');
  return { sizeBytes, metadataBytes: metadata, overcommit: overcommit ?? 1 };
};
