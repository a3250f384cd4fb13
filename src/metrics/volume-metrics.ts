import { Gauge, type Registry } from 'prom-client';
import type { VolumeUsage } from '../pool/pool.ts';
import { claimOf, persistentVolumeNameOf } from '../volume/claim.ts';

/** Limit for one pool: time series cost memory in Prometheus. The other volumes are summed up. */
const maxVolumes = 1_000;

const infoLabels = [
  'volume_id',
  'pool',
  'name',
  'claim_namespace',
  'claim_name',
  'persistent_volume',
  'filesystem',
] as const;

/** Metrics of single volumes. The claim of a volume is only in `holdfast_volume_info`, to be joined by the id. */
export class VolumeMetrics {
  readonly #info: Gauge<(typeof infoLabels)[number]>;
  readonly #size: Gauge<'volume_id'>;
  readonly #used: Gauge<'volume_id'>;
  readonly #devices: Gauge<'volume_id'>;
  readonly #hidden: Gauge<'pool'>;
  readonly #hiddenSize: Gauge<'pool'>;
  readonly #hiddenUsed: Gauge<'pool'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const perVolume = (name: string, help: string) =>
      new Gauge({ name: `holdfast_volume_${name}`, help, labelNames: ['volume_id'] as const, registers });
    this.#info = new Gauge({
      name: 'holdfast_volume_info',
      help: 'Always 1; the labels describe the volume and its claim.',
      labelNames: infoLabels,
      registers,
    });
    this.#size = perVolume('size_bytes', 'Size of the volume.');
    this.#used = perVolume('used_bytes', 'Bytes of its data in the pool; deleted files count until they are trimmed.');
    this.#devices = perVolume(
      'devices',
      'Devices and directories of this node that show the volume; 0: it is not in use.',
    );
    const ofHidden = (name: string, help: string) =>
      new Gauge({ name: `holdfast_volumes_not_shown${name}`, help, labelNames: ['pool'] as const, registers });
    this.#hidden = ofHidden(
      '',
      `Volumes of a pool beyond the ${maxVolumes} with the most data, which have their own series.`,
    );
    this.#hiddenSize = ofHidden('_size_bytes', 'Size of these volumes together.');
    this.#hiddenUsed = ofHidden('_used_bytes', 'Bytes that the data of these volumes takes in the pool.');
  }

  reset(): void {
    for (const gauge of [this.#info, this.#size, this.#used, this.#devices]) gauge.reset();
    for (const gauge of [this.#hidden, this.#hiddenSize, this.#hiddenUsed]) gauge.reset();
  }

  show(pool: string, volumes: readonly VolumeUsage[]): void {
    const { hidden, shown } = chooseShown(volumes, maxVolumes);
    this.#hidden.set({ pool }, hidden.length);
    this.#hiddenSize.set({ pool }, Number(hidden.reduce((sum, { record }) => sum + record.sizeBytes, 0n)));
    this.#hiddenUsed.set({ pool }, Number(hidden.reduce((sum, { usedBytes }) => sum + usedBytes, 0n)));
    for (const { devices, record, usedBytes } of shown) {
      const { content, id: volume_id, name } = record;
      const claim = claimOf(record);
      this.#info.set(
        {
          volume_id,
          pool,
          name,
          claim_namespace: claim?.namespace ?? '',
          claim_name: claim?.name ?? '',
          persistent_volume: persistentVolumeNameOf(record) ?? '',
          filesystem: content.type === 'mount' ? content.fsType : '',
        },
        1,
      );
      this.#size.set({ volume_id }, Number(record.sizeBytes));
      this.#used.set({ volume_id }, Number(usedBytes));
      this.#devices.set({ volume_id }, devices);
    }
  }
}

interface ShownVolumes {
  readonly shown: readonly VolumeUsage[];
  readonly hidden: readonly VolumeUsage[];
}

/**
 * Chooses the volumes with metrics, if there are too many for all: those with the most data, as they fill the pool;
 * among equals the first by id. So the choice does not depend on the order in which they were read.
 */
export function chooseShown(volumes: readonly VolumeUsage[], max: number): ShownVolumes {
  if (volumes.length <= max) return { shown: volumes, hidden: [] };
  const sorted = volumes.toSorted((a, b) => {
    if (a.usedBytes !== b.usedBytes) return a.usedBytes > b.usedBytes ? -1 : 1;
    return a.record.id < b.record.id ? -1 : 1;
  });
  return { shown: sorted.slice(0, max), hidden: sorted.slice(max) };
}
