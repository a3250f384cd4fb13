import { setTimeout as delay } from 'node:timers/promises';
import { snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import type { SeededRandom } from '../../crash/seeded-random.ts';
import { CallError } from '../../support/client.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import { type Content, GuestVolume } from '../node/guest-volume.ts';
import {
  expectedChecksum,
  type FileFact,
  type Files,
  holds,
  type Sight,
  type SnapshotFact,
  stretchesOf,
} from './facts.ts';
import { insist } from './insist.ts';
import type { SceneUser } from './scene.ts';

/** Something that a user does, and what is known from the moment that it has an answer. */
interface Deed {
  readonly what: string;
  readonly call: () => Promise<unknown>;
  readonly commit: () => void;
  /** Whether it has come true although it had no answer. Without this, it leaves nothing that counts. */
  readonly happened?: (sight: Sight) => Promise<boolean> | boolean;
}

const mebibyte = 1n << 20n;
const sizes: Readonly<Record<Content, bigint>> = {
  ext4: 32n * mebibyte,
  xfs: 300n * mebibyte,
  block: 32n * mebibyte,
  directory: 32n * mebibyte,
};
const growthBytes = 16n * mebibyte;
const growths = 3n;
const mostSnapshots = 2;
/** In a block volume: so many stretches of so many bytes. */
const blockStretches = 32;
const blockStretchBytes = 256 << 10;
const scribbleBytes = 2 << 20;

/**
 * Uses one volume after another, one deed at a time, and knows of each deed whether it was acknowledged before the power
 * went: if so, it must have happened; if not, it may have, but wholly or not at all.
 */
export class User {
  readonly snapshots = new Map<string, SnapshotFact>();
  acknowledged = 0;
  volume: GuestVolume | undefined;
  files: Files = new Map();
  #sizeBytes = 0n;
  #isUndeletable = false;
  #isUsed = false;
  #under: Deed | undefined;
  #count = 0;
  readonly #node: GuestNode;
  readonly #name: string;
  readonly #random: SeededRandom;
  readonly #pool: string;
  readonly #contents: readonly Content[];
  readonly #class: Pick<SceneUser, 'encryption' | 'layout'>;
  readonly #onlyBytes: bigint | undefined;

  constructor(node: GuestNode, name: string, options: SceneUser & { readonly random: SeededRandom }) {
    this.#node = node;
    this.#name = name;
    this.#random = options.random;
    this.#pool = options.pool;
    this.#contents = options.contents;
    this.#class = options;
    this.#onlyBytes = options.onlyBytes;
  }

  /** Until the power is cut, of which `signal` tells. What fails before is thrown. */
  async work(signal: AbortSignal, acknowledged: () => void): Promise<void> {
    while (!signal.aborted) {
      const deed = this.#choose();
      this.#under = deed;
      try {
        await insist(`${this.#name}: ${deed.what}`, deed.call, signal);
      } catch (cause) {
        if (signal.aborted) return;
        throw new Error(`${this.#name}: ${deed.what}: ${cause instanceof Error ? cause.message : cause}`, { cause });
      }
      this.#under = undefined;
      deed.commit();
      this.acknowledged++;
      acknowledged();
    }
  }

  /** After a boot: nothing is in use, and the deed that had no answer has happened or has not. */
  async settle(sight: Sight): Promise<void> {
    this.#isUsed = false;
    const deed = this.#under;
    if (deed?.happened !== undefined && (await deed.happened(sight))) deed.commit();
    // What looks into the volume is asked when it can be seen again: see resume().
    if (deed?.what !== 'replace') this.#under = undefined;
    const { volume } = this;
    if (volume === undefined) return;
    const sizeBytes = sight.volumes.get(volume.id);
    holds(sizeBytes !== undefined, `${volume.name} (${volume.id}) was acknowledged and is gone`);
    holds(sizeBytes === this.#sizeBytes, `${volume.name} has ${sizeBytes} bytes, not ${this.#sizeBytes}`);
    const isUndeletable = sight.undeletable.has(volume.id);
    holds(isUndeletable === this.#isUndeletable, `${volume.name}: a change that was acknowledged is gone`);
  }

  /** Takes the volume into use again, and looks at every file that was acknowledged. @returns how many bytes it read */
  async resume(): Promise<{ readonly files: number; readonly bytes: number }> {
    const { volume } = this;
    if (volume === undefined) return { files: 0, bytes: 0 };
    await insist(`${volume.name}: use`, () => volume.use());
    this.#isUsed = true;
    const deed = this.#under;
    this.#under = undefined;
    if (await deed?.happened?.(noSight)) deed?.commit();
    return checkFiles(this.#node, this.files, volume.targetPath, volume.name);
  }

  #choose(): Deed {
    const { volume } = this;
    const random = this.#random;
    const snapshot = this.snapshots.size > 0 ? random.pick([...this.snapshots.values()]) : undefined;
    if (volume === undefined) {
      if (snapshot !== undefined && random.chance(0.2)) return this.#deleteSnapshot(snapshot);
      return this.#create(random.chance(0.4) ? snapshot : undefined);
    }
    const isOnly = this.#onlyBytes !== undefined;
    const maySnapshot = !isOnly && this.snapshots.size < mostSnapshots && (!this.#isUsed || this.#pool === 'default');
    if (!this.#isUsed) {
      if (random.chance(0.3) && !this.#isUndeletable) return this.#delete(volume);
      if (random.chance(0.2) && maySnapshot) return this.#snapshot(volume);
      return { what: 'use', call: () => volume.use(), commit: () => this.#setUsed(true) };
    }
    const chance = random.below(20);
    if (chance < 2 && maySnapshot) return this.#snapshot(volume);
    if (chance < 3 && snapshot !== undefined) return this.#deleteSnapshot(snapshot);
    const mayGrow = !isOnly && this.#sizeBytes < sizes[volume.content] + growthBytes * growths;
    if (chance < 4 && mayGrow) return this.#expand(volume);
    if (chance < 6) return this.#modify(volume);
    if (chance < 8) return { what: 'leave', call: () => volume.leave(), commit: () => this.#setUsed(false) };
    if (volume.content !== 'block') {
      if (chance < 10 && this.files.size > 0) return this.#replace(volume);
      if (chance < 12) return this.#scribble(volume);
    }
    return this.#write(volume);
  }

  #setUsed(isUsed: boolean): void {
    this.#isUsed = isUsed;
  }

  #create(source: SnapshotFact | undefined): Deed {
    const name = `${this.#name}-${this.#count++}`;
    const content = source?.content ?? this.#random.pick(this.#contents);
    const id = volumeIdFor(nodeId, this.#pool, name);
    const { encryption, layout } = this.#class;
    const volume = new GuestVolume(this.#node, id, { name, content, pool: this.#pool, encryption, layout });
    const sizeBytes = this.#onlyBytes ?? source?.sizeBytes ?? sizes[content];
    return {
      what: `create ${content}`,
      call: () => whenFree(() => volume.create(sizeBytes, source?.id), this.#onlyBytes !== undefined),
      happened: ({ volumes }) => volumes.has(id),
      commit: () => {
        this.volume = volume;
        this.files = source?.files ?? new Map();
        this.#sizeBytes = sizeBytes;
        this.#isUndeletable = false;
      },
    };
  }

  #delete(volume: GuestVolume): Deed {
    return {
      what: 'delete',
      call: () => volume.delete(),
      happened: ({ volumes }) => !volumes.has(volume.id),
      commit: () => {
        this.volume = undefined;
      },
    };
  }

  #snapshot(volume: GuestVolume): Deed {
    const name = `${this.#name}-snapshot-${this.#count++}`;
    const id = snapshotIdFor(nodeId, name);
    // What was written before the cut is in it, told to the disk or not.
    const isWritten = this.#isUsed && volume.content !== 'block' && this.#random.chance(0.5);
    const unsynced = this.#fact();
    const unsyncedName = `unsynced-${this.#count}`;
    const files: Files = isWritten ? new Map([...this.files, [unsyncedName, unsynced]]) : this.files;
    const fact = { name, id, content: volume.content, pool: volume.pool, sizeBytes: this.#sizeBytes, files };
    return {
      what: 'snapshot',
      call: async () => {
        const path = `${volume.targetPath}/${unsyncedName}`;
        if (isWritten) await this.#node.vm.task('write', { ...unsynced, path, unsynced: true });
        await volume.snapshot(name);
      },
      happened: ({ snapshots }) => snapshots.has(id),
      commit: () => this.snapshots.set(name, fact),
    };
  }

  #deleteSnapshot({ id, name }: SnapshotFact): Deed {
    return {
      what: 'delete snapshot',
      call: () => this.#node.client.controller.DeleteSnapshot({ snapshot_id: id }),
      happened: ({ snapshots }) => !snapshots.has(id),
      commit: () => this.snapshots.delete(name),
    };
  }

  #expand(volume: GuestVolume): Deed {
    const sizeBytes = this.#sizeBytes + growthBytes;
    return {
      what: 'expand',
      call: () => volume.expand(sizeBytes),
      happened: ({ volumes }) => volumes.get(volume.id) === sizeBytes,
      commit: () => {
        this.#sizeBytes = sizeBytes;
      },
    };
  }

  #modify(volume: GuestVolume): Deed {
    const isUndeletable = !this.#isUndeletable;
    return {
      what: 'modify',
      call: () => volume.modify({ undelete: isUndeletable ? '1h' : '0' }),
      happened: ({ undeletable }) => undeletable.has(volume.id) === isUndeletable,
      commit: () => {
        this.#isUndeletable = isUndeletable;
      },
    };
  }

  /** A new file; in a block volume, a stretch that may have been written before. */
  #write(volume: GuestVolume): Deed {
    const stretch = this.#random.below(blockStretches);
    const isBlock = volume.content === 'block';
    const name = isBlock ? `${stretch}` : `file-${this.#count++ % 40}`;
    const fact: FileFact = isBlock
      ? { seed: this.#seed(), sizeBytes: blockStretchBytes, offsetBytes: stretch * blockStretchBytes }
      : this.#fact();
    const path = isBlock ? volume.targetPath : `${volume.targetPath}/${name}`;
    // Until there is an answer it is the old, the new, or some of both.
    const before = this.files;
    this.files = new Map([...before].filter(([key]) => key !== name));
    return {
      what: 'write',
      call: () => this.#node.vm.task('write', { ...fact, path }),
      commit: () => {
        this.files = new Map([...this.files, [name, fact]]);
      },
    };
  }

  /** Written beside, and renamed into place: either the old or the new one is there. */
  #replace(volume: GuestVolume): Deed {
    const name = this.#random.pick([...this.files.keys()]);
    const fact = this.#fact();
    const path = `${volume.targetPath}/${name}`;
    return {
      what: 'replace',
      call: () => this.#node.vm.task('write', { ...fact, path, replaces: true }),
      happened: async (sight) => {
        if (sight !== noSight) return false;
        const [checksum] = await this.#node.vm.task('checksums', [{ path, sizeBytes: fact.sizeBytes }]);
        return checksum === expectedChecksum(fact);
      },
      commit: () => {
        this.files = new Map([...this.files, [name, fact]]);
      },
    };
  }

  /** What nobody asks to be kept, so that there is something to lose. */
  #scribble(volume: GuestVolume): Deed {
    const written = {
      path: `${volume.targetPath}/scribble`,
      seed: this.#seed(),
      sizeBytes: scribbleBytes,
      unsynced: true,
    };
    return { what: 'scribble', call: () => this.#node.vm.task('write', written), commit: () => undefined };
  }

  #fact(): FileFact {
    return { seed: this.#seed(), sizeBytes: 1 + this.#random.below(300_000) };
  }

  #seed(): number {
    return this.#random.below(2 ** 32);
  }
}

/** What was deleted is wiped behind the answer, and that takes a while on a busy machine. */
async function whenFree(create: () => Promise<void>, isOnly: boolean): Promise<void> {
  for (let triesLeft = isOnly ? 600 : 0; ; triesLeft--) {
    try {
      return await create();
    } catch (error) {
      if (!(error instanceof CallError) || error.code !== 'RESOURCE_EXHAUSTED' || triesLeft === 0) throw error;
      await delay(500);
    }
  }
}

/** Looked at with the volume in use. */
const noSight: Sight = { volumes: new Map(), snapshots: new Set(), undeletable: new Set() };

/** Asserts that each file has what was acknowledged. */
export async function checkFiles(
  node: GuestNode,
  files: Files,
  targetPath: string,
  about: string,
): Promise<{ readonly files: number; readonly bytes: number }> {
  const found = await node.vm.task('checksums', stretchesOf(files, targetPath));
  let bytes = 0;
  for (const [index, [name, fact]] of [...files].entries()) {
    holds(found[index] === expectedChecksum(fact), `${about}: ${name} is not what was written and fsynced`);
    bytes += fact.sizeBytes;
  }
  return { files: files.size, bytes };
}
