import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { groupIdFor, memberIdFor, snapshotIdFor } from '../../src/volume/id.ts';
import { parseRecord } from '../../src/volume/record.ts';
import { type CrashNode, nodeId } from '../crash/crash-node.ts';
import { volumeMounts } from '../crash/invariants.ts';
import { type Loop, loopsOver, type MountLine } from '../crash/kernel-sight.ts';
import { TestVolume } from '../crash/test-volume.ts';
import { CallError } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import type { HostileNode } from './hostile-node.ts';
import type { Lexicon } from './requests.ts';

const ephemeralHandle = 'csi-inline';
const snapshotNames = ['cut-1', 'cut-2', 'cut-3'] as const;
const groupName = 'group';

/** What a cluster has on a node: volumes in use and not, snapshots, a group, an inline volume. */
export class Fixture {
  readonly lexicon: Lexicon;
  readonly #node: CrashNode;
  readonly #used: readonly [TestVolume, TestVolume];
  readonly #block: TestVolume;
  readonly #idle: TestVolume;
  readonly #inlineTarget: string;

  constructor({ forbiddenPaths, node }: HostileNode) {
    this.#node = node;
    const filesystem = new TestVolume(node, 'filesystem', { type: 'mount', fsType: 'ext4' });
    this.#block = new TestVolume(node, 'block', { type: 'block' });
    this.#idle = new TestVolume(node, 'idle', { type: 'mount', fsType: 'ext4' });
    this.#used = [filesystem, this.#block];
    const spare = new TestVolume(node, 'spare', { type: 'mount', fsType: 'ext4' });
    this.#inlineTarget = join(node.kubeletDirectory, 'pods', 'inline', 'volume');
    mkdirSync(dirname(this.#inlineTarget), { recursive: true });
    const volumes = [...this.#used, this.#idle, spare];
    const groupId = groupIdFor(nodeId, groupName);
    this.lexicon = {
      volumeIds: [...volumes.map(({ id }) => id), ephemeralHandle, 'csi-other'],
      snapshotIds: [
        ...snapshotNames.map((name) => snapshotIdFor(nodeId, name)),
        ...[filesystem, this.#idle].map(({ id }) => memberIdFor(groupId, id)),
      ],
      groupIds: [groupId, groupIdFor(nodeId, 'other')],
      names: [...volumes.map(({ name }) => name), ...snapshotNames, groupName, 'new'],
      nodeIds: [nodeId],
      paths: [
        ...volumes.flatMap(({ stagingPath, targetPath }) => [stagingPath, targetPath, `${targetPath}-2`]),
        ...[this.#inlineTarget, `${spare.stagingPath}/${spare.id}`],
      ],
      forbiddenPaths,
    };
  }

  /** Puts back what requests have undone; if they left something else in its place, everything begins anew. */
  async ensure(): Promise<void> {
    try {
      await this.build();
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      await undoAll(this.#node);
      await this.build();
    }
  }

  /** Everything in its place, on an empty node. */
  async build(): Promise<void> {
    const { controller, groupController, node } = this.#node.client;
    for (const volume of [...this.#used, this.#idle]) await volume.create();
    for (const volume of this.#used) {
      await volume.attach();
      await volume.stage();
      await volume.publish();
    }
    for (const [index, name] of snapshotNames.entries()) {
      const source = index === 2 ? this.#idle : this.#block;
      await controller.CreateSnapshot({ name, source_volume_id: source.id });
    }
    const source_volume_ids = [this.#used[0].id, this.#idle.id];
    await groupController.CreateVolumeGroupSnapshot({ name: groupName, source_volume_ids });
    await node.NodePublishVolume({
      volume_id: ephemeralHandle,
      target_path: this.#inlineTarget,
      volume_capability: { mount: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
      volume_context: { 'csi.storage.k8s.io/ephemeral': 'true', size: '32Mi' },
    });
  }
}

/** Undoes, by calls of the driver alone, whatever became of the volumes on a node. */
export async function undoAll(node: CrashNode): Promise<void> {
  const { controller, groupController } = node.client;
  // What others look at may be busy for a moment, and a volume goes after what shows it.
  for (let round = 0; round < 5; round++) {
    for (const mount of volumeMounts(node).reverse()) await undo(node, mount);
    if (volumeMounts(node).length === 0) break;
  }
  const { entries: snapshots } = await controller.ListSnapshots({});
  const groupIds = new Set(snapshots.map(({ snapshot }) => snapshot?.group_snapshot_id ?? ''));
  for (const group_snapshot_id of groupIds) {
    const members = snapshots.filter(({ snapshot }) => snapshot?.group_snapshot_id === group_snapshot_id);
    const snapshot_ids = members.map(({ snapshot }) => snapshot?.snapshot_id ?? '');
    if (group_snapshot_id !== '') {
      await groupController.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
    } else for (const snapshot_id of snapshot_ids) await controller.DeleteSnapshot({ snapshot_id });
  }
  const { entries } = await controller.ListVolumes({});
  for (const { status, volume } of entries) {
    const volume_id = volume?.volume_id ?? '';
    if ((status?.published_node_ids ?? []).length > 0) await controller.ControllerUnpublishVolume({ volume_id });
    // Another process may have come by a mount namespace with our mounts in it, for a moment.
    await eventually(async () => {
      await controller.DeleteVolume({ volume_id });
    });
  }
  // Of inline volumes whose publish failed there is nothing but a name; targets of block volumes are files.
  await sweepTargets(node);
}

/** Whose mount it is, only its device tells; whether staged or published, nobody does. */
async function undo(node: CrashNode, mount: MountLine): Promise<void> {
  const { node: service } = node.client;
  const volume_id = callerIdOf(node, mount);
  const target_path = mount.target;
  await ignoringRefusal(service.NodeUnpublishVolume({ volume_id, target_path }));
  for (const staging_target_path of [target_path, dirname(target_path)]) {
    if (!volumeMounts(node).some(({ target }) => target === target_path)) return;
    await ignoringRefusal(service.NodeUnstageVolume({ volume_id, staging_target_path }));
  }
}

async function ignoringRefusal(call: Promise<unknown>): Promise<void> {
  await call.catch((error) => {
    if (!(error instanceof CallError)) throw error;
  });
}

function callerIdOf({ defaultPool }: CrashNode, { device, root, source }: MountLine): string {
  const shows = ({ number }: Loop) =>
    device === `7:${number}` || source === `/dev/loop${number}` || root === `/loop${number}`;
  const id = basename(dirname(loopsOver(defaultPool.root).find(shows)?.backingFile ?? ''));
  const path = join(defaultPool.root, 'volumes', id, 'volume.json');
  return parseRecord(readFileSync(path, 'utf8'), path).ephemeral?.handle ?? id;
}

/** An unpublish removes the empty target that somebody, perhaps a publish that failed, has left. */
async function sweepTargets({ client, kubeletDirectory }: CrashNode): Promise<void> {
  for (const pod of readdirSync(join(kubeletDirectory, 'pods'))) {
    for (const name of readdirSync(join(kubeletDirectory, 'pods', pod))) {
      const target_path = join(kubeletDirectory, 'pods', pod, name);
      await client.node.NodeUnpublishVolume({ volume_id: `vol-${'a'.repeat(26)}`, target_path });
    }
  }
}
