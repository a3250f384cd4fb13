import type { PoolStatus, Pools } from '../pool/pools.ts';
import type { Page } from './listener.ts';
import { OwnSocket, textPage } from './own-socket.ts';

export interface HealthOptions {
  /** The socket that callers use. */
  readonly socketPath: string;
  readonly pools: Pick<Pools, 'statuses'>;
  readonly isStopping: () => boolean;
}

/** Whether the driver works. */
export class Health {
  readonly #options: HealthOptions;
  readonly #socket: OwnSocket;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#socket = new OwnSocket(options.socketPath);
  }

  /**
   * Whether a restart could do any good: the driver must answer on its own socket. A pool that is broken, or a program
   * that is missing, is told in the text, but no restart mends it.
   */
  async alive(): Promise<Page> {
    // Its socket is gone by then.
    if (this.#options.isStopping()) return textPage(200, 'The driver is stopping.');
    const answer = await this.#socket.ask();
    if (!answer.answered) {
      return textPage(503, `The driver does not answer at ${this.#options.socketPath}: ${answer.problem}`);
    }
    return textPage(200, answer.problem ?? 'The driver answers.');
  }

  /**
   * Whether volumes can be had here: no pool is still being opened, and at least one is open. Of several pools one may be
   * broken or in quarantine: the others work, and the text tells of all.
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
