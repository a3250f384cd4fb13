import type { PoolStatus, Pools } from '../pool/pools.ts';
import type { Page } from './listener.ts';
import { OwnSocket, textPage } from './own-socket.ts';

export interface HealthOptions {
  /** The socket that callers use. */
  readonly socketPath: string;
  readonly pools: Pick<Pools, 'statuses'>;
  readonly isStopping: () => boolean;
}

/** The health of the driver. */
export class Health {
  readonly #options: HealthOptions;
  readonly #socket: OwnSocket;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#socket = new OwnSocket(options.socketPath);
  }

  /**
   * Answers if the driver responds on its socket; otherwise a restart may help. A broken pool or a missing program is
   * reported in the text, but no restart repairs it.
   */
  async alive(): Promise<Page> {
    // The socket is gone by then.
    if (this.#options.isStopping()) return textPage(200, 'The driver is stopping.');
    const answer = await this.#socket.ask();
    if (!answer.answered) {
      return textPage(503, `The driver does not answer at ${this.#options.socketPath}: ${answer.problem}`);
    }
    return textPage(200, answer.problem ?? 'The driver answers.');
  }

  /**
   * Answers if volumes can be served here: no pool is still being opened, and at least one is open. Of several pools
   * one may be broken or in quarantine: the others work, and the text lists all.
   */
  async ready(): Promise<Page> {
    if (this.#options.isStopping()) return textPage(503, 'The driver is stopping.');
    const answer = await this.#socket.ask();
    const pools = this.#options.pools.statuses();
    const lines = pools.map(describe);
    if (!answer.answered || answer.problem !== undefined) return textPage(503, answer.problem ?? '', ...lines);
    if (!answer.ready) return textPage(503, 'The driver is starting.', ...lines);
    return pools.some(({ state }) => state === 'open')
      ? textPage(200, 'The driver is ready.', ...lines)
      : textPage(503, 'No pool can be used.', ...lines);
  }
}

function describe({ name, reason, state }: PoolStatus): string {
  return `pool ${name}: ${reason === undefined ? state : `${state}: ${reason}`}`;
}
