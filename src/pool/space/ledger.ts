import { type Ledger, PieceLedger } from './piece-ledger.ts';
import { SpaceLedger, type SpaceOptions } from './space-ledger.ts';

/** The ledger for the way in which a pool's storage is divided. */
export function openLedger(options: SpaceOptions): Ledger {
  const { pieces } = options.source;
  return pieces === undefined ? new SpaceLedger(options) : new PieceLedger({ ...options, pieces: () => pieces() });
}
