import { DiskQueue, SharedPlaces } from '../../kernel/call/disk-queue.ts';
import { Unavailable } from '../../volume/errors.ts';
import { Freezer } from '../freeze/freezer.ts';
import type { PoolLog } from '../log.ts';
import { fateOf, type NodeKind, type NodeSide, type VolumeOnNode } from '../node-side.ts';

/** A server that this node uses, or the part of it that shares a fate. */
export interface Server {
  readonly side: NodeSide;
  readonly queue: DiskQueue;
  /** For mounted filesystems on devices of this server. */
  readonly freezer: Freezer;
}

export interface ServerOptions {
  readonly dataDirectory: string;
  readonly log: PoolLog;
  /** Worker threads that one server can have. */
  readonly threadsEach: number;
  /** Worker threads of all servers. */
  readonly threads: number;
  /** A call that has waited this long for its server is given up. */
  readonly silentAfterMs?: number;
  /** Without a call for this long, the queue of a server is closed. */
  readonly idleAfterMs?: number;
  /** The pause between two looks at the calls. */
  readonly tickMs?: number;
}

export interface ServerUse {
  /** To end the use of a volume. Calls that hang may wait for just that, so they do not hinder it. */
  readonly isLeaving?: boolean;
}

interface Entry {
  readonly name: string;
  readonly queue: DiskQueue;
  readonly freezer: Freezer;
  readonly opening: Promise<NodeSide>;
  /** By `performance.now()`. */
  usedMs: number;
}

/** In the names of notes on freezes, in the place of a pool's name: no pool has such a name. */
const freezerName = '@servers';

/** The limit of closed queues of a server that did not answer: after that it gets no threads any more. */
const maxLostQueues = 2;

/** Share of all threads that only servers with no call under way get. */
const keptShare = 1 / 4;

/**
 * The servers whose volumes this node uses. Each has a queue: one that hangs delays only its own volumes. Its calls are
 * given up after a time, since no other call for their volumes could run before; the threads that wait in the kernel
 * stay lost until the server answers, so each server can lose only a few, and all servers together only theirs.
 */
export class Servers {
  readonly #options: ServerOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #lost = new Map<string, DiskQueue[]>();
  readonly #places: SharedPlaces;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#places = new SharedPlaces(options.threads, Math.floor(options.threads * keptShare));
    this.#timer = setInterval(() => this.#look(), options.tickMs ?? 5_000).unref();
  }

  /**
   * @throws Unavailable if too many calls to it hang
   */
  async get(kind: NodeKind, volume: VolumeOnNode, { isLeaving = false }: ServerUse = {}): Promise<Server> {
    const usual = keyOf(kind, volume);
    const isRefused = !this.#entries.has(usual) && this.#lostOf(usual) >= maxLostQueues;
    const key = isLeaving && isRefused ? leavingKeyOf(usual) : usual;
    const entry = this.#entries.get(key) ?? this.#open(key, kind, kind.serverOf(volume));
    entry.usedMs = performance.now();
    try {
      return { side: await entry.opening, queue: entry.queue, freezer: entry.freezer };
    } catch (error) {
      // Tried again with the next call.
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
      throw error;
    }
  }

  #open(key: string, kind: NodeKind, server: string): Entry {
    const { dataDirectory, log, threadsEach } = this.#options;
    const name = `${kind.name} ${server}`;
    if (this.#lostOf(key) >= maxLostQueues) throw silentServer(name, this.#silentAfterMs);
    const queue = new DiskQueue(name, threadsEach, this.#places);
    const freezer = new Freezer({ dataDirectory, queue, log, name: freezerName });
    const opening = kind.open({ server, dataDirectory, queue, log });
    const entry = { name, queue, freezer, opening, usedMs: performance.now() };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Queues of a server that did not answer. Threads that wait in the kernel come back when it does. */
  #lostOf(key: string): number {
    const lost = (this.#lost.get(key) ?? []).filter(({ isIdle }) => !isIdle);
    if (lost.length === 0) this.#lost.delete(key);
    else this.#lost.set(key, lost);
    return lost.length;
  }

  /** No volume of this node shares the fate of this one any more. */
  forget(kind: NodeKind, last: VolumeOnNode): void {
    const key = keyOf(kind, last);
    for (const each of [key, leavingKeyOf(key)]) this.#entries.delete(each);
  }

  /** The queues that there are now. */
  get queues(): readonly DiskQueue[] {
    return [...this.#entries.values()].map(({ queue }) => queue);
  }

  /** Connections and mounts stay: volumes in use stay in use. */
  stop(): void {
    clearInterval(this.#timer);
  }

  get #silentAfterMs(): number {
    return this.#options.silentAfterMs ?? 60_000;
  }

  #look(): void {
    const now = performance.now();
    for (const [key, entry] of this.#entries) {
      const { queue, usedMs } = entry;
      const busySinceMs = queue.anyBusySinceMs ?? queue.starvedSinceMs;
      if (busySinceMs !== undefined && now - busySinceMs >= this.#silentAfterMs) this.#giveUp(key, entry);
      // A volume whose stage failed has left it.
      else if (queue.isIdle && now - usedMs >= (this.#options.idleAfterMs ?? 600_000)) this.#entries.delete(key);
    }
  }

  #giveUp(key: string, { name, queue }: Entry): void {
    const isStarved = queue.anyBusySinceMs === undefined;
    const seconds = this.#silentAfterMs / 1000;
    this.#entries.delete(key);
    if (isStarved) {
      queue.close(new Unavailable(`calls for ${name} wait until one of the other servers of this node answers.`));
      return;
    }
    this.#lost.set(key, [...(this.#lost.get(key) ?? []), queue]);
    this.#options.log.warn({ server: name }, 'a server does not answer: giving up the calls that wait for it');
    queue.close(new Unavailable(`${name} has not answered for ${seconds} s; try again.`));
  }
}

function keyOf(kind: NodeKind, volume: VolumeOnNode): string {
  return `${kind.name} ${fateOf(kind, volume)}`;
}

/** Beside the usual queue; as few of these can be lost. */
function leavingKeyOf(key: string): string {
  return `${key}\0leaving`;
}

function silentServer(name: string, silentAfterMs: number): Unavailable {
  return new Unavailable(
    `${name} has not answered several calls for ${silentAfterMs / 1000} s each: calls for its volumes wait until it does.`,
  );
}
