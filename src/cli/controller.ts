import type { ControllerConfig } from '../config/controller-config.ts';
import { startController } from '../fleet/controller.ts';
import { limitHeap } from '../server/memory.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import { openLog } from './output/log.ts';
import { exitCodes } from './output/output.ts';

/** The reader of the log may have stopped; that does not delay the end. */
const logGraceMs = 1_000;

/** `holdfast controller`: runs a replica of the controller until a signal ends it. */
export async function controllerCommand(config: ControllerConfig): Promise<number> {
  process.umask(0o077);
  limitHeap();
  const { flush, log } = openLog(config.logLevel);
  process.on('uncaughtExceptionMonitor', (error) =>
    log.fatal({ err: error }, 'this is a bug; the operations in progress are safe to repeat'),
  );
  const stopSignal = new Promise<NodeJS.Signals>((resolve) => {
    process.once('SIGTERM', resolve);
    process.once('SIGINT', resolve);
  });
  const view = config.viewAddress === undefined ? undefined : (await import('./fleet/view.ts')).show;
  const controller = await startController(config, log, view);
  // It is of no use if no node can link: the program that started it must see that.
  const failed = controller.port.then(
    () => new Promise<never>(() => undefined),
    (error: unknown) => ({ error }),
  );
  const end = await Promise.race([stopSignal, failed]);
  if (typeof end === 'string') log.info({ signal: end }, 'stopping');
  else log.fatal({ err: end.error }, 'nodes cannot link: the port for them cannot be opened');
  await controller.stop();
  await withTimeout(logGraceMs, flush());
  return typeof end === 'string' ? exitCodes.ok : exitCodes.failed;
}
