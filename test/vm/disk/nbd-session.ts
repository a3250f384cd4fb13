import type { Socket } from 'node:net';
import {
  commands,
  decodeOption,
  decodeRequest,
  encodeExport,
  encodeGreeting,
  encodeOptionReply,
  encodeReply,
  type NbdRequest,
  optionHeadBytes,
  optionReplies,
  options,
  requestHeadBytes,
} from './nbd.ts';

/** Does what is asked. @returns the bytes read, or the number of an error */
type CarryOut = (request: NbdRequest, data: Buffer) => Buffer | number;

const clientFlagsBytes = 4;

/** One client of a disk. */
export class NbdSession {
  readonly #sizeBytes: number;
  readonly #socket: Socket;
  readonly #carryOut: CarryOut;
  /** What was heard and not yet dealt with. */
  #chunks: Buffer[] = [];
  #bytes = 0;
  #state: 'greeted' | 'negotiating' | 'transmitting' = 'greeted';

  constructor(sizeBytes: number, socket: Socket, carryOut: CarryOut) {
    this.#sizeBytes = sizeBytes;
    this.#socket = socket;
    this.#carryOut = carryOut;
    socket.write(encodeGreeting());
  }

  read(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    while (!this.#socket.destroyed && this.#step());
  }

  /** Deals with the next thing that the client says, if all of it is here. */
  #step(): boolean {
    switch (this.#state) {
      case 'greeted':
        if (this.#peek(clientFlagsBytes) === undefined) return false;
        this.#take(clientFlagsBytes);
        this.#state = 'negotiating';
        return true;
      case 'negotiating':
        return this.#negotiate();
      case 'transmitting':
        return this.#transmit();
    }
  }

  #negotiate(): boolean {
    const head = this.#peek(optionHeadBytes);
    if (head === undefined) return false;
    const { option, lengthBytes } = decodeOption(head);
    if (this.#peek(optionHeadBytes + lengthBytes) === undefined) return false;
    this.#take(optionHeadBytes + lengthBytes);
    if (option === options.go || option === options.info) {
      this.#socket.write(encodeOptionReply(option, optionReplies.info, encodeExport(this.#sizeBytes)));
      this.#socket.write(encodeOptionReply(option, optionReplies.acknowledged));
      if (option === options.go) this.#state = 'transmitting';
    } else if (option === options.abort) {
      this.#socket.end(encodeOptionReply(option, optionReplies.acknowledged));
    } else {
      this.#socket.write(encodeOptionReply(option, optionReplies.unsupported));
    }
    return true;
  }

  #transmit(): boolean {
    const head = this.#peek(requestHeadBytes);
    if (head === undefined) return false;
    const request = decodeRequest(head);
    const dataBytes = request.command === commands.write ? request.lengthBytes : 0;
    if (this.#bytes < requestHeadBytes + dataBytes) return false;
    const data = this.#take(requestHeadBytes + dataBytes).subarray(requestHeadBytes);
    if (request.command === commands.disconnect) {
      this.#socket.end();
      return false;
    }
    const answer = this.#carryOut(request, data);
    this.#socket.write(encodeReply(request.cookie, typeof answer === 'number' ? answer : 0));
    if (typeof answer !== 'number') this.#socket.write(answer);
    return true;
  }

  #peek(lengthBytes: number): Buffer | undefined {
    return this.#bytes < lengthBytes ? undefined : this.#joined().subarray(0, lengthBytes);
  }

  #take(lengthBytes: number): Buffer {
    const joined = this.#joined();
    this.#chunks = [joined.subarray(lengthBytes)];
    this.#bytes -= lengthBytes;
    return joined.subarray(0, lengthBytes);
  }

  #joined(): Buffer {
    const joined = this.#chunks.length === 1 ? this.#chunks[0] : undefined;
    if (joined !== undefined) return joined;
    const whole = Buffer.concat(this.#chunks);
    this.#chunks = [whole];
    return whole;
  }
}
