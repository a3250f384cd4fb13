import { parseRecord, type VolumeRecord } from '../../../src/volume/record.ts';
import { eventually } from '../../support/eventually.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { holds, type Sight } from './facts.ts';

export const deadlineMs = 300_000;

/** Where the files of a pool lie in the machine. */
export interface PoolPlace {
  readonly name: string;
  readonly root: string;
}

/** What the driver lists. */
export interface Listed {
  /** Sorted. */
  readonly volumeIds: readonly string[];
  readonly snapshotIds: readonly string[];
  /** Sizes by id. */
  readonly volumes: ReadonlyMap<string, bigint>;
}

export async function list(node: GuestNode): Promise<Listed> {
  const { controller } = node.client;
  const volumes = (await controller.ListVolumes({}, { deadlineMs })).entries.map(({ volume }) => volume);
  const snapshots = (await controller.ListSnapshots({}, { deadlineMs })).entries.map(({ snapshot }) => snapshot);
  const volumeIds = volumes.map((volume) => volume?.volume_id ?? '').sort();
  const snapshotIds = snapshots.map((snapshot) => snapshot?.snapshot_id ?? '').sort();
  holds(new Set(volumeIds).size === volumeIds.length, 'a volume is listed twice');
  holds(
    snapshots.every((snapshot) => snapshot?.ready_to_use === true),
    'a snapshot is listed that is not ready',
  );
  const sizes = new Map(volumes.map((volume) => [volume?.volume_id ?? '', volume?.capacity_bytes ?? 0n]));
  return { volumeIds, snapshotIds, volumes: sizes };
}

/** What the driver shows, and that nothing half done lies in its pools beside that. */
export async function look(node: GuestNode, pools: readonly PoolPlace[]): Promise<Sight> {
  const { snapshotIds, volumeIds, volumes } = await list(node);
  await eventually(async () => {
    const directories = ['volumes', 'snapshots', 'tmp', 'trash'].map((name) =>
      pools.map(({ root }) => `${root}/${name}`),
    );
    const found = await node.vm.task('list', directories.flat());
    const [inVolumes, inSnapshots, inTmp, inTrash] = directories.map((paths, index) =>
      found
        .slice(index * paths.length, (index + 1) * paths.length)
        .flat()
        .sort(),
    );
    holds(`${inVolumes}` === `${volumeIds}`, `volumes/ has ${inVolumes}, but ListVolumes ${volumeIds}`);
    holds(`${inSnapshots}` === `${snapshotIds}`, `snapshots/ has ${inSnapshots}, but ListSnapshots ${snapshotIds}`);
    // The draft of a copy waits for the call that goes on with it.
    const drafts = inTmp?.filter((name) => !name.endsWith('.copy')) ?? [];
    holds(drafts.length === 0, `tmp/ has something half made in it: ${drafts}`);
    const originals = await originalsIn(node, pools);
    holds(inTrash?.length === originals, `trash/ has something half removed in it: ${inTrash}`);
  }, deadlineMs);
  const texts = await Promise.all(
    pools.map(({ root }) => node.vm.task('readAll', { parent: `${root}/volumes`, name: 'volume.json' })),
  );
  const records = texts.flat().map((text) => parseRecord(text, 'a record in the virtual machine'));
  return {
    volumes,
    snapshots: new Set(snapshotIds),
    undeletable: undeletableOf(records),
  };
}

/** How many volumes are kept as they were before they were repaired: the power went as their superblock was written. */
async function originalsIn(node: GuestNode, pools: readonly PoolPlace[]): Promise<number> {
  const texts = await Promise.all(
    pools.map(({ root }) =>
      node.vm.task('readAll', { parent: `${root}/trash`, name: 'volume.json' }).catch(() => ['half removed']),
    ),
  );
  return texts.flat().filter((text) => text.includes(' before its repair of ')).length;
}

/** Those that can be brought back for a time once they are deleted. */
export function undeletableOf(records: readonly VolumeRecord[]): ReadonlySet<string> {
  return new Set(records.filter(({ undeleteSeconds = 0 }) => undeleteSeconds > 0).map(({ id }) => id));
}
