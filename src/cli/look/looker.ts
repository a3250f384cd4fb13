import type { Config } from '../../config/config.ts';
import { explain } from '../../kernel/call/explain.ts';
import { exitAtOnce } from '../../kernel/process/own-process.ts';
import { expandPools } from '../../pool/kinds.ts';
import type { Wanted } from '../../pool/sight.ts';
import { exitCodes } from '../output/output.ts';
import { driverWords } from './driver-word.ts';
import { lookAtPool } from './inventory.ts';
import { aliveEveryMs, type LookerMessage } from './look.ts';

/** The process that looks at the pools for another one (`lookAtPools`): it sends what it sees, and ends. */
export function lookerCommand(config: Config, wanted: Wanted): Promise<never> {
  return tellAll<LookerMessage>(async (tell) => {
    const words = await driverWords(config);
    const { pools, sections } = await expandPools(config.pools, config.dataDirectory);
    await Promise.all(
      [...pools, ...sections].map(async (pool) => {
        const sight = await lookAtPool(config, pool, { wanted, word: words.get(pool.name) });
        await tell({ kind: 'pool', sight });
      }),
    );
  });
}

/** Does what another process hears of (`hearLooker`), and ends this one. */
export async function tellAll<Message>(look: (tell: (message: Message) => Promise<void>) => Promise<void>) {
  process.once('disconnect', () => exitAtOnce(exitCodes.failed));
  setInterval(() => void tell({ kind: 'alive' }), aliveEveryMs);
  try {
    await look(tell);
  } catch (error) {
    await tell({ kind: 'failed', message: explain(error) });
  }
  // A thread that hangs is not waited for.
  return exitAtOnce(exitCodes.ok);
}

/** Resolves when the message is on its way, and also if no process is left to receive it. */
function tell(message: unknown): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send(message, undefined, undefined, () => resolve());
  });
}
