import { AdminClient } from '../../admin/client.ts';
import type { Config } from '../../config/config.ts';
import { silentAfterMs } from '../../pool/condition.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';

/** The running driver's statement about a pool that it cannot use. */
export interface DriverWord {
  readonly state: 'failed' | 'quarantined';
  readonly reason: string;
}

/** The running driver's statements about the pools that it cannot use, by their names; empty if no driver answers. */
export async function driverWords(config: Config): Promise<ReadonlyMap<string, DriverWord>> {
  const asked = new AdminClient(config.adminSocketPath).listPools().catch(() => undefined);
  const answer = await withTimeout(silentAfterMs, asked);
  if (answer === undefined || answer === 'late') return new Map();
  return new Map(
    answer.pools.flatMap(({ name, reason = '', state }) =>
      state === 'failed' || state === 'quarantined' ? [[name, { state, reason: withoutName(reason, name) }]] : [],
    ),
  );
}

/** The problems of volumes, by their ids, as the running driver reports them; empty if no driver answers. */
export async function driverConditions(config: Config): Promise<ReadonlyMap<string, string>> {
  const asked = new AdminClient(config.adminSocketPath).listConditions().catch(() => undefined);
  // The driver waits as long for a disk that does not answer.
  const answer = await withTimeout(3 * silentAfterMs, asked);
  if (answer === undefined || answer === 'late') return new Map();
  return new Map(answer.volumes.map(({ id, message }) => [id, message]));
}

/** The reason alone: the caller prints the pool's name before it. */
function withoutName(reason: string, name: string): string {
  return reason.replace(`pool ${name} could not be opened: `, '').replace(`pool ${name} `, '');
}
