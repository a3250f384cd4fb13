import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import { pause } from '../../volume/flow/pause.ts';
import { linkMethod, longestMessageBytes, nodePipe } from '../link/grpc-pipe.ts';
import { serverName } from '../tls/material.ts';
import { NodeLink, type NodeLinkOptions } from './node-link.ts';

export interface DialerOptions {
  /** `host:port`, or several with commas: each address of each host is a replica. */
  readonly controllers: readonly { readonly host: string; readonly port: number }[];
  readonly authorityPath: string;
  readonly tokenPath: string;
  readonly nodeId: string;
  readonly driverName: string;
  readonly driverVersion: string;
  readonly link: Omit<NodeLinkOptions, 'hello'>;
}

/** Interval of the checks for new replicas, and for a new token. */
const lookMs = 10_000;
const shortestPauseMs = 250;
const longestPauseMs = 15_000;

/** The end of a link. */
interface Ended {
  readonly reason: string;
  readonly wasWelcome: boolean;
  /** The instance of the replica, if it has sent it. */
  readonly replica: string;
}

/** Keeps one link to each replica of the controller. */
export class Dialer {
  readonly #options: DialerOptions;
  readonly #instance = randomBytes(8).toString('hex');
  readonly #replicas = new Map<string, Promise<void>>();
  readonly #wanted = new Set<string>();
  readonly #links = new Set<NodeLink>();
  readonly #stopping = new AbortController();
  #token = '';
  #unknown: ReadonlySet<string> = new Set();

  constructor(options: DialerOptions) {
    this.#options = options;
  }

  /** Resolves after `stop`. */
  async run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#findReplicas();
      await this.#renewToken();
      await pause(lookMs, signal);
    }
    await Promise.all(this.#replicas.values());
  }

  /** Reports changes, if there are any. */
  async look(): Promise<void> {
    await Promise.all(Array.from(this.#links, (link) => link.look()));
  }

  get isLinked(): boolean {
    return [...this.#links].some((link) => link.isWelcome);
  }

  /** Reports how far moves have come. */
  tellMoves(): void {
    for (const link of this.#links) link.tellMoves();
  }

  /** Asks the controllers to send no new calls. */
  leave(): void {
    for (const link of this.#links) link.leave();
  }

  stop(): void {
    this.#stopping.abort();
    for (const link of this.#links) link.end('the driver has stopped');
  }

  async #findReplicas(): Promise<void> {
    const found = new Set<string>();
    const unknown = new Set<string>();
    for (const { host, port } of this.#options.controllers) {
      const addresses = isIP(host) === 0 ? await addressesOf(host) : [host];
      if (addresses.length === 0) unknown.add(host);
      for (const address of addresses) found.add(isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`);
    }
    for (const host of unknown) {
      if (!this.#unknown.has(host)) this.#options.link.log.warn({ host }, 'cannot resolve the address of a controller');
    }
    this.#unknown = unknown;
    // Keeps the addresses of a name that cannot be resolved now.
    if (unknown.size === 0) this.#wanted.clear();
    for (const address of found) {
      this.#wanted.add(address);
      if (!this.#replicas.has(address)) this.#replicas.set(address, this.#keep(address));
    }
  }

  /** Dials again and again, while the address belongs to a replica. */
  async #keep(address: string): Promise<void> {
    const { log } = this.#options.link;
    const { signal } = this.#stopping;
    let pauseMs = shortestPauseMs;
    let told = '';
    while (!signal.aborted && this.#wanted.has(address)) {
      const { reason, replica, wasWelcome } = await this.#link(address);
      if (signal.aborted) break;
      if (reason !== told || wasWelcome) log.warn({ controller: address, reason }, 'no link to the controller');
      told = reason;
      // The replica is linked by another of its addresses. When that link ends, this address may be the better one.
      while (!signal.aborted && this.#wanted.has(address) && this.#isLinkedTo(replica)) await pause(lookMs, signal);
      pauseMs = wasWelcome ? shortestPauseMs : Math.min(pauseMs * 2, longestPauseMs);
      // A thousand nodes lose their links together when a replica stops, and must not come back together.
      await pause(pauseMs * (0.5 + Math.random()), signal);
    }
    this.#replicas.delete(address);
  }

  #isLinkedTo(replica: string): boolean {
    return replica !== '' && [...this.#links].some((link) => link.isWelcome && link.replica === replica);
  }

  /** Runs one link, to its end. */
  async #link(address: string): Promise<Ended> {
    const { authorityPath, driverName, driverVersion, link: options, nodeId, tokenPath } = this.#options;
    let authority: Buffer;
    let token: string;
    try {
      // Both files are read each time, as they are renewed.
      authority = await readFile(authorityPath);
      token = (await readFile(tokenPath, 'utf8')).trim();
    } catch (error) {
      return { reason: error instanceof Error ? error.message : 'unknown', wasWelcome: false, replica: '' };
    }
    const metadata = new grpc.Metadata();
    try {
      metadata.set('authorization', `Bearer ${token}`);
    } catch {
      return { reason: `${tokenPath} has no token in it`, wasWelcome: false, replica: '' };
    }
    this.#token = token;
    const client = new grpc.Client(address, grpc.credentials.createSsl(authority), {
      'grpc.ssl_target_name_override': serverName,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_channelz': 0,
      'grpc.enable_retries': 0,
      'grpc.max_receive_message_length': longestMessageBytes,
      'grpc.max_send_message_length': longestMessageBytes,
    });
    const bytes = (value: Buffer) => value;
    try {
      const stream = client.makeBidiStreamRequest(linkMethod, bytes, bytes, metadata);
      const pipe = nodePipe(stream);
      const ended = new Promise<string>((resolve) => pipe.onEnd(resolve));
      const hello = {
        node_id: nodeId,
        driver_name: driverName,
        driver_version: driverVersion,
        instance: this.#instance,
        linked_to: [...this.#links]
          .filter(({ isWelcome }) => isWelcome)
          .map(({ replica }) => replica)
          .filter((replica) => replica !== ''),
      };
      const link = new NodeLink(pipe, { ...options, hello });
      this.#links.add(link);
      const reason = await ended;
      this.#links.delete(link);
      return { reason, wasWelcome: link.isWelcome, replica: link.replica };
    } finally {
      client.close();
    }
  }

  /** The kubelet writes a new one long before the old one expires. */
  async #renewToken(): Promise<void> {
    const token = (await readFile(this.#options.tokenPath, 'utf8').catch(() => '')).trim();
    if (token === '' || token === this.#token || this.#token === '') return;
    this.#token = token;
    for (const link of this.#links) if (link.isWelcome) link.renew(token);
  }
}

/** Resolves a headless Service, which has an address for each replica. */
async function addressesOf(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.map(({ address }) => address);
}
