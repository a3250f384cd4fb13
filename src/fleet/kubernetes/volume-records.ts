import { SharedRun } from '../../volume/flow/shared-run.ts';
import type { RecordedVolume } from './persistent-volumes.ts';

type ById = ReadonlyMap<string, readonly RecordedVolume[]>;

/** The two questions. */
export type RecordsOfVolumes = Pick<VolumeRecords, 'of' | 'lately'>;

/** The time for which a list is kept for callers that need no newer one. */
const keptMs = 30_000;

/**
 * The PersistentVolumes that stand for a volume: usually one. They are needed when no node has the volume, as Kubernetes
 * may know a node that the controller has never met, and when another node than the one that has it may have it.
 *
 * They can only be found in the list of all. When a node is gone, requests for its volumes come by the hundred, so a
 * caller that comes while a list is made waits for the next one, together with all others.
 */
export class VolumeRecords {
  readonly #list: () => AsyncIterable<RecordedVolume>;
  readonly #reading = new SharedRun(() => this.#read());
  #latest: ById | undefined;

  constructor(list: () => AsyncIterable<RecordedVolume>) {
    this.#list = list;
  }

  /** Returns them by a list that began after this call. @throws Unavailable */
  async of(volumeId: string): Promise<readonly RecordedVolume[]> {
    return (await this.#reading.run()).get(volumeId) ?? [];
  }

  /** Returns them by a list that is half a minute old at most. @throws Unavailable */
  async lately(volumeId: string): Promise<readonly RecordedVolume[]> {
    return (this.#latest ?? (await this.#reading.run())).get(volumeId) ?? [];
  }

  async #read(): Promise<ById> {
    const begunMs = performance.now();
    const found = new Map<string, RecordedVolume[]>();
    for await (const volume of this.#list()) {
      const known = found.get(volume.handle);
      if (known === undefined) found.set(volume.handle, [volume]);
      else known.push(volume);
    }
    this.#keep(found, keptMs - (performance.now() - begunMs));
    return found;
  }

  #keep(found: ById, forMs: number): void {
    this.#latest = forMs > 0 ? found : undefined;
    const end = () => {
      if (this.#latest === found) this.#latest = undefined;
    };
    setTimeout(end, forMs).unref();
  }
}
