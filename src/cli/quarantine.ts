import { AdminClient } from '../admin/client.ts';
import type { Config } from '../config.ts';
import { silentAfterMs } from '../pool/condition.ts';
import { unlessLate } from '../volume/unless-late.ts';

/** Why the running driver has pools in quarantine, by their names; none if no driver answers. */
export async function quarantinedPools(config: Config): Promise<ReadonlyMap<string, string>> {
  const asked = new AdminClient(config.adminSocketPath).listPools().catch(() => undefined);
  const answer = await unlessLate(silentAfterMs, asked);
  if (answer === undefined || answer === 'late') return new Map();
  return new Map(
    answer.pools.filter(({ state }) => state === 'quarantined').map(({ name, reason }) => [name, reason ?? '']),
  );
}
