import type { Config } from '../config/config.ts';
import { explain } from '../kernel/call/explain.ts';
import { exitAtOnce } from '../kernel/process/exit.ts';
import type { Wanted } from '../pool/sight.ts';
import { driverReports } from './driver-report.ts';
import { lookAtPool } from './inventory.ts';
import { aliveEveryMs, type LookerMessage } from './look.ts';
import { exitCodes } from './output.ts';

/** Runs in the process that `lookAtPools` starts: looks at the pools, sends what it sees, and ends. */
export async function lookerCommand(config: Config, wanted: Wanted): Promise<never> {
  process.once('disconnect', () => exitAtOnce(exitCodes.failed));
  setInterval(() => void tell({ kind: 'alive' }), aliveEveryMs);
  try {
    const reports = await driverReports(config);
    await Promise.all(
      config.pools.map(async (pool, index) => {
        const sight = await lookAtPool(config, pool, { wanted, report: reports.get(pool.name) });
        await tell({ kind: 'pool', index, sight });
      }),
    );
  } catch (error) {
    await tell({ kind: 'failed', message: explain(error) });
  }
  // Nothing waits for a thread that hangs.
  return exitAtOnce(exitCodes.ok);
}

/** Resolves once the message is sent, or if nobody listens. */
function tell(message: LookerMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send(message, undefined, undefined, () => resolve());
  });
}
