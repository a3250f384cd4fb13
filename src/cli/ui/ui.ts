import type { Config } from '../../config/config.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { explain } from '../../kernel/call/explain.ts';
import { Unavailable } from '../../volume/errors.ts';
import { exitCodes, type Output } from '../output/output.ts';
import { NodeServer } from './node-server.ts';

/** `holdfast ui`: the page of this node in a browser, until a signal ends it. */
export async function uiCommand(config: Config, output: Output, { port }: { port: number }): Promise<number> {
  const stopped = new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
  let isFirst = true;
  const server = new NodeServer({
    config,
    port,
    onAddress(address) {
      if (isFirst) output.line('Open this in a browser on this machine. It works once; Ctrl-C ends the page:');
      else output.line('The page is open. To open it once more:');
      output.line(address);
      isFirst = false;
    },
  });
  try {
    await server.listen();
  } catch (error) {
    if (!isErrno(error, 'EADDRINUSE', 'EACCES')) throw error;
    throw new Unavailable(
      `port ${port} of this machine cannot be used (${explain(error)}): choose another with --port.`,
    );
  }
  await stopped;
  await server.close();
  return exitCodes.ok;
}
