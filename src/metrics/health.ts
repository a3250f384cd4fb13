import { probe } from '../csi/probe.ts';
import type { PoolStatus, Pools } from '../pool/pools.ts';
import type { Page } from './listener.ts';

export interface HealthOptions {
  /** The socket that callers use. */
  readonly socketPath: string;
  readonly pools: Pick<Pools, 'statuses'>;
  readonly isStopping: () => boolean;
}

/** Longer than a busy machine makes anybody wait; who asks should wait a little longer than this. */
const probeTimeoutMs = 4_000;

/** One connection for all who ask at the same moment. */
export class Health {
  readonly #options: HealthOptions;
  #asking: ReturnType<typeof probe> | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  /**
   * Whether a restart could do any good: the driver must answer on its own socket. A pool that is broken, or a program
   * that is missing, is told in the text, but no restart mends it.
   */
  async alive(): Promise<Page> {
    // Its socket is gone by then.
    if (this.#options.isStopping()) return page(200, 'The driver is stopping.');
    const answer = await this.#ask();
    if (!answer.answered) {
      return page(503, `The driver does not answer at ${this.#options.socketPath}: ${answer.problem}`);
    }
    return page(200, answer.problem ?? 'The driver answers.');
  }

  /**
   * Whether volumes can be had here: no pool is still being opened, and at least one is open. Of several pools one may be
   * broken or in quarantine: the others work, and the text tells of all.
   */
  async ready(): Promise<Page> {
    if (this.#options.isStopping()) return page(503, 'The driver is stopping.');
    const answer = await this.#ask();
    const pools = this.#options.pools.statuses();
    const lines = pools.map(describe);
    if (!answer.answered || answer.problem !== undefined) return page(503, answer.problem ?? '', ...lines);
    if (!answer.ready) return page(503, 'The driver is starting.', ...lines);
    return pools.some(({ state }) => state === 'open')
      ? page(200, 'The driver is ready.', ...lines)
      : page(503, 'No pool can be used.', ...lines);
  }

  #ask(): ReturnType<typeof probe> {
    this.#asking ??= probe(this.#options.socketPath, probeTimeoutMs).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }
}

function describe({ name, reason, state }: PoolStatus): string {
  return `pool ${name}: ${reason === undefined ? state : `${state}: ${reason}`}`;
}

function page(status: Page['status'], ...lines: readonly string[]): Page {
  return { status, contentType: 'text/plain; charset=utf-8', body: lines.map((line) => `${line}\n`).join('') };
}
