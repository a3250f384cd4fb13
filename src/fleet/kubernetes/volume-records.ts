import { SharedRun } from '../../volume/flow/shared-run.ts';
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
  readonly #reading = new SharedRun(() => this.#read());

  constructor(list: () => AsyncIterable<RecordedVolume>) {
    this.#list = list;
  }

  /** @throws Unavailable */
  async of(volumeId: string): Promise<readonly RecordedVolume[]> {
    return (await this.#reading.run()).get(volumeId) ?? [];
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
