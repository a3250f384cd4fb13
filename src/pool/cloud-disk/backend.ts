import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { singleNodeModes } from '../../volume/capability.ts';
import { InvalidArgument, ResourceExhausted } from '../../volume/errors.ts';
import { filesystemTypes } from '../../volume/filesystem.ts';
import { inZone } from '../../volume/topology.ts';
import type { Backend, Extras } from '../backend.ts';
import { ElsewhereAttacher } from '../network-disk/elsewhere.ts';
import type { ClusterReach, TopologyRequirement, Traits } from '../pool.ts';
import { writeCloudVolume } from './context.ts';
import { type CloudPlace, PoolDisks } from './disks.ts';
import { CloudProvisioner } from './provisioner.ts';
import { CloudPublisher } from './publisher.ts';
import { LabelStore } from './record-store.ts';
import { PoolSnapshots } from './snapshots.ts';
import { CloudSpace } from './space.ts';

export interface CloudBackendOptions extends CloudPlace {
  readonly kind: string;
  readonly queue: DiskQueue;
  /** The parameters of classes that the cloud has. */
  readonly parameters: readonly string[];
  /** The topology keys by which its nodes say their zone. */
  readonly zoneKeys: readonly string[];
  /** For volumes whose claim says nothing of zones; undefined: those are refused. */
  readonly defaultZone: string | undefined;
}

/** Disks of a cloud, with their records in their labels. No process owns them: each call asks the cloud. */
export class CloudBackend implements Backend {
  readonly kind: string;
  readonly traits: Traits;
  readonly queue: DiskQueue;
  readonly records: LabelStore;
  readonly provisioner: CloudProvisioner;
  readonly attacher = new ElsewhereAttacher();
  readonly snapshotDraft: Backend['snapshotDraft'];
  readonly space: CloudSpace;
  readonly cluster: ClusterReach;
  readonly extras: Extras = {};
  readonly #options: CloudBackendOptions;

  constructor(options: CloudBackendOptions) {
    this.#options = options;
    const { kind, parameters, queue } = options;
    const disks = new PoolDisks(options);
    const snapshots = new PoolSnapshots(disks);
    this.kind = kind;
    this.queue = queue;
    this.traits = cloudTraits(options.cloud.granularityBytes, parameters);
    this.records = new LabelStore(disks, snapshots);
    this.provisioner = new CloudProvisioner({ disks, snapshots, defaultZone: options.defaultZone });
    this.snapshotDraft = (id) => snapshots.draft(id);
    this.space = new CloudSpace(disks);
    this.cluster = {
      id: options.poolId,
      // A volume that is being deleted has neither: a list of volumes must not fail for it.
      contextOf({ id, parameters, source }) {
        const disk = disks.lastSeen(id);
        if (disk === undefined) return {};
        const mkfsOptions = parameters['mkfsOptions'] ?? '';
        return writeCloudVolume({ volumeId: disk.id, mkfsOptions, isRestored: source !== undefined });
      },
      publisher: new CloudPublisher(disks),
      topologyOf(record) {
        const disk = disks.lastSeen(record.id);
        return disk === undefined ? undefined : inZone(options.zoneKeys, disk.zone);
      },
      zoneFor: (requirement) => zoneFor(options, requirement),
      isSnapshotReady: (id) => snapshots.isReady(id),
    };
  }

  /** The device says it on the node. */
  blockSizeOf(): number {
    return 512;
  }

  /** There is no disk here: a cloud that does not answer is reported by the calls that it does not answer. */
  async probe(): Promise<void> {}

  abandon(): void {
    this.#options.cloud.close();
  }

  async close(): Promise<void> {
    this.#options.cloud.close();
  }
}

function cloudTraits(granularityBytes: bigint, parameters: readonly string[]): Traits {
  return {
    block: true,
    directories: false,
    filesystems: filesystemTypes,
    accessModes: singleNodeModes,
    provisioning: ['thin'],
    snapshots: 'reflink',
    hasNoGroups: true,
    changedBlocks: 'none',
    expansion: { online: true, offline: true },
    detaching: 'automatic',
    granularityBytes,
    parameters,
  };
}

function zoneFor(
  { defaultZone, poolName, zoneKeys }: Pick<CloudBackendOptions, 'defaultZone' | 'poolName' | 'zoneKeys'>,
  requirement: TopologyRequirement | undefined,
): string {
  const { preferred = [], requisite = [] } = requirement ?? {};
  const zonesIn = (topologies: readonly Readonly<Record<string, string>>[]) =>
    topologies.flatMap((segments) => zoneKeys.flatMap((key) => segments[key] ?? []).slice(0, 1));
  const allowed = zonesIn(requisite);
  const wanted = [...zonesIn(preferred), ...allowed].find((zone) => allowed.length === 0 || allowed.includes(zone));
  if (wanted !== undefined) return wanted;
  if (requisite.length > 0) {
    throw new ResourceExhausted(
      `pool ${poolName}: no node that the volume may be on says in which zone it is (${zoneKeys[0]}): is HOLDFAST_CLOUD set there?`,
    );
  }
  if (defaultZone !== undefined) return defaultZone;
  throw new InvalidArgument(
    `pool ${poolName}: the volume needs a zone: use volumeBindingMode: WaitForFirstConsumer in its class, or set zone of the pool.`,
  );
}
