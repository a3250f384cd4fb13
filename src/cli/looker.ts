import type { Config } from '../config/config.ts';
import { explain } from '../kernel/call/explain.ts';
import { exitAtOnce } from '../kernel/process/exit.ts';
import type { Wanted } from '../pool/sight.ts';
import { driverWords } from './driver-word.ts';
import { lookAtPool } from './inventory.ts';
import { aliveEveryMs, type LookerMessage } from './look.ts';
import { exitCodes } from './output.ts';

/** Of the process that looks at the pools for another one (`lookAtPools`): tells it what it sees, and ends. */
export async function lookerCommand(config: Config, wanted: Wanted): Promise<never> {
  process.once('disconnect', () => exitAtOnce(exitCodes.failed));
  setInterval(() => void tell({ kind: 'alive' }), aliveEveryMs);
  try {
    const words = await driverWords(config);
    await Promise.all(
      config.pools.map(async (pool, index) => {
        const sight = await lookAtPool(config, pool, { wanted, word: words.get(pool.name) });
        await tell({ kind: 'pool', index, sight });
      }),
    );
  } catch (error) {
    await tell({ kind: 'failed', message: explain(error) });
  }
  // A thread that hangs is not waited for.
  return exitAtOnce(exitCodes.ok);
}

/** Resolves when it is on its way, and also if nobody is there to hear it. */
function tell(message: LookerMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send(message, undefined, undefined, () => resolve());
  });
}
