import type { RecordedVolume } from './persistent-volumes.ts';

/**
 * The PersistentVolumes that stand for a volume: one, usually. They are asked for when no node has it: Kubernetes may know
 * of a node that the controller has never met.
 *
 * They can only be found in the list of all. When a node is gone its volumes are asked for by the hundred, so whoever comes
 * while a list is made waits for the next one, together with all others: nobody is answered by a list that began before he
 * came.
 */
export class VolumeRecords {
  readonly #list: () => AsyncIterable<RecordedVolume>;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<ReadonlyMap<string, readonly RecordedVolume[]>> | undefined;

  constructor(list: () => AsyncIterable<RecordedVolume>) {
    this.#list = list;
  }

  /** @throws Unavailable */
  async of(volumeId: string): Promise<readonly RecordedVolume[]> {
    this.#next ??= this.#listNext();
    return (await this.#next).get(volumeId) ?? [];
  }

  async #listNext(): Promise<ReadonlyMap<string, readonly RecordedVolume[]>> {
    await this.#running.catch(() => undefined);
    this.#next = undefined;
    const listed = this.#read();
    this.#running = listed;
    return listed;
  }

  async #read(): Promise<ReadonlyMap<string, readonly RecordedVolume[]>> {
    const found = new Map<string, RecordedVolume[]>();
    for await (const volume of this.#list()) {
      const known = found.get(volume.handle);
      if (known === undefined) found.set(volume.handle, [volume]);
      else known.push(volume);
    }
    return found;
  }
}
