import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DriverProcess } from '../support/driver.ts';
import { ProgramStorage } from '../support/exec-pool.ts';
import { mountCapability } from '../support/node-volume.ts';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';

test('a driver makes, mounts, grows and deletes volumes of a program, as its configuration says', async () => {
  using directory = new ProgramDirectory();
  using scratch = new Scratch('exec-driver');
  mkdirSync(scratch.join('base', 'volumes'), { recursive: true });
  const storage = new ProgramStorage(scratch);
  const config = `
programs:
  storage: { path: ${directory.example('storage')}, protocol: json }
pools:
  made:
    kind: exec
    program: storage
    records: ${scratch.join('records')}
    options: { base: ${scratch.join('base')} }
`;
  await using driver = await DriverProcess.start(scratch, { config });
  using client = driver.connect();
  const capability = mountCapability('MULTI_NODE_MULTI_WRITER');
  const request = { name: 'a', capacity_range: { required_bytes: 64n << 20n }, volume_capabilities: [capability] };
  const { volume } = await client.controller.CreateVolume(request);
  const { volume: again } = await client.controller.CreateVolume(request);
  assert.deepEqual(again, volume);
  const { volume_context = {}, volume_id = '' } = volume ?? {};
  assert.equal(volume_context['kind'], 'exec');
  assert.deepEqual(storage.volumes(), [volume_id]);
  const staging = scratch.join('kubelet', 'staging');
  const pod = scratch.join('kubelet', 'pods');
  for (const path of [staging, pod]) mkdirSync(path, { recursive: true });
  const target_path = join(pod, 'mount');
  const staged = { volume_id, volume_context, staging_target_path: staging, volume_capability: capability };
  await client.node.NodeStageVolume(staged);
  await client.node.NodePublishVolume({ ...staged, target_path });
  writeFileSync(join(target_path, 'file'), 'data');
  assert.equal(readFileSync(scratch.join('base', 'volumes', volume_id, 'file'), 'utf8'), 'data');
  const { capacity_bytes } = await client.controller.ControllerExpandVolume({
    volume_id,
    capacity_range: { required_bytes: 128n << 20n },
    volume_capability: capability,
  });
  assert.equal(capacity_bytes, 128n << 20n);
  await client.node.NodeUnpublishVolume({ volume_id, target_path });
  await client.node.NodeUnstageVolume({ volume_id, staging_target_path: staging });
  await client.controller.DeleteVolume({ volume_id });
  assert.deepEqual([storage.volumes(), scratch.mounts()], [[], []]);
});
