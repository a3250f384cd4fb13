import pino, { type DestinationStream, type Logger } from 'pino';
import type { LogLevel } from '../../config/config.ts';

/** Lines of this time are written together: each write is a trip to a worker thread. */
const gatherMs = 20;

/** A log, and the way to have all of it written. */
export interface Log {
  readonly log: Logger;
  /** Resolves when all is written. Never rejects, and does not resolve if the reader has stopped. */
  flush(): Promise<void>;
}

/** The driver's log: JSON lines on standard output (O04). The code that logs never waits for the reader. */
export function openLog(level: LogLevel): Log {
  const output = pino.destination({ dest: 1, sync: false });
  let gathered = '';
  const write = () => {
    output.write(gathered);
    gathered = '';
  };
  const destination: DestinationStream & { readonly flushSync: () => void } = {
    write(line) {
      if (gathered === '') setTimeout(write, gatherMs);
      gathered += line;
    },
    // pino calls it after a fatal line.
    flushSync() {
      write();
      output.flushSync();
    },
  };
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return {
    log: pino(options, destination),
    flush: () =>
      new Promise((resolve) => {
        output.once('drain', () => resolve());
        write();
      }),
  };
}
