import * as grpc from '@grpc/grpc-js';
import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Pipe } from './pipe.ts';

/** The :path of gRPC. */
export const linkMethod = '/holdfast.fleet.v1.Fleet/Link';

/** The largest message of a link: a page of a list, or a part of an inventory. */
export const longestMessageBytes = 8 * 1024 * 1024;

const fromNode = contract.lookupType('holdfast.fleet.v1.FromNode');
const fromController = contract.lookupType('holdfast.fleet.v1.FromController');

type Named = Parameters<typeof decode>[0];

/** The interface that a node's end and a controller's end share. */
interface ByteStream {
  write(bytes: Buffer): boolean;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'end' | 'cancelled' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

class BytePipe<Out extends object, In> implements Pipe<Out, In> {
  readonly #stream: ByteStream;
  readonly #types: { readonly out: Named; readonly in: Named };
  readonly #cut: (reason: string) => void;
  readonly #endListeners: ((reason: string) => void)[] = [];
  #reason: string | undefined;

  constructor(stream: ByteStream, types: { readonly out: Named; readonly in: Named }, cut: (reason: string) => void) {
    this.#stream = stream;
    this.#types = types;
    this.#cut = cut;
    stream.on('error', (error) => this.#ended(error instanceof Error ? error.message : 'the connection failed'));
    stream.on('cancelled', () => this.#ended('the connection was lost'));
    stream.on('end', () => this.#ended('the other side ended it'));
    stream.on('close', () => this.#ended('the connection was lost'));
  }

  send(message: Out): void {
    if (this.#reason === undefined) this.#stream.write(encode(this.#types.out, message));
  }

  /** Nothing is read before this call: a stranger must not send anything yet. */
  onMessage(listener: (message: In) => void): void {
    this.#stream.on('data', (bytes) => this.#receive(bytes, listener));
  }

  onEnd(listener: (reason: string) => void): void {
    if (this.#reason === undefined) this.#endListeners.push(listener);
    else listener(this.#reason);
  }

  end(reason: string): void {
    if (this.#reason !== undefined) return;
    // First, as cutting is also reported here, with another reason.
    this.#ended(reason);
    this.#cut(reason);
  }

  #receive(bytes: Buffer, listener: (message: In) => void): void {
    if (this.#reason !== undefined) return;
    let message: In;
    try {
      message = decode<In>(this.#types.in, bytes);
    } catch {
      this.end('received an invalid message');
      return;
    }
    listener(message);
  }

  #ended(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    for (const listener of this.#endListeners) listener(reason);
  }
}

export type NodeStream = grpc.ClientDuplexStream<Buffer, Buffer>;
export type ControllerStream = grpc.ServerDuplexStream<Buffer, Buffer>;

export function nodePipe(stream: NodeStream): Pipe<Draft<wire.FromNode>, wire.FromController> {
  return new BytePipe<Draft<wire.FromNode>, wire.FromController>(stream, { out: fromNode, in: fromController }, () =>
    stream.cancel(),
  );
}

export function controllerPipe(stream: ControllerStream): Pipe<Draft<wire.FromController>, wire.FromNode> {
  return new BytePipe<Draft<wire.FromController>, wire.FromNode>(
    stream,
    { out: fromController, in: fromNode },
    (reason) => stream.emit('error', { code: grpc.status.ABORTED, details: reason.slice(0, 200) }),
  );
}
