import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { Unavailable } from '../../volume/errors.ts';
import { Freezer } from '../freeze/freezer.ts';
import type { PoolLog } from '../log.ts';
import type { NodeKind, NodeSide, VolumeOnNode } from '../node-side.ts';

/** A server that this node uses. */
export interface Server {
  readonly side: NodeSide;
  readonly queue: DiskQueue;
  /** For mounted filesystems on devices of this server. */
  readonly freezer: Freezer;
}

export interface ServerOptions {
  readonly dataDirectory: string;
  readonly log: PoolLog;
  /** Worker threads for one server. */
  readonly threadsEach: number;
  /** Servers with separate threads; all others share those of one. */
  readonly maxServers: number;
  /** A call that has waited this long for its server is given up. */
  readonly silentAfterMs?: number;
  /** The pause between two looks at the calls. */
  readonly tickMs?: number;
}

interface Entry {
  readonly queue: DiskQueue;
  readonly freezer: Freezer;
  readonly opening: Promise<NodeSide>;
}

/** In the names of notes on freezes, in the place of a pool's name: no pool has such a name. */
const freezerName = '@servers';

/** The limit of closed queues of a server that did not answer: after that it gets no threads any more. */
const maxLostQueues = 2;

/**
 * The servers whose volumes this node uses. Each has a queue: one that hangs delays only its own volumes. Its calls are
 * given up after a time, since no other call for their volumes could run before; the threads that wait in the kernel
 * stay lost until the server answers, so each server can lose only a few.
 */
export class Servers {
  readonly #options: ServerOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #lost = new Map<string, DiskQueue[]>();
  readonly #shared: DiskQueue;
  readonly #sharedFreezer: Freezer;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#shared = new DiskQueue('other servers', options.threadsEach);
    this.#sharedFreezer = this.#freezerOf(this.#shared);
    this.#timer = setInterval(() => this.#giveUp(), options.tickMs ?? 5_000).unref();
  }

  /** @throws Unavailable if too many calls to it hang */
  async get(kind: NodeKind, server: string): Promise<Server> {
    const key = `${kind.name} ${server}`;
    const entry = this.#entries.get(key) ?? this.#open(key, kind, server);
    try {
      return { side: await entry.opening, queue: entry.queue, freezer: entry.freezer };
    } catch (error) {
      // Tried again with the next call.
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
      throw error;
    }
  }

  #open(key: string, kind: NodeKind, server: string): Entry {
    const { dataDirectory, log, maxServers, threadsEach } = this.#options;
    // Threads that wait in the kernel come back when the server answers.
    const lost = (this.#lost.get(key) ?? []).filter(({ isIdle }) => !isIdle);
    this.#lost.set(key, lost);
    if (lost.length >= maxLostQueues) throw silentServer(kind, server, this.#silentAfterMs);
    const queue = this.#entries.size < maxServers ? new DiskQueue(key, threadsEach) : this.#shared;
    const freezer = queue === this.#shared ? this.#sharedFreezer : this.#freezerOf(queue);
    const entry = { queue, freezer, opening: kind.open({ server, dataDirectory, queue, log }) };
    this.#entries.set(key, entry);
    return entry;
  }

  #freezerOf(queue: DiskQueue): Freezer {
    const { dataDirectory, log } = this.#options;
    return new Freezer({ dataDirectory, queue, log, name: freezerName });
  }

  /** Nothing of the server is used on this node any more. */
  forget(kind: NodeKind, last: VolumeOnNode): void {
    this.#entries.delete(`${kind.name} ${kind.serverOf(last)}`);
  }

  /** Connections and mounts stay: volumes in use stay in use. */
  stop(): void {
    clearInterval(this.#timer);
  }

  get #silentAfterMs(): number {
    return this.#options.silentAfterMs ?? 60_000;
  }

  #giveUp(): void {
    const now = performance.now();
    for (const [key, { queue }] of this.#entries) {
      const sinceMs = queue.anyBusySinceMs;
      if (queue === this.#shared || sinceMs === undefined || now - sinceMs < this.#silentAfterMs) continue;
      this.#entries.delete(key);
      this.#lost.set(key, [...(this.#lost.get(key) ?? []), queue]);
      this.#options.log.warn({ server: key }, 'a server does not answer: giving up the calls that wait for it');
      queue.close(new Unavailable(`${key} has not answered for ${this.#silentAfterMs / 1000} s; try again.`));
    }
  }
}

function silentServer({ name }: NodeKind, server: string, silentAfterMs: number): Unavailable {
  return new Unavailable(
    `${name} ${server} has not answered several calls for ${silentAfterMs / 1000} s each: calls for its volumes wait until it does.`,
  );
}
