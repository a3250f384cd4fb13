import { type ReadValue, shown, WrongValue } from '../../../../settings/section.ts';
import { number, size } from '../../../../settings/values.ts';

/** The thin pool that the volumes of a pool lie in. */
export interface ThinPoolOptions {
  /** How much data it has room for, at least. */
  readonly sizeBytes: bigint;
  /** Room to note where the data lies, at first; undefined: as the size needs it. */
  readonly metadataBytes: bigint | undefined;
  /** 1: never provision more than there is. */
  readonly overcommit: number;
}

const smallestPoolBytes = 300n << 20n;
const smallestMetadataBytes = 1n << 20n;

const readers = {
  size: size(smallestPoolBytes),
  metadata: size(smallestMetadataBytes),
  overcommit: number({ minimum: 1, maximum: 1000 }),
};

const keys = Object.keys(readers).join(', ');

export const thinPool: ReadValue<ThinPoolOptions> = (value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WrongValue(`must be a section with ${keys}, not ${shown(value)}`);
  }
  const given = new Map<string, unknown>(Object.entries(value));
  const unknownKey = [...given.keys()].find((key) => !Object.hasOwn(readers, key));
  if (unknownKey !== undefined) throw new WrongValue(`has the unknown key ${unknownKey} (known: ${keys})`);
  const read = <T>(key: string, readValue: ReadValue<T>): T | undefined => {
    try {
      return given.has(key) ? readValue(given.get(key)) : undefined;
    } catch (error) {
      throw error instanceof WrongValue ? new WrongValue(`: ${key} ${error.message}`) : error;
    }
  };
  const sizeBytes = read('size', readers.size);
  if (sizeBytes === undefined) throw new WrongValue('needs a size, such as 500Gi: how much data it has room for');
  return {
    sizeBytes,
    metadataBytes: read('metadata', readers.metadata),
    overcommit: read('overcommit', readers.overcommit) ?? 1,
  };
};
