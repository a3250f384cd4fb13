import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { z } from 'zod';
import type { Kubectl } from '../kubectl.ts';

const sliceList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ namespace: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
      endpoints: z.array(z.object({ addresses: z.array(z.string()) })).nullish(),
    }),
  ),
});

/** For so long it believes what it has heard of Kubernetes. */
const freshMs = 2000;
const [typeAddress, classInternet] = [1, 1];
const [noError, noSuchName] = [0, 3];

/** Knows the addresses of headless services (https://github.com/kubernetes/dns/blob/master/docs/specification.md). */
export class NameServer implements AsyncDisposable {
  readonly #kubectl: Kubectl;
  readonly #socket: Socket;
  readonly #others: ReadonlyMap<string, readonly string[]>;
  #services: Promise<ReadonlyMap<string, readonly string[]>> = Promise.resolve(new Map());
  #heardMs = Number.NEGATIVE_INFINITY;

  private constructor(kubectl: Kubectl, socket: Socket, others: Readonly<Record<string, string>>) {
    this.#kubectl = kubectl;
    this.#socket = socket;
    this.#others = new Map(Object.entries(others).map(([name, address]) => [name, [address]]));
  }

  /** @param others names outside of the cluster */
  static async start(
    kubectl: Kubectl,
    address: string,
    others: Readonly<Record<string, string>> = {},
  ): Promise<NameServer> {
    const socket = createSocket('udp4');
    const server = new NameServer(kubectl, socket, others);
    socket.on('message', (query, from) => {
      void server.#answer(query).then((answer) => socket.send(answer, from.port, from.address, () => undefined));
    });
    socket.bind(53, address);
    await once(socket, 'listening');
    socket.unref();
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await once(this.#socket, 'close');
  }

  async #answer(query: Buffer): Promise<Buffer> {
    const { end, name, type } = questionOf(query);
    const known = this.#others.get(name) ?? (await this.#look()).get(name);
    const addresses = type === typeAddress ? (known ?? []) : [];
    const header = Buffer.alloc(12);
    query.copy(header, 0, 0, 2);
    // An answer with authority, as recursion was asked for or not.
    header.writeUInt16BE(0x8580 | (known === undefined ? noSuchName : noError), 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(addresses.length, 6);
    return Buffer.concat([header, query.subarray(12, end), ...addresses.map(record)]);
  }

  /** The addresses of each service, by its name as it is asked for. */
  #look(): Promise<ReadonlyMap<string, readonly string[]>> {
    if (performance.now() - this.#heardMs > freshMs) {
      this.#heardMs = performance.now();
      // Without Kubernetes it goes on with what it knows.
      const before = this.#services;
      this.#services = this.#ask().catch(() => before);
    }
    return this.#services;
  }

  async #ask(): Promise<ReadonlyMap<string, readonly string[]>> {
    const { items } = sliceList.parse(
      JSON.parse(await this.#kubectl.run(['get', 'endpointslices', '-A', '-o', 'json'])),
    );
    const services = new Map<string, readonly string[]>();
    for (const { endpoints, metadata } of items) {
      const name = `${metadata.labels['kubernetes.io/service-name']}.${metadata.namespace}.svc.cluster.local`;
      services.set(name, [...(services.get(name) ?? []), ...(endpoints ?? []).flatMap(({ addresses }) => addresses)]);
    }
    return services;
  }
}

/** RFC 1035, 4.1.2: the first one, and where it ends. */
function questionOf(query: Buffer): { readonly name: string; readonly type: number; readonly end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** RFC 1035, 4.1.3: an address of the name that the question has, to be asked for again at once. */
function record(address: string): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(typeAddress, 2);
  head.writeUInt16BE(classInternet, 4);
  head.writeUInt32BE(0, 6);
  head.writeUInt16BE(4, 10);
  return Buffer.concat([head, Buffer.from(address.split('.').map(Number))]);
}
