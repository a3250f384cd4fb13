import { FailedPrecondition } from '../../volume/errors.ts';

/** The refusal of a use that writes: the device itself takes no writes. */
export function writeProtected(volumeId: string): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${volumeId}: its device is write-protected. Allow writing on its target, or use it for reading alone (mountOptions: [ro]; as a raw block volume readOnly: true).`,
  );
}
