import { closeSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import type { SeededRandom } from '../../crash/seeded-random.ts';
import type { Scratch } from '../../support/scratch.ts';
import { commands, type NbdRequest } from './nbd.ts';
import { NbdSession } from './nbd-session.ts';

const sectorBytes = 512;
/** A disk's cache is not without bounds: what is over goes to the platters, the oldest first. */
const cacheSectors = (64 << 20) / sectorBytes;
const inputOutputError = 5;

/** A sector that the disk has taken, but that is not yet where it stays. */
interface CachedSector {
  readonly data: Buffer;
  /** The same for all sectors of one write. */
  readonly write: number;
}

export interface DiskOptions {
  readonly name: string;
  readonly sizeBytes: number;
  /** `scsi` for a disk that is pulled and put back. */
  readonly bus?: 'virtio' | 'scsi';
  /** Its name unless it says another; only one on scsi has it. */
  readonly serial?: string;
  /** What it writes as a whole, or not at all; a sector unless it says more. */
  readonly atomicBytes?: number;
  /** What the machine takes for its sectors; only one on scsi has others than 512. */
  readonly sectorBytes?: 512 | 4096;
}

/** What became of the cache when the power went. */
export interface Loss {
  readonly lostSectors: number;
  readonly keptSectors: number;
}

/**
 * A disk with a volatile write cache, served to a virtual machine. What was written but not flushed is, when the power
 * goes, lost or not, in no order: as on a disk that writes back as it likes.
 */
export class VolatileDisk implements Disposable {
  readonly name: string;
  readonly sizeBytes: number;
  readonly bus: 'virtio' | 'scsi';
  readonly serial: string;
  readonly sectorBytes: number;
  readonly socketPath: string;
  /** A disk that lies: it says that it has flushed, and has not. Tests that pass on one show nothing. */
  ignoresFlushes = false;
  readonly #file: number;
  readonly #atomicSectors: number;
  readonly #cache = new Map<number, CachedSector>();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #writes = 0;

  constructor(
    scratch: Scratch,
    {
      atomicBytes = sectorBytes,
      bus = 'virtio',
      name,
      sectorBytes: shown = sectorBytes,
      serial = name,
      sizeBytes,
    }: DiskOptions,
  ) {
    this.name = name;
    this.serial = serial;
    this.sectorBytes = shown;
    this.#atomicSectors = atomicBytes / sectorBytes;
    this.sizeBytes = sizeBytes;
    this.bus = bus;
    this.socketPath = scratch.join(`${name}.nbd`);
    this.#file = openSync(scratch.join(`${name}.disk`), 'w+');
    ftruncateSync(this.#file, sizeBytes);
    this.#server = createServer((socket) => this.#serve(socket)).listen(this.socketPath);
  }

  /** How many writes it was asked for. */
  get writes(): number {
    return this.#writes;
  }

  /** Cuts the power of the disk alone, in the worst way: nothing that was not flushed until now survives. */
  loseAll(): Loss {
    for (const socket of this.#sockets) socket.destroy();
    const lostSectors = this.#cache.size;
    this.#cache.clear();
    return { lostSectors, keptSectors: 0 };
  }

  /** Cuts the power: each write, or each sector, that was not flushed survives or does not. */
  losePower(random: SeededRandom): Loss {
    for (const socket of this.#sockets) socket.destroy();
    const survival = random.pick([0, 0, 0.2, 0.5, 0.9]);
    const bySector = random.chance(0.5);
    const fates = new Map<number, boolean>();
    let keptSectors = 0;
    for (const [sector, { data, write }] of this.#cache) {
      const unit = bySector ? Math.floor(sector / this.#atomicSectors) : write;
      const fate = fates.get(unit) ?? random.chance(survival);
      fates.set(unit, fate);
      if (!fate) continue;
      keptSectors++;
      writeSync(this.#file, data, 0, sectorBytes, sector * sectorBytes);
    }
    const lostSectors = this.#cache.size - keptSectors;
    this.#cache.clear();
    return { lostSectors, keptSectors };
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    closeSync(this.#file);
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('error', () => undefined);
    const session = new NbdSession(this.sizeBytes, socket, (request, data) => this.#carryOut(request, data));
    socket.on('data', (chunk: Buffer) => session.read(chunk));
  }

  /** @returns the bytes read, or the number of an error */
  #carryOut(request: NbdRequest, data: Buffer): Buffer | number {
    const { command, isForced, lengthBytes, offsetBytes } = request;
    switch (command) {
      case commands.read:
        return this.#read(offsetBytes, lengthBytes);
      case commands.write:
        this.#write(offsetBytes, data, isForced);
        return 0;
      case commands.writeZeroes:
        this.#write(offsetBytes, Buffer.alloc(lengthBytes), isForced);
        return 0;
      case commands.flush:
        if (!this.ignoresFlushes) this.#destage(this.#cache.size);
        return 0;
      default:
        return inputOutputError;
    }
  }

  #read(offsetBytes: number, lengthBytes: number): Buffer {
    const bytes = Buffer.alloc(lengthBytes);
    readSync(this.#file, bytes, 0, lengthBytes, offsetBytes);
    if (this.#cache.size === 0) return bytes;
    for (let at = 0; at < lengthBytes; at += sectorBytes) {
      this.#cache.get((offsetBytes + at) / sectorBytes)?.data.copy(bytes, at);
    }
    return bytes;
  }

  #write(offsetBytes: number, data: Buffer, isForced: boolean): void {
    const isDurable = isForced && !this.ignoresFlushes;
    if (isDurable) writeSync(this.#file, data, 0, data.length, offsetBytes);
    const write = this.#writes++;
    for (let at = 0; at < data.length; at += sectorBytes) {
      const sector = (offsetBytes + at) / sectorBytes;
      // Taken out first, so that the order of the cache is that of the last writes.
      this.#cache.delete(sector);
      if (!isDurable) this.#cache.set(sector, { data: data.subarray(at, at + sectorBytes), write });
    }
    // A disk that lies about flushes has to lose what it holds, and not be saved by its small cache.
    if (!this.ignoresFlushes && this.#cache.size > cacheSectors) this.#destage(this.#cache.size - cacheSectors);
  }

  /** Brings the oldest sectors to where they stay. */
  #destage(count: number): void {
    let left = count;
    for (const [sector, { data }] of this.#cache) {
      if (left-- <= 0) return;
      writeSync(this.#file, data, 0, sectorBytes, sector * sectorBytes);
      this.#cache.delete(sector);
    }
  }
}
