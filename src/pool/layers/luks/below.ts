import { type Encryption, storedBytes } from '../../../volume/encryption.ts';
import type { Recorded } from '../../backend.ts';

/** Something with a size, as the backend below has it: with the header. Without encryption it is the same there. */
export function below<T extends { readonly sizeBytes: bigint; readonly encryption?: Encryption | undefined }>(
  sized: T,
): T {
  const { encryption, sizeBytes } = sized;
  return encryption === undefined ? sized : { ...sized, sizeBytes: storedBytes({ encryption, sizeBytes }) };
}

export function belowRecorded(object: Recorded): Recorded {
  return object.kind === 'volume'
    ? { kind: 'volume', record: below(object.record) }
    : { kind: 'snapshot', record: below(object.record) };
}
