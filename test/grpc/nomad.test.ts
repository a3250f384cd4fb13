import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { assertNothingLeft, DriverProcess } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

/*
 * The calls that Nomad's documentation describes (developer.hashicorp.com/nomad/docs/concepts/plugins/storage/csi), played
 * by the test: there is no Nomad agent here. Unlike the kubelet, Nomad tells no pod and no class, and has its own paths.
 */

/** access_mode and attachment_mode of a volume, as Nomad writes them, and what it makes of them. */
const usages = [
  {
    accessMode: 'single-node-writer',
    attachmentMode: 'file-system',
    capability: { mount: { fs_type: '', mount_flags: [] }, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
  },
  {
    accessMode: 'single-node-reader-only',
    attachmentMode: 'file-system',
    capability: {
      mount: { fs_type: 'ext4', mount_flags: ['noatime'] },
      access_mode: { mode: 'SINGLE_NODE_READER_ONLY' },
    },
  },
  {
    accessMode: 'single-node-writer',
    attachmentMode: 'block-device',
    capability: { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
  },
] as const satisfies readonly {
  capability: Draft<wire.VolumeCapability>;
  accessMode: string;
  attachmentMode: string;
}[];

describe('Nomad', () => {
  for (const { accessMode, attachmentMode, capability } of usages) {
    test(`a volume from nomad volume create to delete: ${attachmentMode}, ${accessMode}`, async () => {
      using scratch = new Scratch('nomad');
      {
        // stage_publish_base_dir of deploy/examples/nomad/holdfast.nomad.hcl.
        const base = scratch.join('local/csi');
        mkdirSync(base, { recursive: true });
        await using driver = await DriverProcess.start(scratch, { environment: { HOLDFAST_KUBELET_DIR: base } });
        using client = driver.connect();
        const { controller, identity, node } = client;

        // The fingerprint of the plugin, again and again.
        for (let round = 0; round < 2; round++) {
          assert.equal((await identity.Probe({})).ready?.value, true);
          assert.equal((await identity.GetPluginInfo({})).name, 'holdfast.csi.dev');
          await identity.GetPluginCapabilities({});
          await controller.ControllerGetCapabilities({});
          await node.NodeGetCapabilities({});
          assert.equal((await node.NodeGetInfo({})).node_id, 'node-1');
        }

        // nomad volume create volume.hcl: no parameters of Kubernetes.
        const created = await controller.CreateVolume({
          name: 'notes',
          capacity_range: { required_bytes: 64n << 20n, limit_bytes: 128n << 20n },
          volume_capabilities: [capability],
          parameters: {},
          secrets: {},
        });
        const volume_id = created.volume?.volume_id ?? '';
        const volume_context = created.volume?.volume_context ?? {};
        await controller.ValidateVolumeCapabilities({ volume_id, volume_context, volume_capabilities: [capability] });
        assert.equal((await controller.ListVolumes({ max_entries: 10 })).entries.length, 1);

        // An allocation is placed on the client, twice; the second time the directory of the target is there already.
        const usage = `${accessMode.endsWith('reader-only') ? 'ro' : 'rw'}-${attachmentMode}-${accessMode}`;
        const staging_target_path = `${base}/staging/default/notes/${usage}`;
        for (const [round, allocation] of ['7a1c0f6e', '0b54e6a2'].entries()) {
          const target_path = `${base}/per-alloc/${allocation}/notes/${usage}`;
          const isReadonly = usage.startsWith('ro');
          mkdirSync(staging_target_path, { recursive: true });
          mkdirSync(round === 0 || attachmentMode === 'block-device' ? dirname(target_path) : target_path, {
            recursive: true,
          });
          const staged = {
            volume_id,
            staging_target_path,
            volume_capability: capability,
            volume_context,
            publish_context: {},
          };
          await node.NodeStageVolume(staged);
          await node.NodePublishVolume({ ...staged, target_path, readonly: isReadonly });
          if (attachmentMode === 'file-system' && !isReadonly) {
            const file = `${target_path}/starts`;
            if (round === 1) assert.equal(readFileSync(file, 'utf8'), 'first');
            writeFileSync(file, 'first');
          } else assert.ok(existsSync(target_path));
          // The client restarts, and claims again.
          await node.NodePublishVolume({ ...staged, target_path, readonly: isReadonly });
          await node.NodeUnpublishVolume({ volume_id, target_path });
          await node.NodeUnstageVolume({ volume_id, staging_target_path });
        }

        // nomad volume snapshot create, delete; nomad volume delete.
        if (attachmentMode === 'file-system') {
          const { snapshot } = await controller.CreateSnapshot({ source_volume_id: volume_id, name: 'notes-monday' });
          await controller.DeleteSnapshot({ snapshot_id: snapshot?.snapshot_id ?? '' });
        }
        await controller.DeleteVolume({ volume_id });
        assert.equal((await controller.ListVolumes({})).entries.length, 0);
      }
      await assertNothingLeft(scratch);
    });
  }
});
