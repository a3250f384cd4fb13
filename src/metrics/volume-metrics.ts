import { Gauge, type Registry } from 'prom-client';
import type { VolumeUsage } from '../pool/pool.ts';
import { claimOf, persistentVolumeNameOf } from '../volume/claim.ts';

/** Time series cost their keeper memory: more volumes than this in one pool are counted, not shown one by one. */
const mostVolumes = 1_000;

const infoLabels = [
  'volume_id',
  'pool',
  'name',
  'claim_namespace',
  'claim_name',
  'persistent_volume',
  'filesystem',
] as const;

/** One by one, the volumes. Who a volume is for is said once, in `holdfast_volume_info`, to be joined by its id. */
export class VolumeMetrics {
  readonly #info: Gauge<(typeof infoLabels)[number]>;
  readonly #size: Gauge<'volume_id'>;
  readonly #used: Gauge<'volume_id'>;
  readonly #devices: Gauge<'volume_id'>;
  readonly #hidden: Gauge<'pool'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const perVolume = (name: string, help: string) =>
      new Gauge({ name: `holdfast_volume_${name}`, help, labelNames: ['volume_id'] as const, registers });
    this.#info = new Gauge({
      name: 'holdfast_volume_info',
      help: 'Always 1; what the volume is, and for which claim it was made.',
      labelNames: infoLabels,
      registers,
    });
    this.#size = perVolume('size_bytes', 'How large the volume is.');
    this.#used = perVolume(
      'used_bytes',
      'What its data takes in the pool; deleted files count until they are trimmed.',
    );
    this.#devices = perVolume('devices', 'Loop devices of this node that show the volume; 0: it is not in use.');
    this.#hidden = new Gauge({
      name: 'holdfast_volumes_not_shown',
      help: `Volumes beyond the ${mostVolumes} of a pool that are shown one by one.`,
      labelNames: ['pool'],
      registers,
    });
  }

  reset(): void {
    for (const gauge of [this.#info, this.#size, this.#used, this.#devices, this.#hidden]) gauge.reset();
  }

  show(pool: string, volumes: readonly VolumeUsage[]): void {
    this.#hidden.set({ pool }, Math.max(0, volumes.length - mostVolumes));
    for (const { devices, record, usedBytes } of volumes.slice(0, mostVolumes)) {
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
