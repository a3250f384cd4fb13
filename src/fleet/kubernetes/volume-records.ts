import type { RecordedVolume } from './persistent-volumes.ts';

/**
 * The PersistentVolumes that stand for a volume: usually one. They are needed when no node has the volume: Kubernetes
 * may know a node that the controller has never met.
 *
 * They can only be found in the list of all. When a node is gone, requests for its volumes come by the hundred, so a
 * caller that comes while a list is made waits for the next one, together with all others: no caller gets a list that
 * began before its request.
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
