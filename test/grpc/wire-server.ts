import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import { addServices, type ServiceHandlers } from '../../src/csi/call.ts';
import { type Listener, listen, newServer } from '../../src/csi/listener.ts';
import { CallError, connectDriver, type DriverClient } from '../support/client.ts';
import { Scratch } from '../support/scratch.ts';

/** A line of the log, as the driver's operator gets it. */
export interface LogLine {
  readonly level: number;
  readonly rpc?: string;
  readonly code?: string;
  readonly [field: string]: unknown;
}

export interface WireServerOptions {
  readonly level?: string;
  readonly ready?: () => boolean;
  readonly stopping?: AbortSignal;
}

/** The five services over handlers that a test brings, on a socket: the wire without a driver behind it. */
export class WireServer implements AsyncDisposable {
  readonly socketPath: string;
  readonly client: DriverClient;
  readonly log: readonly LogLine[];
  readonly #scratch: Scratch;
  readonly #listener: Listener;

  private constructor(scratch: Scratch, socketPath: string, listener: Listener, log: readonly LogLine[]) {
    this.#scratch = scratch;
    this.socketPath = socketPath;
    this.#listener = listener;
    this.client = connectDriver(socketPath);
    this.log = log;
  }

  static async start(handlers: Partial<ServiceHandlers> = {}, options: WireServerOptions = {}): Promise<WireServer> {
    const log: LogLine[] = [];
    const destination = { write: (line: string) => log.push(JSON.parse(line)) };
    const logger = pino({ level: options.level ?? 'info' }, destination);
    const identity = { Probe: async () => ({ ready: { value: true } }), ...handlers.identity };
    const server = newServer();
    addServices(server, { ...handlers, identity }, { log: logger, ...options });
    const scratch = new Scratch('wire');
    const socketPath = scratch.join('csi.sock');
    return new WireServer(scratch, socketPath, await listen(server, socketPath), log);
  }

  /** The lines of calls that have ended. */
  get callLines(): LogLine[] {
    return this.log.filter((line) => line.code !== undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    this.client.close();
    await this.#listener.close(5_000);
  }
}

/** Longer than anything here takes: a test that waits in vain fails instead of hanging. */
const patienceMs = 60_000;

/** Waits until something is so that nobody will report. */
export async function until(condition: () => boolean): Promise<void> {
  const giveUpMs = performance.now() + patienceMs;
  while (!condition()) {
    if (performance.now() > giveUpMs) throw new Error(`still not so after ${patienceMs} ms: ${condition}`);
    await nextTurn();
  }
}

/** How a call ended that should not have succeeded. */
export async function failureOf(call: Promise<unknown>): Promise<CallError> {
  const error = await call.then(
    () => assert.fail('the call succeeded'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CallError, String(error));
  return error;
}
