import module from 'node:module';
import type { ServeConfig } from '../config/config.ts';
import { explain } from '../kernel/call/explain.ts';
import { useWorkerThreads } from '../kernel/call/workers.ts';
import { returnFreeMemory } from '../kernel/process/own-process.ts';
import { busyServersOf } from '../server/context-volumes.ts';
import { collectGarbage, limitHeap, whenIdle } from '../server/memory.ts';
import { maxPools } from '../server/node-pools.ts';
import { startDriver } from '../server/server.ts';
import { wantedThreads } from '../server/threads.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import { armCrashPoint } from '../volume/step.ts';
import { openLog } from './output/log.ts';
import { exitCodes, type Output } from './output/output.ts';
import { codeOf } from './output/problem-code.ts';

/** The time without a new call after which the memory of the last ones is given back. */
const restMs = 750;
/** The reader of the log may have stopped; that does not delay the end. */
const logGraceMs = 1_000;

/** `holdfast serve`: runs the driver until a signal ends it. The log goes to standard output (O04). */
export async function serveCommand(config: ServeConfig, output: Output): Promise<number> {
  // Files and sockets of the driver are for root alone from their first moment, whatever umask it was started with.
  process.umask(0o077);
  limitHeap();
  // Before anything reads a file: libuv decides at the first use how many threads there are.
  const wanted = wantedThreads(maxPools(config.pools), busyServersOf(config));
  const threads = useWorkerThreads(wanted);
  const { flush, log } = openLog(config.logLevel);
  if (threads < wanted) {
    log.warn(
      { threads, wanted },
      'fewer worker threads than wanted: before Node 22.18 set UV_THREADPOOL_SIZE before the start',
    );
  }
  if (config.crashPoint !== undefined) armCrashPoint(config.crashPoint);

  process.on('uncaughtExceptionMonitor', (error) =>
    log.fatal({ err: error }, 'this is a bug; the operations in progress are safe to repeat'),
  );

  const stopSignal = new Promise<NodeJS.Signals>((resolve) => {
    // Once: a second signal means at once.
    process.once('SIGTERM', resolve);
    process.once('SIGINT', resolve);
  });
  const driver = await startDriver(config, log, async (question) => {
    const { lookFor } = await import('./fleet/look.ts');
    return lookFor(config)(question);
  });
  whenIdle(driver.calls, restMs, () => {
    collectGarbage();
    returnFreeMemory();
  });
  driver.opened.then(keepCompiled, () => undefined);
  const cannotGoOn = driver.opened.then(
    () => new Promise<never>(() => undefined),
    (error: unknown) => ({ error }),
  );
  const end = await Promise.race([stopSignal, cannotGoOn]);
  if (typeof end === 'string') log.info({ signal: end }, 'stopping');
  else output.problem(codeOf(end.error), explain(end.error));
  await driver.stop();
  await withTimeout(logGraceMs, flush());
  return typeof end === 'string' ? exitCodes.ok : exitCodes.failed;
}

/**
 * Stores what Node has compiled, where NODE_COMPILE_CACHE says so. Node itself does that at an orderly end, which the
 * driver does not wait for (`exitAtOnce`).
 */
function keepCompiled(): void {
  // Not before Node 22.10.
  if ('flushCompileCache' in module) module.flushCompileCache();
}
