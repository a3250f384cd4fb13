import type { PoolLog } from '../../src/pool/log.ts';

export const quiet: PoolLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Adds to `errors` what a pool tells as errors, with what was thrown. */
export function keepErrors(errors: string[]): PoolLog {
  return { ...quiet, error: ({ err }, message) => errors.push(`${message}: ${String(err)}`) };
}
